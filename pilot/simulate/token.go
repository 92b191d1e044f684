package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// authenticate applies a JWT filter: the claims that the request comes with count as those of a valid token of their
// issuer. It tells whether the request goes on.
func (w *walker) authenticate(filter string, m *jwtv3.JwtAuthentication) bool {
	for _, rule := range m.GetRules() {
		if ok, _ := w.matches(rule.GetMatch()); !ok {
			continue
		}
		requirement := rule.GetRequires()
		if n := rule.GetRequirementName(); n != "" {
			requirement = m.GetRequirementMap()[n]
		}
		if requirement == nil || w.satisfies(filter, m, requirement) {
			w.step(StageHTTP, filter, w.tokenText()+" is accepted", w.objectsOf(StageListener, w.listener.GetName(), "RequestAuthentication")...)
			return true
		}
		objects := w.objectsOf(StageListener, w.listener.GetName(), "RequestAuthentication")
		w.step(StageHTTP, filter, w.tokenText()+" is refused", objects...)
		w.end(Outcome{Kind: Denied, Status: 401, By: strings.Join(objects, ", "), Reason: w.tokenText() + " is refused by " + filter})
		return false
	}
	return true
}

func (w *walker) tokenText() string {
	if w.q.Claims == nil {
		return "a request without a token"
	}
	return fmt.Sprintf("the token of %v", w.q.Claims["iss"])
}

func (w *walker) satisfies(filter string, m *jwtv3.JwtAuthentication, r *jwtv3.JwtRequirement) bool {
	switch t := r.GetRequiresType().(type) {
	case *jwtv3.JwtRequirement_ProviderName:
		return w.valid(filter, m.GetProviders()[t.ProviderName], nil)
	case *jwtv3.JwtRequirement_ProviderAndAudiences:
		return w.valid(filter, m.GetProviders()[t.ProviderAndAudiences.GetProviderName()], t.ProviderAndAudiences.GetAudiences())
	case *jwtv3.JwtRequirement_RequiresAny:
		return slices.ContainsFunc(t.RequiresAny.GetRequirements(), func(r *jwtv3.JwtRequirement) bool { return w.satisfies(filter, m, r) })
	case *jwtv3.JwtRequirement_RequiresAll:
		return !slices.ContainsFunc(t.RequiresAll.GetRequirements(), func(r *jwtv3.JwtRequirement) bool { return !w.satisfies(filter, m, r) })
	case *jwtv3.JwtRequirement_AllowMissing:
		return w.q.Claims == nil
	case *jwtv3.JwtRequirement_AllowMissingOrFailed:
		return true
	}
	return true
}

// valid tells whether the token is of a provider, and leaves its claims for others if so.
func (w *walker) valid(filter string, p *jwtv3.JwtProvider, audiences []string) bool {
	if w.q.Claims == nil || p == nil || p.GetIssuer() != "" && w.q.Claims["iss"] != p.GetIssuer() {
		return false
	}
	if audiences == nil {
		audiences = p.GetAudiences()
	}
	if len(audiences) > 0 && !slices.ContainsFunc(texts(w.q.Claims["aud"]), func(a string) bool { return slices.Contains(audiences, a) }) {
		return false
	}
	if key := p.GetPayloadInMetadata(); key != "" {
		claims := maps.Clone(w.q.Claims)
		for _, c := range p.GetNormalizePayloadInMetadata().GetSpaceDelimitedClaims() {
			if s, ok := claims[c].(string); ok {
				var list []any
				for _, part := range strings.Fields(s) {
					list = append(list, part)
				}
				claims[c] = list
			}
		}
		w.metadata = map[string]any{filter: map[string]any{key: claims}}
	}
	if !p.GetForward() {
		w.withdraw(p)
	}
	return true
}

// withdraw takes the token out of the request, from wherever the provider looks for it.
func (w *walker) withdraw(p *jwtv3.JwtProvider) {
	headers, params := p.GetFromHeaders(), p.GetFromParams()
	if len(headers) == 0 && len(params) == 0 {
		headers, params = []*jwtv3.JwtHeader{{Name: "authorization", ValuePrefix: "Bearer "}}, []string{"access_token"}
	}
	w.q.Headers = maps.Clone(w.q.Headers)
	for _, h := range headers {
		if name := strings.ToLower(h.GetName()); strings.HasPrefix(w.q.Headers[name], h.GetValuePrefix()) {
			delete(w.q.Headers, name)
		}
	}
	path, query, _ := strings.Cut(w.q.Path, "?")
	all := strings.Split(query, "&")
	kept := slices.DeleteFunc(slices.Clone(all), func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return slices.Contains(params, name)
	})
	if len(kept) == len(all) {
		return
	}
	if w.q.Path = path; len(kept) > 0 {
		w.q.Path += "?" + strings.Join(kept, "&")
	}
}

// texts returns a claim that is a text or a list of them.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, one := range v {
			if s, ok := one.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// metadataMatches evaluates a matcher of what filters have left, whatever its inversion.
func (w *walker) metadataMatches(m *matcherv3.MetadataMatcher) bool {
	v := w.metadata[m.GetFilter()]
	for _, p := range m.GetPath() {
		o, ok := v.(map[string]any)
		if !ok {
			return false
		}
		v = o[p.GetKey()]
	}
	return v != nil && matchValue(m.GetValue(), v)
}

func matchValue(m *matcherv3.ValueMatcher, v any) bool {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		s, ok := v.(string)
		return ok && matchString(p.StringMatch, s)
	case *matcherv3.ValueMatcher_BoolMatch:
		return v == p.BoolMatch
	case *matcherv3.ValueMatcher_PresentMatch:
		return p.PresentMatch
	case *matcherv3.ValueMatcher_DoubleMatch:
		n, ok := v.(float64)
		if r := p.DoubleMatch.GetRange(); r != nil {
			return ok && n >= r.GetStart() && n < r.GetEnd()
		}
		return ok && n == p.DoubleMatch.GetExact()
	case *matcherv3.ValueMatcher_OrMatch:
		return slices.ContainsFunc(p.OrMatch.GetValueMatchers(), func(m *matcherv3.ValueMatcher) bool { return matchValue(m, v) })
	case *matcherv3.ValueMatcher_ListMatch:
		list, ok := v.([]any)
		return ok && slices.ContainsFunc(list, func(v any) bool { return matchValue(p.ListMatch.GetOneOf(), v) })
	}
	return false
}
