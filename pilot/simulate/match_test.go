package simulate

import (
	"math"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

func TestVirtualHostPrecedence(t *testing.T) {
	t.Parallel()
	c := &routev3.RouteConfiguration{}
	for _, d := range []string{"*", "*.com", "*.b.com", "a.b.com", "a.*", "a.b.*", "web:8080"} {
		c.VirtualHosts = append(c.VirtualHosts, &routev3.VirtualHost{Name: d, Domains: []string{d}})
	}
	portless := &routev3.RouteConfiguration{VirtualHosts: c.VirtualHosts, IgnorePortInHostMatching: true}
	for host, want := range map[string]string{
		"a.b.com": "a.b.com", "A.B.com": "a.b.com", "x.b.com": "*.b.com", "x.y.b.com": "*.b.com", "b.com": "*.com", "a.c.com": "*.com",
		"a.b.org": "a.b.*", "a.c.org": "a.*", "z": "*", "web:8080": "web:8080", "web": "*", ".com": "*", "a.b.com:80": "a.b.*",
	} {
		if got := hostOf(c, host).GetName(); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
	if got := hostOf(portless, "a.b.com:80").GetName(); got != "a.b.com" {
		t.Errorf("without its port: got %s", got)
	}
}

func TestHeaderMatchers(t *testing.T) {
	t.Parallel()
	text := func(m *matcherv3.StringMatcher) *routev3.HeaderMatcher {
		return &routev3.HeaderMatcher{Name: "X", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m}}
	}
	exact := text(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "Jo"}})
	inverted := &routev3.HeaderMatcher{Name: "x", HeaderMatchSpecifier: exact.GetHeaderMatchSpecifier(), InvertMatch: true}
	asEmpty := &routev3.HeaderMatcher{Name: "x", HeaderMatchSpecifier: exact.GetHeaderMatchSpecifier(), InvertMatch: true, TreatMissingHeaderAsEmpty: true}
	present := &routev3.HeaderMatcher{Name: "x", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
	absent := &routev3.HeaderMatcher{Name: "x", HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}, InvertMatch: true}
	folded := text(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "J"}, IgnoreCase: true})
	number := &routev3.HeaderMatcher{Name: "x", HeaderMatchSpecifier: &routev3.HeaderMatcher_RangeMatch{RangeMatch: &typev3.Int64Range{Start: 1, End: 5}}}
	for _, c := range []struct {
		name   string
		m      *routev3.HeaderMatcher
		value  string
		absent bool
		want   bool
	}{
		{"exact", exact, "Jo", false, true},
		{"exact, another case", exact, "jo", false, false},
		{"exact, absent", exact, "", true, false},
		{"inverted", inverted, "al", false, true},
		{"inverted, absent: nothing to match", inverted, "", true, false},
		{"inverted, absent counts as empty", asEmpty, "", true, true},
		{"present", present, "", false, true},
		{"present, absent", present, "", true, false},
		{"absent", absent, "", true, true},
		{"absent, present", absent, "a", false, false},
		{"any case", folded, "jo", false, true},
		{"a range", number, "1", false, true},
		{"the range's end", number, "5", false, false},
		{"no number", number, "x", false, false},
	} {
		w := &walker{q: Request{Headers: map[string]string{}}}
		if !c.absent {
			w.q.Headers["x"] = c.value
		}
		if got := w.headerMatches(c.m); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestPathTemplates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template, path string
		want           bool
	}{
		{"/a/*/c", "/a/b/c", true},
		{"/a/*/c", "/a/b/b/c", false},
		{"/a/*", "/a/", false},
		{"/a/**", "/a/b/c", true},
		{"/a/**/z", "/a/b/c/z", true},
		{"/a/**/z", "/a/b/c", false},
		{"/a/{name}", "/a/b", true},
		{"/a/{name=**}", "/a/b/c", true},
		{"/a", "/a/b", false},
	} {
		if got := matchTemplate(c.template, c.path); got != c.want {
			t.Errorf("%s of %s: got %v", c.template, c.path, got)
		}
	}
}

// group is endpoints of one priority, by health.
func group(priority uint32, health ...corev3.HealthStatus) *endpointv3.LocalityLbEndpoints {
	out := &endpointv3.LocalityLbEndpoints{Priority: priority}
	for range health {
		out.LbEndpoints = append(out.LbEndpoints, &endpointv3.LbEndpoint{})
	}
	for i, h := range health {
		out.LbEndpoints[i].HealthStatus = h
	}
	return out
}

func TestPriorityLevels(t *testing.T) {
	t.Parallel()
	const up, down = corev3.HealthStatus_HEALTHY, corev3.HealthStatus_UNHEALTHY
	calm := &clusterv3.Cluster{CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{}}}
	for _, c := range []struct {
		name   string
		c      *clusterv3.Cluster
		groups []*endpointv3.LocalityLbEndpoints
		want   []float64
	}{
		{"all healthy", calm, []*endpointv3.LocalityLbEndpoints{group(0, up, up), group(1, up)}, []float64{50, 50, 0}},
		{"enough of the first", calm, []*endpointv3.LocalityLbEndpoints{group(0, up, up, up, down), group(1, up)}, []float64{100. / 3, 100. / 3, 100. / 3, 0, 0}},
		{"half of the first", calm, []*endpointv3.LocalityLbEndpoints{group(0, up, down), group(1, up)}, []float64{70, 0, 30}},
		{"none of the first", calm, []*endpointv3.LocalityLbEndpoints{group(0, down), group(1, up)}, []float64{0, 100}},
		{"nobody, no panic", calm, []*endpointv3.LocalityLbEndpoints{group(0, down, down)}, []float64{0, 0}},
		{"nobody, panic", &clusterv3.Cluster{}, []*endpointv3.LocalityLbEndpoints{group(0, down, down)}, []float64{50, 50}},
		{"too few, panic", &clusterv3.Cluster{}, []*endpointv3.LocalityLbEndpoints{group(0, up, down, down, down)}, []float64{25, 25, 25, 25}},
		{"unknown health", calm, []*endpointv3.LocalityLbEndpoints{group(0, corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DRAINING)}, []float64{100, 0}},
		{"nothing", calm, nil, nil},
	} {
		got := members(c.c, &endpointv3.ClusterLoadAssignment{Endpoints: c.groups})
		if len(got) != len(c.want) {
			t.Errorf("%s: %d endpoints", c.name, len(got))
			continue
		}
		for i, e := range got {
			if math.Abs(e.Share-c.want[i]) > 0.01 {
				t.Errorf("%s: endpoint %d has %.2f %%, want %.2f", c.name, i, e.Share, c.want[i])
			}
		}
	}
}
