package convert

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// setDefault fills in a field that is not set.
func setDefault[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// gatewayDefaults applies in place what the definitions of the Gateway API have as defaults: an API server does, and a
// directory must read the same.
func gatewayDefaults(v metav1.Object) {
	switch t := v.(type) {
	case *gatewayv1.GatewayClass:
		t.Status.Conditions = reported(t.Status.Conditions)
	case *gatewayv1.Gateway:
		t.Status.Conditions = reported(t.Status.Conditions)
		defaultGateway(&t.Spec)
	case *gatewayv1.ListenerSet:
		t.Status.Conditions = reported(t.Status.Conditions)
		setDefault(&t.Spec.ParentRef.Group, gatewayv1.GroupName)
		setDefault(&t.Spec.ParentRef.Kind, "Gateway")
		for i := range t.Spec.Listeners {
			l := &t.Spec.Listeners[i]
			defaultListener(&l.AllowedRoutes, l.TLS)
		}
	case *gatewayv1.HTTPRoute:
		defaultParents(t.Spec.ParentRefs)
		defaultHTTPRoute(&t.Spec)
	case *gatewayv1.GRPCRoute:
		defaultParents(t.Spec.ParentRefs)
		defaultGRPCRoute(&t.Spec)
	case *gatewayv1.TLSRoute:
		defaultParents(t.Spec.ParentRefs)
		for i := range t.Spec.Rules {
			defaultBackends(t.Spec.Rules[i].BackendRefs)
		}
	case *gatewayv1.TCPRoute:
		defaultParents(t.Spec.ParentRefs)
		for i := range t.Spec.Rules {
			defaultBackends(t.Spec.Rules[i].BackendRefs)
		}
	case *gatewayv1.UDPRoute:
		defaultParents(t.Spec.ParentRefs)
		for i := range t.Spec.Rules {
			defaultBackends(t.Spec.Rules[i].BackendRefs)
		}
	}
}

// reported leaves out the conditions that the definitions put there until a controller reports: they are dated 1970.
func reported(in []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range in {
		if c.LastTransitionTime.Unix() != 0 {
			out = append(out, c)
		}
	}
	return out
}

func defaultGateway(s *gatewayv1.GatewaySpec) {
	for i := range s.Listeners {
		defaultListener(&s.Listeners[i].AllowedRoutes, s.Listeners[i].TLS)
	}
	for i := range s.Addresses {
		setDefault(&s.Addresses[i].Type, gatewayv1.IPAddressType)
	}
	if a := s.AllowedListeners; a != nil {
		setDefault(&a.Namespaces, gatewayv1.ListenerNamespaces{})
		setDefault(&a.Namespaces.From, gatewayv1.NamespacesFromNone)
	}
	if s.TLS == nil {
		return
	}
	if b := s.TLS.Backend; b != nil && b.ClientCertificateRef != nil {
		defaultSecret(b.ClientCertificateRef)
	}
	if f := s.TLS.Frontend; f != nil {
		defaultValidation(f.Default.Validation)
		for i := range f.PerPort {
			defaultValidation(f.PerPort[i].TLS.Validation)
		}
	}
}

func defaultValidation(v *gatewayv1.FrontendTLSValidation) {
	if v != nil && v.Mode == "" {
		v.Mode = gatewayv1.AllowValidOnly
	}
}

func defaultListener(allowed **gatewayv1.AllowedRoutes, tls *gatewayv1.ListenerTLSConfig) {
	setDefault(allowed, gatewayv1.AllowedRoutes{})
	setDefault(&(*allowed).Namespaces, gatewayv1.RouteNamespaces{})
	setDefault(&(*allowed).Namespaces.From, gatewayv1.NamespacesFromSame)
	for i := range (*allowed).Kinds {
		setDefault(&(*allowed).Kinds[i].Group, gatewayv1.GroupName)
	}
	if tls == nil {
		return
	}
	setDefault(&tls.Mode, gatewayv1.TLSModeTerminate)
	for i := range tls.CertificateRefs {
		defaultSecret(&tls.CertificateRefs[i])
	}
}

func defaultSecret(r *gatewayv1.SecretObjectReference) {
	setDefault(&r.Group, "")
	setDefault(&r.Kind, "Secret")
}

func defaultParents(refs []gatewayv1.ParentReference) {
	for i := range refs {
		setDefault(&refs[i].Group, gatewayv1.GroupName)
		setDefault(&refs[i].Kind, "Gateway")
	}
}

func defaultBackend(r *gatewayv1.BackendObjectReference) {
	setDefault(&r.Group, "")
	setDefault(&r.Kind, "Service")
}

func defaultBackends(refs []gatewayv1.BackendRef) {
	for i := range refs {
		defaultBackend(&refs[i].BackendObjectReference)
		setDefault(&refs[i].Weight, 1)
	}
}

func defaultPath() *gatewayv1.HTTPPathMatch {
	kind, value := gatewayv1.PathMatchPathPrefix, "/"
	return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}
}

func defaultHTTPRoute(s *gatewayv1.HTTPRouteSpec) {
	if s.Rules == nil {
		s.Rules = []gatewayv1.HTTPRouteRule{{}}
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		if r.Matches == nil {
			r.Matches = []gatewayv1.HTTPRouteMatch{{Path: defaultPath()}}
		}
		for j := range r.Matches {
			defaultHTTPMatch(&r.Matches[j])
		}
		defaultHTTPFilters(r.Filters)
		for j := range r.BackendRefs {
			b := &r.BackendRefs[j]
			defaultBackend(&b.BackendObjectReference)
			setDefault(&b.Weight, 1)
			defaultHTTPFilters(b.Filters)
		}
		defaultSession(r.SessionPersistence)
	}
}

func defaultHTTPMatch(m *gatewayv1.HTTPRouteMatch) {
	if m.Path == nil {
		m.Path = defaultPath()
	}
	setDefault(&m.Path.Type, gatewayv1.PathMatchPathPrefix)
	setDefault(&m.Path.Value, "/")
	for i := range m.Headers {
		setDefault(&m.Headers[i].Type, gatewayv1.HeaderMatchExact)
	}
	for i := range m.QueryParams {
		setDefault(&m.QueryParams[i].Type, gatewayv1.QueryParamMatchExact)
	}
}

func defaultHTTPFilters(filters []gatewayv1.HTTPRouteFilter) {
	for i := range filters {
		f := &filters[i]
		if f.RequestRedirect != nil {
			setDefault(&f.RequestRedirect.StatusCode, 302)
		}
		if f.CORS != nil && f.CORS.MaxAge == 0 {
			f.CORS.MaxAge = 5
		}
		if f.ExternalAuth != nil {
			defaultBackend(&f.ExternalAuth.BackendRef)
		}
		defaultMirror(f.RequestMirror)
	}
}

func defaultMirror(m *gatewayv1.HTTPRequestMirrorFilter) {
	if m == nil {
		return
	}
	defaultBackend(&m.BackendRef)
	if m.Fraction != nil {
		setDefault(&m.Fraction.Denominator, 100)
	}
}

func defaultSession(p *gatewayv1.SessionPersistence) {
	if p == nil {
		return
	}
	setDefault(&p.Type, gatewayv1.CookieBasedSessionPersistence)
	if p.CookieConfig != nil {
		setDefault(&p.CookieConfig.LifetimeType, gatewayv1.SessionCookieLifetimeType)
	}
}

func defaultGRPCRoute(s *gatewayv1.GRPCRouteSpec) {
	for i := range s.Rules {
		r := &s.Rules[i]
		for j := range r.Matches {
			m := &r.Matches[j]
			if m.Method != nil {
				setDefault(&m.Method.Type, gatewayv1.GRPCMethodMatchExact)
			}
			for k := range m.Headers {
				setDefault(&m.Headers[k].Type, gatewayv1.GRPCHeaderMatchExact)
			}
		}
		for j := range r.Filters {
			defaultMirror(r.Filters[j].RequestMirror)
		}
		for j := range r.BackendRefs {
			b := &r.BackendRefs[j]
			defaultBackend(&b.BackendObjectReference)
			setDefault(&b.Weight, 1)
			for k := range b.Filters {
				defaultMirror(b.Filters[k].RequestMirror)
			}
		}
		defaultSession(r.SessionPersistence)
	}
}
