package policy

import (
	"fmt"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
)

const (
	nameHTTP = "envoy.filters.http.rbac"
	nameTCP  = "envoy.filters.network.rbac"
	// tcpStatPrefix stands before the statistics of network filters.
	tcpStatPrefix = "tcp."
	shadowAllow   = "istio_dry_run_allow_"
	shadowDeny    = "istio_dry_run_deny_"
)

// enforced and dry-run rules of one action.
type ruleSets struct{ rules, shadow *rbacv3.RBAC }

// HTTP returns the filters of an HTTP chain.
func (s *Set) HTTP() filter.Policy {
	var out filter.Policy
	out.Custom, out.Authn = s.customHTTP(), s.jwt()
	for _, set := range s.actions(false) {
		out.Authz = append(out.Authz, s.filters.HTTPFilter(nameHTTP, &httprbacv3.RBAC{
			Rules: set.rules, ShadowRules: set.shadow, ShadowRulesStatPrefix: set.prefix(),
		}))
	}
	return out
}

// TCP returns the filters of a TCP chain.
func (s *Set) TCP() filter.TCPPolicy {
	out := filter.TCPPolicy{Custom: s.customTCP()}
	for _, set := range s.actions(true) {
		out.Authz = append(out.Authz, s.filters.NetworkFilter(nameTCP, &tcprbacv3.RBAC{
			Rules: set.rules, ShadowRules: set.shadow, ShadowRulesStatPrefix: set.prefix(), StatPrefix: tcpStatPrefix,
		}))
	}
	return out
}

func (r ruleSets) prefix() string {
	if r.shadow.GetAction() == rbacv3.RBAC_DENY {
		return shadowDeny
	}
	return shadowAllow
}

// actions returns the rule sets of AUDIT, DENY and ALLOW, those that have any policy.
func (s *Set) actions(tcp bool) []ruleSets {
	var out []ruleSets
	for _, a := range [...]struct {
		action security.AuthorizationPolicy_Action
		envoy  rbacv3.RBAC_Action
	}{
		{security.AuthorizationPolicy_AUDIT, rbacv3.RBAC_LOG},
		{security.AuthorizationPolicy_DENY, rbacv3.RBAC_DENY},
		{security.AuthorizationPolicy_ALLOW, rbacv3.RBAC_ALLOW},
	} {
		if set, ok := s.ruleSets(s.byAction[a.action], a.envoy, tcp); ok {
			out = append(out, set)
		}
	}
	return out
}

func (s *Set) ruleSets(policies []rules, action rbacv3.RBAC_Action, tcp bool) (ruleSets, bool) {
	if len(policies) == 0 {
		return ruleSets{}, false
	}
	var out ruleSets
	for _, p := range policies {
		into := &out.rules
		if p.dryRun && action != rbacv3.RBAC_LOG {
			into = &out.shadow
		}
		if *into == nil {
			*into = &rbacv3.RBAC{Action: action, Policies: map[string]*rbacv3.Policy{}}
		}
		s.addRules(*into, p, translator{s: s, namespace: p.namespace, tcp: tcp, allow: action == rbacv3.RBAC_ALLOW})
	}
	if s.tunnel {
		byTunnel(out.rules)
		byTunnel(out.shadow)
	}
	return out, true
}

func (s *Set) addRules(into *rbacv3.RBAC, p rules, t translator) {
	key := func(i int) string {
		if s.grpc {
			return fmt.Sprintf("%s-%s-%d", p.namespace, p.name, i)
		}
		return fmt.Sprintf("ns[%s]-policy[%s]-rule[%d]", p.namespace, p.name, i)
	}
	if len(p.spec.GetRules()) == 0 {
		into.Policies[key(0)] = &rbacv3.Policy{
			Permissions: []*rbacv3.Permission{notPermission(anyPermission())},
			Principals:  []*rbacv3.Principal{notPrincipal(anyPrincipal())},
		}
		return
	}
	for i, r := range p.spec.GetRules() {
		if r == nil {
			continue
		}
		if made := t.rule(r); made != nil {
			into.Policies[key(i)] = made
		}
	}
}
