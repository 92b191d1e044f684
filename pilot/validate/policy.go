package validate

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
	apitype "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

const kindAuthorizationPolicy = model.KindAuthorizationPolicy

// attachment checks what a policy applies to: a selector, or references.
func (c *checker) attachment(selector *apitype.WorkloadSelector, ref *apitype.PolicyTargetReference, refs []*apitype.PolicyTargetReference) {
	n := 0
	for _, there := range []bool{selector != nil, ref != nil, len(refs) > 0} {
		if there {
			n++
		}
	}
	if n > 1 {
		c.fail("spec", "selector, targetRef and targetRefs exclude each other")
	}
	c.selector(selector)
	if ref != nil {
		c.targetRef("spec.targetRef", ref)
	}
	for i, r := range refs {
		c.targetRef(index("spec.targetRefs", i), r)
	}
}

func (c *checker) selector(s *apitype.WorkloadSelector) {
	if s == nil {
		return
	}
	if len(s.MatchLabels) == 0 {
		c.warn("spec.selector", "empty: it selects every workload of the namespace")
	}
	for _, k := range sortedKeys(s.MatchLabels) {
		at := entry("spec.selector.matchLabels", k)
		c.failIf(at, labelKey(k))
		if strings.Contains(s.MatchLabels[k], "*") {
			c.fail(at, "%q: there are no wildcards in selectors", s.MatchLabels[k])
		}
	}
}

func (c *checker) targetRef(field string, r *apitype.PolicyTargetReference) {
	if r.GetName() == "" {
		c.fail(field+".name", "missing")
	}
	if r.GetNamespace() != "" {
		c.fail(field+".namespace", "a policy can refer to its own namespace only")
	}
	switch r.GetGroup() + "/" + r.GetKind() {
	case "/Service", "core/Service", "networking.istio.io/ServiceEntry",
		"gateway.networking.k8s.io/Gateway", "gateway.networking.k8s.io/GatewayClass":
	default:
		c.fail(field+".kind", "%s of group %q is none of Service, ServiceEntry, Gateway and GatewayClass", r.GetKind(), r.GetGroup())
	}
}

func (c *checker) authorizationPolicy(p *security.AuthorizationPolicy) {
	c.attachment(p.Selector, p.TargetRef, p.TargetRefs)
	custom := p.Action == security.AuthorizationPolicy_CUSTOM
	switch {
	case custom && len(p.Rules) == 0:
		c.fail("spec.rules", "needed for CUSTOM")
	case p.Action == security.AuthorizationPolicy_DENY && len(p.Rules) == 0:
		c.fail("spec.rules", "needed for DENY: without rules it would deny nothing")
	}
	if custom && p.GetProvider().GetName() == "" {
		c.fail("spec.provider.name", "needed for CUSTOM")
	}
	if !custom && p.GetProvider() != nil {
		c.fail("spec.provider", "is for CUSTOM only")
	}
	if _, dry := c.object.Annotations[dryRun]; dry && (custom || p.Action == security.AuthorizationPolicy_AUDIT) {
		c.fail(entry("metadata.annotations", dryRun), "%s has no dry run", p.Action)
	}
	for i, r := range p.Rules {
		at := index("spec.rules", i)
		if r == nil {
			c.fail(at, "missing; write {} for a rule that matches everything")
			continue
		}
		c.rule(at, r, p.Action)
	}
}

func (c *checker) rule(field string, r *security.Rule, action security.AuthorizationPolicy_Action) {
	if r.From != nil && len(r.From) == 0 {
		c.fail(field+".from", "must not be empty")
	}
	for i, f := range r.From {
		c.source(index(field+".from", i)+".source", f.GetSource(), action)
	}
	for i, t := range r.To {
		c.operation(index(field+".to", i)+".operation", t.GetOperation())
	}
	for i, w := range r.When {
		c.condition(index(field+".when", i), w, action)
	}
	if action == security.AuthorizationPolicy_DENY && onlyHTTP(r) {
		c.warn(field, "on TCP the HTTP attributes are unknown, and the rule denies everything; add ports")
	}
}

// onlyHTTP says whether all that a rule tests are attributes that TCP does not have.
func onlyHTTP(r *security.Rule) bool {
	http := false
	for _, f := range r.From {
		s := f.GetSource()
		if len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals()) > 0 {
			http = true
		}
		if len(s.GetPrincipals())+len(s.GetNotPrincipals())+len(s.GetNamespaces())+len(s.GetNotNamespaces())+len(s.GetServiceAccounts())+
			len(s.GetNotServiceAccounts())+len(s.GetIpBlocks())+len(s.GetNotIpBlocks())+len(s.GetTrustDomains())+len(s.GetNotTrustDomains()) > 0 {
			return false
		}
	}
	for _, t := range r.To {
		o := t.GetOperation()
		if len(o.GetPorts())+len(o.GetNotPorts()) > 0 {
			return false
		}
		if len(o.GetHosts())+len(o.GetNotHosts())+len(o.GetMethods())+len(o.GetNotMethods())+len(o.GetPaths())+len(o.GetNotPaths()) > 0 {
			http = true
		}
	}
	for _, w := range r.When {
		if !strings.HasPrefix(w.GetKey(), "request.") {
			return false
		}
		http = true
	}
	return http
}

func (c *checker) source(field string, s *security.Source, action security.AuthorizationPolicy_Action) {
	lists := []struct {
		name   string
		values []string
		custom bool // allowed in CUSTOM policies
		check  func(string) error
	}{
		{"principals", s.GetPrincipals(), false, nil},
		{"notPrincipals", s.GetNotPrincipals(), false, nil},
		{"requestPrincipals", s.GetRequestPrincipals(), false, nil},
		{"notRequestPrincipals", s.GetNotRequestPrincipals(), false, nil},
		{"namespaces", s.GetNamespaces(), false, nil},
		{"notNamespaces", s.GetNotNamespaces(), false, nil},
		{"serviceAccounts", s.GetServiceAccounts(), false, serviceAccount},
		{"notServiceAccounts", s.GetNotServiceAccounts(), false, serviceAccount},
		{"trustDomains", s.GetTrustDomains(), false, nil},
		{"notTrustDomains", s.GetNotTrustDomains(), false, nil},
		{"ipBlocks", s.GetIpBlocks(), true, ipOrPrefix},
		{"notIpBlocks", s.GetNotIpBlocks(), true, ipOrPrefix},
		{"remoteIpBlocks", s.GetRemoteIpBlocks(), true, ipOrPrefix},
		{"notRemoteIpBlocks", s.GetNotRemoteIpBlocks(), true, ipOrPrefix},
	}
	total := 0
	for _, l := range lists {
		total += len(l.values)
		if action == security.AuthorizationPolicy_CUSTOM && len(l.values) > 0 && !l.custom {
			c.fail(field+"."+l.name, "not supported in CUSTOM policies")
		}
		c.values(field+"."+l.name, l.values, l.check)
	}
	if total == 0 {
		c.fail(field, "must not be empty")
	}
	if len(s.GetServiceAccounts())+len(s.GetNotServiceAccounts()) > 0 &&
		len(s.GetPrincipals())+len(s.GetNotPrincipals())+len(s.GetNamespaces())+len(s.GetNotNamespaces()) > 0 {
		c.fail(field+".serviceAccounts", "excludes principals and namespaces")
	}
}

func (c *checker) values(field string, values []string, check func(string) error) {
	for i, v := range values {
		if v == "" {
			c.fail(index(field, i), "must not be empty")
		} else if check != nil {
			c.failIf(index(field, i), check(v))
		}
	}
}

func (c *checker) operation(field string, o *security.Operation) {
	lists := []struct {
		name   string
		values []string
		check  func(string) error
	}{
		{"hosts", o.GetHosts(), nil},
		{"notHosts", o.GetNotHosts(), nil},
		{"ports", o.GetPorts(), portText},
		{"notPorts", o.GetNotPorts(), portText},
		{"methods", o.GetMethods(), nil},
		{"notMethods", o.GetNotMethods(), nil},
		{"paths", o.GetPaths(), pathTemplate},
		{"notPaths", o.GetNotPaths(), pathTemplate},
	}
	total := 0
	for _, l := range lists {
		total += len(l.values)
		c.values(field+"."+l.name, l.values, l.check)
	}
	if total == 0 {
		c.fail(field, "must not be empty")
	}
}

func (c *checker) condition(field string, w *security.Condition, action security.AuthorizationPolicy_Action) {
	key := w.GetKey()
	if key == "" {
		c.fail(field+".key", "missing")
		return
	}
	if len(w.GetValues())+len(w.GetNotValues()) == 0 {
		c.fail(field, "values or notValues is needed")
	}
	check, known := conditionKey(key)
	switch {
	case !known:
		c.fail(field+".key", "%q is not the key of a condition", key)
	case action == security.AuthorizationPolicy_CUSTOM && identityKey(key):
		c.fail(field+".key", "%s is not supported in CUSTOM policies", key)
	}
	c.values(field+".values", w.GetValues(), check)
	c.values(field+".notValues", w.GetNotValues(), check)
}

func identityKey(key string) bool {
	return slices.Contains([]string{
		"source.namespace", "source.principal", "source.serviceAccount", "source.trustDomain",
		"request.auth.principal", "request.auth.audiences", "request.auth.presenter",
	}, key) || strings.HasPrefix(key, "request.auth.claims")
}

// conditionKey returns the check of a key's values, and whether there is such a key.
func conditionKey(key string) (check func(string) error, known bool) {
	switch key {
	case "source.ip", "remote.ip", "destination.ip":
		return ipOrPrefix, true
	case "destination.port":
		return portText, true
	case "source.namespace", "source.principal", "source.serviceAccount", "source.trustDomain", "connection.sni",
		"request.auth.principal", "request.auth.audiences", "request.auth.presenter":
		return nil, true
	}
	if strings.HasPrefix(key, "experimental.envoy.filters.") {
		return nil, true
	}
	for _, prefix := range []string{"request.headers[", "request.auth.claims["} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			return nil, strings.HasSuffix(rest, "]") && len(rest) > 1
		}
	}
	return nil, false
}

func portText(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return errNotPort(s)
	}
	return portNumber(n)
}

func (c *checker) peerAuthentication(p *security.PeerAuthentication) {
	c.selector(p.Selector)
	if p.PortLevelMtls == nil {
		return
	}
	if len(p.Selector.GetMatchLabels()) == 0 {
		c.fail("spec.portLevelMtls", "needs a selector")
	}
	for _, port := range sortedKeys(p.PortLevelMtls) {
		c.failIf(entry("spec.portLevelMtls", strconv.Itoa(int(port))), portNumber(port))
	}
}

func (c *checker) requestAuthentication(r *security.RequestAuthentication) {
	c.attachment(r.Selector, r.TargetRef, r.TargetRefs)
	for i, j := range r.JwtRules {
		c.jwtRule(index("spec.jwtRules", i), j)
	}
}

func (c *checker) jwtRule(field string, r *security.JWTRule) {
	if r.GetIssuer() == "" && r.GetJwksUri() == "" {
		c.fail(field, "issuer or jwksUri is needed")
	}
	if u := r.GetJwksUri(); u != "" {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
			c.fail(field+".jwksUri", "%q is not an http or https URL", u)
		}
	}
	if r.GetJwks() != "" {
		c.jwks(field+".jwks", r.GetJwks())
	}
	c.values(field+".audiences", r.GetAudiences(), nil)
	c.values(field+".fromParams", r.GetFromParams(), nil)
	c.values(field+".fromCookies", r.GetFromCookies(), nil)
	for i, h := range r.GetFromHeaders() {
		if h.GetName() == "" {
			c.fail(index(field+".fromHeaders", i)+".name", "must not be empty")
		}
	}
	for i, h := range r.GetOutputClaimToHeaders() {
		at := index(field+".outputClaimToHeaders", i)
		if !headerName(h.GetHeader()) {
			c.fail(at+".header", "%q is not the name of a header", h.GetHeader())
		}
		if h.GetClaim() == "" {
			c.fail(at+".claim", "must not be empty")
		}
	}
}

func (c *checker) jwks(field, text string) {
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil || set.Keys == nil {
		c.fail(field, "not a JSON Web Key Set")
		return
	}
	for i, k := range set.Keys {
		if k["d"] != nil || k["kty"] == "oct" {
			c.warn(index(field+".keys", i), "a private key, which everybody who reads the object has")
		}
	}
}
