package policy

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"

	security "istio.io/api/security/v1beta1"
)

// translator turns the rules of one policy into Envoy's.
type translator struct {
	s         *Set
	namespace string
	tcp       bool
	allow     bool
}

// conditions is one side of a rule, all of which must hold: permissions or principals.
type conditions struct {
	permissions []*rbacv3.Permission
	principals  []*rbacv3.Principal
}

// rule returns the policy of one rule, nil if it can never match or cannot be said.
func (t translator) rule(r *security.Rule) *rbacv3.Policy {
	when, ok := t.when(r.GetWhen())
	if !ok {
		return nil
	}
	out := &rbacv3.Policy{}
	for _, to := range operations(r.GetTo()) {
		c, ok := t.operation(to)
		if !ok {
			return nil
		}
		out.Permissions = append(out.Permissions, andPermissions(append(c.permissions, when.permissions...)))
	}
	for _, from := range sources(r.GetFrom()) {
		c, ok := t.source(from)
		if !ok {
			return nil
		}
		out.Principals = append(out.Principals, andPrincipals(append(c.principals, when.principals...)))
	}
	return out
}

func operations(list []*security.Rule_To) []*security.Operation {
	if len(list) == 0 {
		return []*security.Operation{nil}
	}
	out := make([]*security.Operation, len(list))
	for i, x := range list {
		out[i] = x.GetOperation()
	}
	return out
}

func sources(list []*security.Rule_From) []*security.Source {
	if len(list) == 0 {
		return []*security.Source{nil}
	}
	out := make([]*security.Source, len(list))
	for i, x := range list {
		out[i] = x.GetSource()
	}
	return out
}

// attribute is one field of a rule with the values it must and must not have.
type attribute struct {
	matcher     matcher
	values, not []string
}

func (t translator) operation(o *security.Operation) (conditions, bool) {
	return t.all([]attribute{
		{hostMatcher(), o.GetHosts(), o.GetNotHosts()},
		{methodMatcher(), o.GetMethods(), o.GetNotMethods()},
		{pathMatcher(t.s), o.GetPaths(), o.GetNotPaths()},
		{portMatcher(), o.GetPorts(), o.GetNotPorts()},
	})
}

func (t translator) source(f *security.Source) (conditions, bool) {
	return t.all([]attribute{
		{principalMatcher(t.s.domains), f.GetPrincipals(), f.GetNotPrincipals()},
		{requestPrincipalMatcher(t.s.stock), f.GetRequestPrincipals(), f.GetNotRequestPrincipals()},
		{accountMatcher(t.namespace), f.GetServiceAccounts(), f.GetNotServiceAccounts()},
		{trustDomainMatcher(t.s.domains), f.GetTrustDomains(), f.GetNotTrustDomains()},
		{namespaceMatcher(), f.GetNamespaces(), f.GetNotNamespaces()},
		{remoteIPMatcher(), f.GetRemoteIpBlocks(), f.GetNotRemoteIpBlocks()},
		{directIPMatcher(), f.GetIpBlocks(), f.GetNotIpBlocks()},
	})
}

// all makes the conditions of attrs. It reports false if the rule must go: a value that makes no sense, or in an ALLOW
// policy an HTTP field on a TCP chain. Other policies lose only that condition, so that they match more.
func (t translator) all(attrs []attribute) (conditions, bool) {
	var out conditions
	for _, a := range attrs {
		if len(a.values) == 0 && len(a.not) == 0 {
			continue
		}
		if t.tcp && a.matcher.http {
			if t.allow {
				return out, false
			}
			continue
		}
		if !a.add(&out) {
			if t.allow {
				return out, false
			}
		}
	}
	return out, true
}

// add appends the attribute's conditions to out, and reports whether every value made sense.
func (a attribute) add(out *conditions) bool {
	good := true
	for _, side := range [...]struct {
		values []string
		not    bool
	}{{a.values, false}, {a.not, true}} {
		if len(side.values) == 0 {
			continue
		}
		if a.matcher.permission != nil {
			p, ok := a.matcher.permissions(side.values)
			good = good && ok
			if ok {
				if side.not {
					p = notPermission(p)
				}
				out.permissions = append(out.permissions, p)
			}
			continue
		}
		p, ok := a.matcher.principals(side.values)
		good = good && ok
		if ok {
			if side.not {
				p = notPrincipal(p)
			}
			out.principals = append(out.principals, p)
		}
	}
	return good
}

// when makes the conditions of a rule's when clauses. An unknown key drops the rule.
func (t translator) when(list []*security.Condition) (conditions, bool) {
	attrs := make([]attribute, 0, len(list))
	for _, w := range list {
		m, ok := t.conditionMatcher(w.GetKey())
		if !ok {
			return conditions{}, false
		}
		attrs = append(attrs, attribute{m, w.GetValues(), w.GetNotValues()})
	}
	return t.all(attrs)
}

// conditionMatcher returns the matcher of a when key.
func (t translator) conditionMatcher(key string) (matcher, bool) {
	switch key {
	case "source.ip":
		return directIPMatcher(), true
	case "remote.ip":
		return remoteIPMatcher(), true
	case "source.namespace":
		return namespaceMatcher(), true
	case "source.serviceAccount":
		return accountMatcher(t.namespace), true
	case "source.trustDomain":
		return trustDomainMatcher(t.s.domains), true
	case "source.principal":
		return principalMatcher(t.s.domains), true
	case "request.auth.principal":
		return requestPrincipalMatcher(t.s.stock), true
	case "request.auth.audiences":
		return claimMatcher(t.s.stock, "aud"), true
	case "request.auth.presenter":
		return claimMatcher(t.s.stock, "azp"), true
	case "destination.ip":
		return destinationIPMatcher(), true
	case "destination.port":
		return portMatcher(), true
	case "connection.sni":
		return sniMatcher(), true
	}
	if name, ok := bracketed(key, "request.headers"); ok && len(name) == 1 {
		if t.s.grpc && !readable(name[0]) {
			return unreadable(), true
		}
		return headerMatcher(name[0]), true
	}
	if claims, ok := bracketed(key, "request.auth.claims"); ok {
		return claimMatcher(t.s.stock, claims...), true
	}
	if rest, ok := strings.CutPrefix(key, "experimental."); ok && strings.HasPrefix(rest, "envoy.filters.") {
		filterName, _, _ := strings.Cut(rest, "[")
		if keys, ok := bracketed(rest, filterName); ok && len(keys) == 1 {
			return filterMetadataMatcher(t.s.stock, filterName, keys[0]), true
		}
	}
	return matcher{}, false
}

// bracketed returns the names in "prefix[a][b]".
func bracketed(key, prefix string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok || !strings.HasPrefix(rest, "[") || !strings.HasSuffix(rest, "]") {
		return nil, false
	}
	names := strings.Split(rest[1:len(rest)-1], "][")
	for _, n := range names {
		if n == "" {
			return nil, false
		}
	}
	return names, true
}
