package policy

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
)

const (
	nameHTTPAuthz = "envoy.filters.http.ext_authz"
	nameTCPAuthz  = "envoy.filters.network.ext_authz"
	// customPrefix begins the key of each policy whose decision is another service's, and so the metadata by which the
	// filter that asks it is switched on.
	customPrefix = "istio-ext-authz-"
	customShadow = "istio_ext_authz_"
	// badSuffix marks policies that deny because whoever should decide is not known.
	badSuffix = "-deny-due-to-bad-CUSTOM-action"
	// authzTimeout is how long a decision may take unless the provider says otherwise.
	authzTimeout = 600 * time.Second
	// severalProviders is the setting that lets several providers decide about one workload.
	severalProviders = "PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS"
)

type (
	httpProvider = meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider
	grpcProvider = meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider
	bodyInCheck  = meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody
)

// custom is the CUSTOM policies of a proxy with the one provider that may decide about them; both nil if it is not
// known, and then everything that the policies match is denied.
type custom struct {
	name string
	http *httpProvider
	grpc *grpcProvider
}

func (x custom) bad() bool { return x.http == nil && x.grpc == nil }

// customProvider returns the provider of the CUSTOM policies.
func (s *Set) customProvider(policies []rules) custom {
	x := custom{name: policies[0].spec.GetProvider().GetName()}
	for _, p := range policies {
		if p.spec.GetProvider().GetName() != x.name {
			return custom{}
		}
	}
	var found []*meshconfig.MeshConfig_ExtensionProvider
	for _, p := range s.c.Mesh().Config.GetExtensionProviders() {
		if p.GetName() == x.name {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return x
	}
	if p := found[0].GetEnvoyExtAuthzHttp(); p != nil && s.known(p.GetService(), p.GetPort()) {
		x.http = p
	}
	if p := found[0].GetEnvoyExtAuthzGrpc(); p != nil && s.known(p.GetService(), p.GetPort()) {
		x.grpc = p
	}
	return x
}

// known tells whether "[namespace/]host" is exactly one service, and the proxy has its cluster.
func (s *Set) known(service string, port uint32) bool {
	namespace, host, ok := strings.Cut(service, "/")
	if !ok {
		namespace, host = "", service
	}
	n := 0
	for _, x := range s.c.ServicesOfHost(host) {
		if namespace == "" || x.Namespace == namespace {
			n++
		}
	}
	if n != 1 {
		return false
	}
	found := s.filters.Reached(host, port)
	return found != nil && (namespace == "" || found.Namespace == namespace)
}

// group is CUSTOM policies that one provider decides about.
type group struct {
	custom
	policies []rules
}

// groups returns the CUSTOM policies by provider, sorted by its name. Unless several may decide about one workload they
// are one group, without a provider if they name more than one.
func (s *Set) groups() []group {
	policies := s.byAction[security.AuthorizationPolicy_CUSTOM]
	if len(policies) == 0 {
		return nil
	}
	if several, err := strconv.ParseBool(s.c.Settings().Raw[severalProviders]); err != nil || !several {
		return []group{{s.customProvider(policies), policies}}
	}
	byName := map[string][]rules{}
	for _, p := range policies {
		name := p.spec.GetProvider().GetName()
		byName[name] = append(byName[name], p)
	}
	var out []group
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, group{s.customProvider(byName[name]), byName[name]})
	}
	return out
}

// customHTTP returns the filters by which other services decide about requests.
func (s *Set) customHTTP() []*hcmv3.HttpFilter {
	add := s.filters.HTTPFilter
	var out []*hcmv3.HttpFilter
	for _, g := range s.groups() {
		made := s.customRules(g.policies, g.custom, false)
		if g.bad() {
			out = append(out, add(nameHTTP, &httprbacv3.RBAC{Rules: made}))
			continue
		}
		out = append(out, add(nameHTTP, &httprbacv3.RBAC{ShadowRules: made, ShadowRulesStatPrefix: customShadow}), add(nameHTTPAuthz, g.httpFilter()))
	}
	return out
}

// customTCP returns the filters by which other services decide about connections. An HTTP service cannot.
func (s *Set) customTCP() []*listenerv3.Filter {
	add := s.filters.NetworkFilter
	var out []*listenerv3.Filter
	for _, g := range s.groups() {
		made := s.customRules(g.policies, g.custom, true)
		switch {
		case g.bad():
			out = append(out, add(nameTCP, &tcprbacv3.RBAC{Rules: made, StatPrefix: tcpStatPrefix}))
		case g.grpc != nil:
			out = append(out,
				add(nameTCP, &tcprbacv3.RBAC{ShadowRules: made, ShadowRulesStatPrefix: customShadow, StatPrefix: tcpStatPrefix}),
				add(nameTCPAuthz, &tcpauthzv3.ExtAuthz{
					StatPrefix: tcpStatPrefix, GrpcService: g.service(), FailureModeAllow: g.grpc.GetFailOpen(),
					TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: g.enabled(nameTCP),
				}))
		}
	}
	return out
}

// customRules are the policies as Envoy evaluates them: what one matches is up to the provider. Dry-run policies are
// left out, since Envoy would enforce them here.
func (s *Set) customRules(policies []rules, x custom, tcp bool) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{}}
	for _, p := range policies {
		if p.dryRun {
			continue
		}
		one := &rbacv3.RBAC{Policies: map[string]*rbacv3.Policy{}}
		s.addRules(one, p, translator{s: s, namespace: p.namespace, tcp: tcp})
		for key, made := range one.Policies {
			if x.bad() {
				key += badSuffix
			} else {
				key = customPrefix + x.name + "-" + key
			}
			out.Policies[key] = made
		}
	}
	return out
}

// enabled switches the asking filter on for what the rules have matched.
func (x custom) enabled(rbacFilter string) *matcherv3.MetadataMatcher {
	return &matcherv3.MetadataMatcher{
		Filter: rbacFilter,
		Path: []*matcherv3.MetadataMatcher_PathSegment{{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: customShadow + "shadow_effective_policy_id"},
		}},
		Value: textValue(&matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: customPrefix + x.name},
		}),
	}
}

func (x custom) httpFilter() *httpauthzv3.ExtAuthz {
	out := &httpauthzv3.ExtAuthz{TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: x.enabled(nameHTTP)}
	if x.grpc != nil {
		out.FailureModeAllow = x.grpc.GetFailOpen()
		out.StatusOnError = statusCode(x.grpc.GetStatusOnError())
		out.WithRequestBody = body(x.grpc.GetIncludeRequestBodyInCheck())
		out.Services = &httpauthzv3.ExtAuthz_GrpcService{GrpcService: x.service()}
		return out
	}
	p := x.http
	out.FailureModeAllow = p.GetFailOpen()
	out.StatusOnError = statusCode(p.GetStatusOnError())
	out.WithRequestBody = body(p.GetIncludeRequestBodyInCheck())
	headers := p.GetIncludeRequestHeadersInCheck()
	if len(headers) == 0 {
		//nolint:staticcheck // the older name of the same field; users have it in their configuration
		headers = p.GetIncludeHeadersInCheck()
	}
	out.AllowedHeaders = headerNames(headers)
	cluster, host := filter.ProviderCluster(p.GetService(), p.GetPort())
	service := &httpauthzv3.HttpService{
		PathPrefix: p.GetPathPrefix(),
		ServerUri: &corev3.HttpUri{
			Uri: "http://" + host, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}, Timeout: timeout(p.GetTimeout()),
		},
	}
	if more := p.GetIncludeAdditionalHeadersInCheck(); len(more) > 0 {
		service.AuthorizationRequest = &httpauthzv3.AuthorizationRequest{}
		for _, k := range slices.Sorted(maps.Keys(more)) {
			service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd,
				&corev3.HeaderValue{Key: k, Value: more[k]})
		}
	}
	up, deny, allow := headerNames(p.GetHeadersToUpstreamOnAllow()), headerNames(p.GetHeadersToDownstreamOnDeny()),
		headerNames(p.GetHeadersToDownstreamOnAllow())
	if up != nil || deny != nil || allow != nil {
		service.AuthorizationResponse = &httpauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders: up, AllowedClientHeaders: deny, AllowedClientHeadersOnSuccess: allow,
		}
	}
	out.Services = &httpauthzv3.ExtAuthz_HttpService{HttpService: service}
	return out
}

func (x custom) service() *corev3.GrpcService {
	cluster, host := filter.ProviderCluster(x.grpc.GetService(), x.grpc.GetPort())
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host},
		},
		Timeout: timeout(x.grpc.GetTimeout()),
	}
}

func timeout(d *durationpb.Duration) *durationpb.Duration {
	return cmp.Or(d, durationpb.New(authzTimeout))
}

func statusCode(text string) *typev3.HttpStatus {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || typev3.StatusCode_name[int32(n)] == "" {
		return nil
	}
	return &typev3.HttpStatus{Code: typev3.StatusCode(n)}
}

func body(b *bodyInCheck) *httpauthzv3.BufferSettings {
	if b == nil {
		return nil
	}
	return &httpauthzv3.BufferSettings{
		MaxRequestBytes: b.GetMaxRequestBytes(), AllowPartialMessage: b.GetAllowPartialMessage(), PackAsBytes: b.GetPackAsBytes(),
	}
}

// headerNames matches header names, case aside, with a wildcard at one end.
func headerNames(list []string) *matcherv3.ListStringMatcher {
	if len(list) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, h := range list {
		m := text(h)
		m.IgnoreCase = m.GetSafeRegex() == nil // Envoy takes no case option with expressions
		out.Patterns = append(out.Patterns, m)
	}
	return out
}
