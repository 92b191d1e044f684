package route

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// text is anything a user may write: mostly sensible, at times not.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "/", "/a", "/a/", "a", "x-h", "Host", ":authority", "*", ".*", "((", "[a", "a\nb", "a\x00b", "%", "é", " ", "GET"}),
		rapid.StringMatching(`[a-z/*.:@\[\]-]{0,12}`),
	)
}

func hostText() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"a.x.svc.cluster.local", "b.x.svc.cluster.local", "c.y.svc.cluster.local", "*.x.svc.cluster.local", "*.svc.cluster.local",
		"*", "free.example", "*.example", "A.example", "a.x", "b", "", "a.x.svc.cluster.local.", "10.96.9.1", "fd00::1", "bad\nhost",
	})
}

func match() *rapid.Generator[*networking.StringMatch] {
	return rapid.Custom(func(t *rapid.T) *networking.StringMatch {
		switch s := text().Draw(t, "text"); rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: s}}
		case 1:
			return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: s}}
		case 2:
			return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: s}}
		case 3:
			return &networking.StringMatch{}
		}
		return nil
	})
}

func matches() *rapid.Generator[map[string]*networking.StringMatch] {
	names := rapid.OneOf(text(), rapid.SampledFrom([]string{"@request.auth.claims", "@request.auth.claims.a.b", "@request.auth.claims[a][b]"}))
	return rapid.MapOfN(names, match(), 0, 2)
}

func request() *rapid.Generator[*networking.HTTPMatchRequest] {
	return rapid.Custom(func(t *rapid.T) *networking.HTTPMatchRequest {
		return &networking.HTTPMatchRequest{
			Name: text().Draw(t, "name"), Uri: match().Draw(t, "uri"), Method: match().Draw(t, "method"),
			Authority: match().Draw(t, "authority"), Headers: matches().Draw(t, "headers"),
			WithoutHeaders: matches().Draw(t, "without"), QueryParams: matches().Draw(t, "query"),
			Port:            rapid.SampledFrom([]uint32{0, 0, 80, 8080}).Draw(t, "port"),
			SourceLabels:    rapid.MapOfN(rapid.Just("app"), rapid.SampledFrom([]string{"web", "job"}), 0, 1).Draw(t, "labels"),
			SourceNamespace: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "namespace"),
			Gateways:        rapid.SliceOfN(rapid.SampledFrom([]string{"mesh", "edge"}), 0, 1).Draw(t, "gateways"),
			IgnoreUriCase:   rapid.Bool().Draw(t, "case"), StatPrefix: text().Draw(t, "stat"),
		}
	})
}

func destination() *rapid.Generator[*networking.Destination] {
	return rapid.Custom(func(t *rapid.T) *networking.Destination {
		d := &networking.Destination{Host: hostText().Draw(t, "host"), Subset: text().Draw(t, "subset")}
		if rapid.Bool().Draw(t, "with port") {
			d.Port = &networking.PortSelector{Number: rapid.SampledFrom([]uint32{0, 80, 70000}).Draw(t, "port")}
		}
		return d
	})
}

func span() *rapid.Generator[*durationpb.Duration] {
	return rapid.SampledFrom([]*durationpb.Duration{
		nil, durationpb.New(0), durationpb.New(time.Second), durationpb.New(-time.Second), {Seconds: 1 << 60}, {Seconds: 1, Nanos: -5},
	})
}

func percent() *rapid.Generator[*networking.Percent] {
	return rapid.SampledFrom([]*networking.Percent{nil, {Value: 0}, {Value: 0.1}, {Value: 100}, {Value: -3}, {Value: 1e9}})
}

func headerOps() *rapid.Generator[*networking.Headers] {
	return rapid.Custom(func(t *rapid.T) *networking.Headers {
		ops := func(label string) *networking.Headers_HeaderOperations {
			return &networking.Headers_HeaderOperations{
				Set:    rapid.MapOfN(text(), text(), 0, 2).Draw(t, label+" set"),
				Add:    rapid.MapOfN(text(), text(), 0, 2).Draw(t, label+" add"),
				Remove: rapid.SliceOfN(text(), 0, 2).Draw(t, label+" remove"),
			}
		}
		return &networking.Headers{Request: ops("request"), Response: ops("response")}
	})
}

func routeRule() *rapid.Generator[*networking.HTTPRoute] {
	return rapid.Custom(func(t *rapid.T) *networking.HTTPRoute {
		r := &networking.HTTPRoute{
			Name: text().Draw(t, "name"), Match: rapid.SliceOfN(request(), 0, 2).Draw(t, "match"),
			Timeout: span().Draw(t, "timeout"), Headers: headerOps().Draw(t, "headers"),
		}
		switch rapid.IntRange(0, 5).Draw(t, "action") {
		case 0:
			r.Redirect = &networking.HTTPRedirect{
				Uri: text().Draw(t, "uri"), Authority: text().Draw(t, "authority"), Scheme: text().Draw(t, "scheme"),
				RedirectCode: rapid.SampledFrom([]uint32{0, 301, 304, 308, 999}).Draw(t, "code"),
			}
		case 1:
			r.DirectResponse = &networking.HTTPDirectResponse{Status: rapid.SampledFrom([]uint32{0, 200, 99999}).Draw(t, "status")}
		default:
			r.Route = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *networking.HTTPRouteDestination {
				return &networking.HTTPRouteDestination{
					Destination: destination().Draw(t, "destination"), Weight: rapid.Int32Range(-1, 100).Draw(t, "weight"),
					Headers: headerOps().Draw(t, "headers"),
				}
			}), 0, 3).Draw(t, "route")
		}
		decorate(t, r)
		return r
	})
}

// decorate adds what is independent of the action.
func decorate(t *rapid.T, r *networking.HTTPRoute) {
	if rapid.Bool().Draw(t, "mirrored") {
		r.Mirror, r.MirrorPercentage = destination().Draw(t, "mirror"), percent().Draw(t, "share")
		r.Mirrors = []*networking.HTTPMirrorPolicy{{Destination: destination().Draw(t, "mirror 2"), Percentage: percent().Draw(t, "share 2")}, nil}
	}
	if rapid.Bool().Draw(t, "retried") {
		r.Retries = &networking.HTTPRetry{
			Attempts: rapid.Int32Range(-1, 3).Draw(t, "attempts"), RetryOn: rapid.SampledFrom([]string{"", "5xx,503", "77,,x"}).Draw(t, "on"),
			PerTryTimeout: span().Draw(t, "try"), Backoff: span().Draw(t, "backoff"),
			RetryRemoteLocalities: wrapperspb.Bool(rapid.Bool().Draw(t, "remote")),
		}
	}
	if rapid.Bool().Draw(t, "faulty") {
		r.Fault = &networking.HTTPFaultInjection{
			Delay: &networking.HTTPFaultInjection_Delay{
				HttpDelayType: &networking.HTTPFaultInjection_Delay_FixedDelay{FixedDelay: span().Draw(t, "delay")},
				Percentage:    percent().Draw(t, "delayed"),
			},
			Abort: &networking.HTTPFaultInjection_Abort{
				ErrorType: &networking.HTTPFaultInjection_Abort_HttpStatus{HttpStatus: rapid.SampledFrom([]int32{-1, 0, 400, 9999}).Draw(t, "abort")},
			},
		}
	}
	if rapid.Bool().Draw(t, "cors") {
		r.CorsPolicy = &networking.CorsPolicy{
			AllowOrigins: rapid.SliceOfN(match(), 0, 2).Draw(t, "origins"), AllowMethods: rapid.SliceOfN(text(), 0, 2).Draw(t, "methods"),
			MaxAge: span().Draw(t, "age"),
		}
	}
	if rapid.Bool().Draw(t, "rewritten") {
		r.Rewrite = &networking.HTTPRewrite{Uri: text().Draw(t, "rewrite"), Authority: text().Draw(t, "authority")}
		if rapid.Bool().Draw(t, "by pattern") {
			r.Rewrite.UriRegexRewrite = &networking.RegexRewrite{Match: text().Draw(t, "pattern"), Rewrite: text().Draw(t, "substitution")}
		}
	}
}

func virtualService() *rapid.Generator[*networking.VirtualService] {
	return rapid.Custom(func(t *rapid.T) *networking.VirtualService {
		return &networking.VirtualService{
			Hosts: rapid.SliceOfN(hostText(), 1, 3).Draw(t, "hosts"), Http: rapid.SliceOfN(routeRule(), 0, 3).Draw(t, "http"),
		}
	})
}

const randomServices = `
apiVersion: v1
kind: Service
metadata: {name: a, namespace: x}
spec: {clusterIP: 10.96.9.1, ports: [{name: http, port: 80}, {name: grpc, port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: b, namespace: x}
spec: {clusterIP: None, ports: [{name: http, port: 80}, {name: any, port: 9000}]}
---
apiVersion: v1
kind: Service
metadata: {name: c, namespace: y}
spec: {clusterIP: 10.96.9.1, ports: [{name: tcp, port: 80}, {name: http, port: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: y}
spec: {hosts: [a.x, "*.example", free.example], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}
`

func askers() []client {
	return []client{
		{namespace: "x", labels: map[string]string{"app": "web"}}, {namespace: "y", stock: true}, {namespace: "z"},
	}
}

func names80() []string {
	return []string{"80", "8080", httpProxyName, "a.x.svc.cluster.local:80", "b.x.svc.cluster.local:9000", "7", "?"}
}

// TestArbitraryRules checks that whatever users write gives valid configurations, and that following edits gives the
// same bytes as starting from scratch.
func TestArbitraryRules(t *testing.T) {
	t.Parallel()
	base := objects(t, randomServices)
	rapid.Check(t, func(rt *rapid.T) {
		live := newWorld(t, nil, randomServices)
		current := map[string]*model.Object{}
		for step := range rapid.IntRange(1, 3).Draw(rt, "edits") {
			row := rapid.SampledFrom([]string{"x/one", "y/two"}).Draw(rt, "rule")
			ns, name, _ := strings.Cut(row, "/")
			o := &model.Object{
				ObjectKey: model.ObjectKey{Kind: model.KindVirtualService, Namespace: ns, Name: name},
				Created:   time.Unix(int64(step), 0), Spec: virtualService().Draw(rt, fmt.Sprint("spec ", step)),
			}
			current[row] = o
			live.put(o)
			fresh := newWorld(t, nil, "")
			all := append([]*model.Object{}, base...)
			for _, o := range current {
				all = append(all, o)
			}
			fresh.put(all...)
			for _, p := range askers() {
				live.joined(p, "80"+apartSuffix)
				for _, n := range names80() {
					got, want := live.rds(p, n), fresh.rds(p, n)
					if !proto.Equal(got, want) {
						rt.Fatalf("%s %s: following the edits gives\n%v\nfrom scratch it is\n%v", p.namespace, n, got, want)
					}
				}
			}
		}
	})
}
