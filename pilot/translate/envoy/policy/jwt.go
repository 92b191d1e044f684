package policy

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
)

const (
	// keysTimeout and keysAge are how long a proxy waits for keys, and how long it keeps them.
	keysTimeout = 5 * time.Second
	keysAge     = 5 * time.Minute
)

// rejectAll is a key set that no token satisfies: the private half of its key was never kept. It stands in for keys
// that cannot be had, so that their tokens are refused rather than passed unchecked.
const rejectAll = `{"keys":[{"kty":"RSA","e":"AQAB","n":"` +
	`gwP-kExlV3FLJgRiXwQ2noOqJwryCBFEjc66qxW6CzvCFQtdFbilNG2Ppkao8qCOh9ATbfnXevzjKhyCgiIyBbSkSw` +
	`eOjh9FYQC7k8ddV0n_eh4Q1qCARZLLAXt9Sn0AAU01mf9smjzSMcgTk_VbPM5rOLBZk-6bdUsz2c-oBbrJWPX0UII6` +
	`a_et8LPKdE_WJg1tW9QxuCUT-41J8SudpIQdrscBDofSD7bvcQOCEc0jxgpQV3e100y4rwennkJ0jhc2ZQcKOeK4Q6` +
	`rAyTVsFT6vbEbZTcJTsOU087pEQ7nRG1-YIMTmVW2zyNLNH-Cpbi_lhonYWT2M3EE_cB5keQ"}]}`

// jwt returns the filter that checks tokens, if any RequestAuthentication applies. A request without a token passes: to
// demand one is authorization's part.
func (s *Set) jwt() []*hcmv3.HttpFilter {
	var list []*security.JWTRule
	for _, o := range s.objects(model.KindRequestAuthentication) {
		spec, ok := o.Spec.(*security.RequestAuthentication)
		if !ok || len(spec.GetTargetRefs()) > 0 || spec.GetTargetRef() != nil || !s.selects(spec.GetSelector().GetMatchLabels()) {
			continue
		}
		list = append(list, spec.GetJwtRules()...)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *security.JWTRule) int { return cmp.Compare(a.GetIssuer(), b.GetIssuer()) })
	out := &jwtv3.JwtAuthentication{BypassCorsPreflight: true, Providers: map[string]*jwtv3.JwtProvider{}}
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = "origins-" + strconv.Itoa(i)
		out.Providers[names[i]] = s.tokenProvider(r)
	}
	out.Rules = []*jwtv3.RequirementRule{{
		Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		RequirementType: &jwtv3.RequirementRule_Requires{Requires: requirement(names)},
	}}
	return []*hcmv3.HttpFilter{s.filters.HTTPFilter(jwtFilter, out)}
}

// requirement accepts a valid token of any provider, or no token at all. With several providers each is asked first by
// itself, since a token that is another's would else count as a bad one.
func requirement(names []string) *jwtv3.JwtRequirement {
	optional := func(n string) *jwtv3.JwtRequirement {
		return anyOf(provider(n), &jwtv3.JwtRequirement{
			RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}},
		})
	}
	if len(names) == 1 {
		return optional(names[0])
	}
	var each, all []*jwtv3.JwtRequirement
	for _, n := range names {
		each, all = append(each, provider(n)), append(all, optional(n))
	}
	return anyOf(append(each, &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{
		RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: all},
	}})...)
}

func provider(name string) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: name}}
}

func anyOf(list ...*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{
		RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: list},
	}}
}

func (s *Set) tokenProvider(r *security.JWTRule) *jwtv3.JwtProvider {
	p := &jwtv3.JwtProvider{
		Issuer: r.GetIssuer(), Audiences: r.GetAudiences(), Forward: r.GetForwardOriginalToken(),
		ForwardPayloadHeader: r.GetOutputPayloadToHeader(), PayloadInMetadata: payloadKey,
		FromParams: r.GetFromParams(), FromCookies: r.GetFromCookies(),
	}
	claims := append([]string{"permission", "scope"}, r.GetSpaceDelimitedClaims()...)
	slices.Sort(claims)
	p.NormalizePayloadInMetadata = &jwtv3.JwtProvider_NormalizePayload{SpaceDelimitedClaims: slices.Compact(claims)}
	for _, c := range r.GetOutputClaimToHeaders() {
		p.ClaimToHeaders = append(p.ClaimToHeaders, &jwtv3.JwtClaimToHeader{HeaderName: c.GetHeader(), ClaimName: c.GetClaim()})
	}
	for _, h := range r.GetFromHeaders() {
		p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: h.GetName(), ValuePrefix: h.GetPrefix()})
	}
	s.setKeys(p, r)
	return p
}

// setKeys says where a provider's keys come from: the rule itself, a service of the mesh that the proxy asks, or what
// the control plane has fetched.
func (s *Set) setKeys(p *jwtv3.JwtProvider, r *security.JWTRule) {
	inline := r.GetJwks()
	if inline == "" {
		if cluster, ok := s.keyCluster(r.GetJwksUri()); ok {
			timeout := r.GetTimeout()
			if timeout == nil {
				timeout = durationpb.New(keysTimeout)
			}
			p.JwksSourceSpecifier = &jwtv3.JwtProvider_RemoteJwks{RemoteJwks: &jwtv3.RemoteJwks{
				HttpUri: &corev3.HttpUri{
					Uri: r.GetJwksUri(), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}, Timeout: timeout,
				},
				CacheDuration: durationpb.New(keysAge),
			}}
			return
		}
		inline = s.fetched(r)
	}
	if s.stock && !usableKeys(inline) {
		inline = rejectAll
	}
	p.JwksSourceSpecifier = &jwtv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: inline},
	}}
}

// fetched returns the keys that the control plane has fetched for a rule. Until it has, and if Envoy can read none of
// them, no token is good.
func (s *Set) fetched(r *security.JWTRule) string {
	q, ok := keyset.RequestOf(r)
	if !ok {
		return rejectAll
	}
	o := s.c.Object(q.Key())
	if o == nil {
		return rejectAll
	}
	if set, ok := o.Spec.(*keyset.Set); ok && usableKeys(set.JSON) {
		return set.JSON
	}
	return rejectAll
}

// keyCluster returns the cluster behind a key URI if proxies are to fetch keys by themselves.
func (s *Set) keyCluster(uri string) (string, bool) {
	mode := s.c.Settings().Raw["PILOT_JWT_ENABLE_REMOTE_JWKS"]
	if mode != "true" && mode != "hybrid" && mode != "envoy" {
		return "", false
	}
	u, err := url.Parse(uri)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return "", false
		}
	}
	if mode != "envoy" && len(s.c.ServicesOfHost(u.Hostname())) != 1 {
		return "", false
	}
	cluster, _ := filter.ProviderCluster(u.Hostname(), uint32(port))
	return cluster, true
}
