package simulate

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
)

// enforce evaluates the rules of an RBAC filter and reports what dry-run rules say. It tells whether the request goes on.
func (w *walker) enforce(s Stage, filter string, rules, shadow *rbacv3.RBAC) bool {
	http := s == StageHTTP
	if shadow != nil {
		name := w.firstPolicy(shadow, http)
		verdict := "would allow"
		if denies(shadow, name) {
			verdict = "would deny"
		}
		w.step(s, filter, "dry run "+verdict+byRule(shadow, name), policyObjects(shadow, name)...)
	}
	if rules == nil {
		return true
	}
	name := w.firstPolicy(rules, http)
	if !denies(rules, name) {
		w.step(s, filter, allowText(rules)+byRule(rules, name), policyObjects(rules, name)...)
		return true
	}
	objects := append(policyObjects(rules, name), extensionObject(filter)...)
	w.step(s, filter, "denied"+byRule(rules, name), objects...)
	o := Outcome{Kind: Denied, By: strings.Join(objects, ", "), Reason: "no rule allows it"}
	if name != "" {
		o.Reason = "rule " + name
	}
	if http {
		o.Status = 403
	}
	w.end(o)
	return false
}

func allowText(r *rbacv3.RBAC) string {
	if r.GetAction() == rbacv3.RBAC_LOG {
		return "logged"
	}
	return "allowed"
}

func denies(r *rbacv3.RBAC, matched string) bool {
	switch r.GetAction() {
	case rbacv3.RBAC_ALLOW:
		return matched == ""
	case rbacv3.RBAC_DENY:
		return matched != ""
	}
	return false
}

func byRule(r *rbacv3.RBAC, matched string) string {
	if matched != "" {
		return " by " + matched
	}
	return fmt.Sprintf(": none of %d %s rules matches", len(r.GetPolicies()), r.GetAction())
}

// firstPolicy returns the first policy by name that matches, empty if none does.
func (w *walker) firstPolicy(r *rbacv3.RBAC, http bool) string {
	e := evaluator{w, http}
	for _, name := range slices.Sorted(maps.Keys(r.GetPolicies())) {
		p := r.GetPolicies()[name]
		if slices.ContainsFunc(p.GetPermissions(), e.permits) && slices.ContainsFunc(p.GetPrincipals(), e.is) {
			return name
		}
	}
	return ""
}

// rulePattern are the names that AuthorizationPolicies' rules have.
const rulePattern = `^ns\[(.*?)\]-policy\[(.*?)\]-rule\[`

// policyObjects names the policies of a rule, or of all rules if none matched.
func policyObjects(r *rbacv3.RBAC, matched string) []string {
	names := []string{matched}
	if matched == "" {
		if r.GetAction() != rbacv3.RBAC_ALLOW {
			return nil // that a denial does not match is no reason for anything
		}
		names = slices.Sorted(maps.Keys(r.GetPolicies()))
	}
	var out []string
	pattern := regexp.MustCompile(rulePattern)
	for _, n := range names {
		if m := pattern.FindStringSubmatch(n); m != nil {
			out = append(out, "AuthorizationPolicy/"+m[1]+"/"+m[2])
		}
	}
	return slices.Compact(out)
}

// evaluator evaluates rules. Outside of HTTP nothing is known of requests.
type evaluator struct {
	w    *walker
	http bool
}

//nolint:staticcheck // the deprecated form of metadata is what Istio's proxies are sent
func (e evaluator) permits(p *rbacv3.Permission) bool {
	q := &e.w.q
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return r.Any
	case *rbacv3.Permission_AndRules:
		return !slices.ContainsFunc(r.AndRules.GetRules(), func(p *rbacv3.Permission) bool { return !e.permits(p) })
	case *rbacv3.Permission_OrRules:
		return slices.ContainsFunc(r.OrRules.GetRules(), e.permits)
	case *rbacv3.Permission_NotRule:
		return !e.permits(r.NotRule)
	case *rbacv3.Permission_Header:
		return e.http && e.w.headerMatches(r.Header)
	case *rbacv3.Permission_UrlPath:
		return e.http && matchString(r.UrlPath.GetPath(), q.bare())
	case *rbacv3.Permission_UriTemplate:
		t, ok := opened(r.UriTemplate.GetTypedConfig()).(*templatev3.UriTemplateMatchConfig)
		return e.http && ok && matchTemplate(t.GetPathTemplate(), q.bare())
	case *rbacv3.Permission_DestinationIp:
		return within(q.Destination.Addr(), r.DestinationIp)
	case *rbacv3.Permission_DestinationPort:
		return uint32(q.Destination.Port()) == r.DestinationPort
	case *rbacv3.Permission_DestinationPortRange:
		return int32(q.Destination.Port()) >= r.DestinationPortRange.GetStart() && int32(q.Destination.Port()) < r.DestinationPortRange.GetEnd()
	case *rbacv3.Permission_RequestedServerName:
		return matchString(r.RequestedServerName, e.w.seen.serverName)
	case *rbacv3.Permission_Metadata:
		return e.w.metadataMatches(r.Metadata) != r.Metadata.GetInvert()
	case *rbacv3.Permission_SourcedMetadata:
		m := r.SourcedMetadata.GetMetadataMatcher()
		return e.w.metadataMatches(m) != m.GetInvert()
	}
	return false
}

//nolint:staticcheck // as above
func (e evaluator) is(p *rbacv3.Principal) bool {
	q := &e.w.q
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return r.Any
	case *rbacv3.Principal_AndIds:
		return !slices.ContainsFunc(r.AndIds.GetIds(), func(p *rbacv3.Principal) bool { return !e.is(p) })
	case *rbacv3.Principal_OrIds:
		return slices.ContainsFunc(r.OrIds.GetIds(), e.is)
	case *rbacv3.Principal_NotId:
		return !e.is(r.NotId)
	case *rbacv3.Principal_Authenticated_:
		name := r.Authenticated.GetPrincipalName()
		return e.w.terminated && q.Peer != "" && (name == nil || matchString(name, q.Peer))
	case *rbacv3.Principal_FilterState:
		return e.w.terminated && q.Peer != "" && matchString(r.FilterState.GetStringMatch(), q.Peer)
	case *rbacv3.Principal_SourceIp:
		return within(q.Source.Addr(), r.SourceIp)
	case *rbacv3.Principal_DirectRemoteIp:
		return within(q.Source.Addr(), r.DirectRemoteIp)
	case *rbacv3.Principal_RemoteIp:
		return within(e.remote(), r.RemoteIp)
	case *rbacv3.Principal_Header:
		return e.http && e.w.headerMatches(r.Header)
	case *rbacv3.Principal_UrlPath:
		return e.http && matchString(r.UrlPath.GetPath(), q.bare())
	case *rbacv3.Principal_Metadata:
		return e.w.metadataMatches(r.Metadata) != r.Metadata.GetInvert()
	case *rbacv3.Principal_SourcedMetadata:
		m := r.SourcedMetadata.GetMetadataMatcher()
		return e.w.metadataMatches(m) != m.GetInvert()
	}
	return false
}

// remote returns the address that the request says it comes from: the last of X-Forwarded-For, else the connection's.
func (e evaluator) remote() netip.Addr {
	if v, ok := e.w.q.header("x-forwarded-for"); ok && e.http {
		list := strings.Split(v, ",")
		if a, err := netip.ParseAddr(strings.TrimSpace(list[len(list)-1])); err == nil {
			return a
		}
	}
	return e.w.q.Source.Addr()
}

func within(a netip.Addr, r *corev3.CidrRange) bool {
	p, ok := prefix(r)
	return ok && p.Contains(a.Unmap())
}
