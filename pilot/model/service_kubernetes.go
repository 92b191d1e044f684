package model

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Annotations and labels that shape services.
const (
	annotationExportTo           = "networking.istio.io/exportTo"
	annotationDistribution       = "networking.istio.io/traffic-distribution"
	annotationCanonicalAccounts  = "alpha.istio.io/canonical-serviceaccounts"
	annotationKubernetesAccounts = "alpha.istio.io/kubernetes-serviceaccounts"
	annotationNodeSelector       = "traffic.istio.io/nodeSelector"
	labelPersistentSession       = "istio.io/persistent-session"
	labelPersistentSessionHeader = "istio.io/persistent-session-header"

	unspecifiedAddress = "0.0.0.0"
)

// kubernetesHost returns the host of a Kubernetes service.
func kubernetesHost(name, namespace, domain string) string {
	return name + "." + namespace + ".svc." + domain
}

// kubernetesName returns the name of the Kubernetes service of namespace whose host is host.
func kubernetesName(host, namespace, domain string) (string, bool) {
	name, ok := strings.CutSuffix(host, "."+namespace+".svc."+domain)
	return name, ok && name != "" && !strings.Contains(name, ".")
}

// kubernetesService converts a Service object, or returns nil if it is not one.
func (w *discoveryWork) kubernetesService(o *Object) *Service {
	src, ok := o.Spec.(*corev1.Service)
	if !ok {
		return nil
	}
	settings := w.next.settings
	s := &Service{
		ServiceKey: ServiceKey{kubernetesHost(o.Name, o.Namespace, settings.Domain), o.Namespace},
		Registry:   Kubernetes, Name: o.Name, Object: o.ObjectKey, Created: o.Created,
		Resolution: ClientSideLB, Address: unspecifiedAddress,
		Labels: o.Labels, Annotations: istioEntries(o.Annotations),
		ExportTo: ParseExportTo(splitList(o.Annotations[annotationExportTo]),
			w.next.mesh.DefaultServiceExportTo, o.Namespace),
		PublishNotReady: src.Spec.PublishNotReadyAddresses,
		SubjectAltNames: w.annotatedAccounts(o),
	}
	w.setSession(s)
	if len(src.Spec.Selector) > 0 {
		s.Selector = src.Spec.Selector
	}
	if p := src.Spec.InternalTrafficPolicy; p != nil {
		s.NodeLocal = *p == corev1.ServiceInternalTrafficPolicyLocal
	}
	w.setKubernetesAddresses(s, src)
	for i := range src.Spec.Ports {
		s.Ports = append(s.Ports, kubernetesPort(&src.Spec.Ports[i]))
	}
	s.TrafficDistribution = w.kubernetesDistribution(o, src)
	s.ExternalAddresses = w.externalAddresses(o, src)
	return s
}

func (w *discoveryWork) setSession(s *Service) {
	s.SessionCookie = s.Labels[w.sessionLabel("PILOT_PERSISTENT_SESSION_LABEL", labelPersistentSession)]
	s.SessionHeader = s.Labels[w.sessionLabel("PILOT_PERSISTENT_SESSION_HEADER_LABEL", labelPersistentSessionHeader)]
}

func (w *discoveryWork) sessionLabel(variable, standard string) string {
	if l := w.next.settings.Raw[variable]; l != "" {
		return l
	}
	return standard
}

func (w *discoveryWork) setKubernetesAddresses(s *Service, src *corev1.Service) {
	vips := src.Spec.ClusterIPs
	if len(vips) == 0 && src.Spec.ClusterIP != "" {
		vips = []string{src.Spec.ClusterIP}
	}
	switch {
	case src.Spec.Type == corev1.ServiceTypeExternalName && src.Spec.ExternalName != "":
		s.Resolution, s.MeshExternal, s.AliasOf = Alias, true, src.Spec.ExternalName
	case len(vips) > 0 && vips[0] == corev1.ClusterIPNone:
		s.Resolution = Passthrough
	case len(vips) > 0:
		s.Address = vips[0]
		s.ClusterVIPs = map[string][]string{w.next.settings.ClusterID: vips}
	}
}

func kubernetesPort(p *corev1.ServicePort) *Port {
	appProtocol := ""
	if p.AppProtocol != nil {
		appProtocol = *p.AppProtocol
	}
	number := uint32(p.Port) //nolint:gosec // the API allows 1 to 65535
	out := &Port{
		Name: p.Name, Number: number,
		Protocol: KubernetesProtocol(number, p.Name, appProtocol, string(p.Protocol)),
	}
	switch {
	case p.TargetPort.Type == intstr.String:
		out.TargetPortName = p.TargetPort.StrVal
	case p.TargetPort.IntVal != 0:
		out.TargetPort = uint32(p.TargetPort.IntVal) //nolint:gosec // as above
	default:
		out.TargetPort = number
	}
	return out
}

// parseDistribution reads the value of a field or annotation; known is false if it says nothing that we know.
func parseDistribution(value string, fold bool) (d TrafficDistribution, known bool) {
	is := func(name string) bool { return value == name || fold && strings.EqualFold(value, name) }
	switch {
	case is("PreferClose"), is("PreferSameZone"):
		return PreferSameZone, true
	case is("PreferSameNode"):
		return PreferSameNode, true
	}
	return DistributeAny, false
}

func (w *discoveryWork) kubernetesDistribution(o *Object, src *corev1.Service) TrafficDistribution {
	if t := src.Spec.TrafficDistribution; t != nil {
		if d, known := parseDistribution(*t, false); known {
			return d
		}
	}
	return w.annotatedDistribution(o)
}

// annotatedDistribution reads the object's annotation, and the namespace's only if the object has none.
func (w *discoveryWork) annotatedDistribution(o *Object) TrafficDistribution {
	value := o.Annotations[annotationDistribution]
	if value == "" {
		value = w.namespace(o.Namespace).annotations[annotationDistribution]
	}
	d, _ := parseDistribution(value, true)
	return d
}

func (w *discoveryWork) annotatedAccounts(o *Object) []string {
	out := splitList(o.Annotations[annotationCanonicalAccounts])
	for _, name := range splitList(o.Annotations[annotationKubernetesAccounts]) {
		out = append(out, w.spiffeID(o.Namespace, name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// externalAddresses returns the addresses under which the world outside the cluster reaches the service.
func (w *discoveryWork) externalAddresses(o *Object, src *corev1.Service) []string {
	var out []string
	switch src.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, in := range src.Status.LoadBalancer.Ingress {
			if in.IP != "" {
				out = append(out, in.IP)
			} else if in.Hostname != "" {
				out = append(out, in.Hostname)
			}
		}
	case corev1.ServiceTypeNodePort:
		if selector, ok := nodeSelector(o); ok {
			out = w.nodeAddresses(selector)
		}
	}
	return append(out, src.Spec.ExternalIPs...)
}

func nodeSelector(o *Object) (map[string]string, bool) {
	text, ok := o.Annotations[annotationNodeSelector]
	if !ok {
		return nil, false
	}
	var selector map[string]string
	if json.Unmarshal([]byte(text), &selector) != nil {
		return nil, false
	}
	return selector, true
}

func (w *discoveryWork) nodeAddresses(selector map[string]string) []string {
	var out []string
	for _, o := range w.next.objects[KindNode].All() {
		if ip := nodeExternalIP(o); ip != "" && LabelsMatch(selector, o.Labels) {
			out = append(out, ip)
		}
	}
	return out
}

func nodeExternalIP(o *Object) string {
	if o == nil {
		return ""
	}
	if n, ok := o.Spec.(*corev1.Node); ok {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeExternalIP && a.Address != "" {
				return a.Address
			}
		}
	}
	return ""
}

// splitList splits a comma list and trims its elements; empty ones are left out.
func splitList(s string) []string {
	var out []string
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// istioEntries returns the entries that can mean something to a proxy: other tools write annotations all the time.
func istioEntries(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		if strings.Contains(k, "istio.io") {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
