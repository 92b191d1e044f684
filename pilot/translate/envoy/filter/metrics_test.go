package filter

import (
	"strings"
	"testing"

	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// everyLink are the extensions of a whole stock Envoy that count here.
func everyLink() []string {
	return []string{
		"envoy.access_loggers.stats", "envoy.built_in_formatters.cel", "envoy.filters.network.set_filter_state",
		"envoy.filters.http.header_mutation", "envoy.filters.http.header_to_metadata",
	}
}

// counts gives what loggers count as text, with the labels that are not standard and those that are missing.
func counts(t *testing.T, logs []*accesslogv3.AccessLog, d Direction) string {
	t.Helper()
	var out []string
	for _, l := range logs {
		if l.GetName() != nameStatsLog {
			continue
		}
		c := &statsv3.Config{}
		if err := l.GetTypedConfig().UnmarshalTo(c); err != nil {
			t.Fatal(err)
		}
		for _, s := range c.GetCounters() {
			out = append(out, statText(s.GetStat(), d))
		}
		for _, s := range c.GetHistograms() {
			out = append(out, statText(s.GetStat(), d))
		}
	}
	return strings.Join(out, " ")
}

func statText(s *statsv3.Config_Stat, d Direction) string {
	standard := map[string]string{}
	for _, tag := range standardTags(metricsID{d: d}) {
		standard[tag.GetName()] = tag.GetValueFormat()
	}
	var own []string
	for _, tag := range s.GetTags() {
		if v, ok := standard[tag.GetName()]; !ok || tag.GetRules() != nil {
			own = append(own, tag.GetName()+"="+tag.GetValueFormat())
		} else if v != "" {
			delete(standard, tag.GetName())
		}
	}
	for _, gone := range sortedKeys(standard) {
		own = append(own, "-"+gone)
	}
	return strings.TrimPrefix(s.GetName(), "istio_") + "{" + strings.Join(own, ",") + "}"
}

// TestStockMetrics checks that Telemetry objects act on the metrics of a stock Envoy.
func TestStockMetrics(t *testing.T) {
	t.Parallel()
	const all = "requests_total{} request_duration_milliseconds{} request_bytes{} response_bytes{}"
	for _, c := range []struct {
		name, mesh        string
		links             []string
		telemetry         map[string]string
		outbound, inbound string
	}{
		{"by default", prometheus, everyLink(), nil, all, all},
		{"no provider", "", everyLink(), nil, "", ""},
		{"by a Telemetry object", "", everyLink(), map[string]string{"shop/t": "{metrics: [{providers: [{name: prometheus}]}]}"}, all, all},
		{"an Envoy without the logger", prometheus, everyLink()[1:], nil, "", ""},
		{
			"all client metrics off", prometheus, everyLink(),
			map[string]string{"shop/t": `{metrics: [{overrides: [{match: {mode: CLIENT}, disabled: true}]}]}`},
			"", all,
		},
		{
			"one off, labels of another", prometheus, everyLink(),
			map[string]string{"shop/t": `{metrics: [{overrides: [
				{match: {metric: REQUEST_SIZE, mode: SERVER}, disabled: true},
				{match: {metric: REQUEST_COUNT, mode: SERVER}, tagOverrides: {
					a: {value: request.method}, response_code: {operation: REMOVE}, reporter: {value: "'me'"}, bad: {value: "request.("}, "no-name": {value: "'x'"}, none: {}}}]}]}`},
			all, "requests_total{a=%CEL(request.method)%,reporter=%CEL(\"me\")%,-reporter,-response_code} request_duration_milliseconds{} response_bytes{}",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _ := fixture{mesh: c.mesh, stock: true, links: c.links, telemetry: c.telemetry}.set(t)
			for d, want := range map[Direction]string{Outbound: c.outbound, Inbound: c.inbound} {
				m := manager(t, last(s.Requests(HTTP{Direction: d, StatPrefix: "x;", RouteName: "r", Protocol: model.HTTP})))
				if got := counts(t, m.GetAccessLog(), d); got != want {
					t.Errorf("direction %d: %s, want %s", d, got, want)
				}
				if err := translate.Check(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestStockMetricsAreShared checks that what counts for a stock Envoy depends on nothing of the proxy's own, and how
// large it is.
func TestStockMetricsAreShared(t *testing.T) {
	t.Parallel()
	f := fixture{mesh: prometheus, stock: true, links: everyLink()}
	s, rec := f.set(t)
	filters := s.Connection(TCP{Direction: Outbound, StatPrefix: "a", Cluster: "a", Protocol: model.TCP})
	if extra := rec.Mask() &^ (1<<view.PropProfile | 1<<view.PropSettings | 1<<view.PropLinks); extra != 0 {
		t.Errorf("other properties were read: %b", extra)
	}
	p := &tcpv3.TcpProxy{}
	if err := last(filters).GetTypedConfig().UnmarshalTo(p); err != nil {
		t.Fatal(err)
	}
	if !p.GetAccessLogOptions().GetFlushAccessLogOnConnected() || len(p.GetAccessLog()) != 2 {
		t.Error(p.GetAccessLogOptions(), len(p.GetAccessLog()))
	}
	http := manager(t, last(s.Requests(HTTP{Direction: Outbound, StatPrefix: "x;", RouteName: "r", Protocol: model.HTTP})))
	t.Logf("bytes: HTTP %d, TCP %d", proto.Size(http), proto.Size(p))
	if proto.Size(http) > 20_000 || proto.Size(p) > 20_000 {
		t.Error("labels take too much room")
	}
}

// TestPeerHeaders checks which chains exchange names with their peers.
func TestPeerHeaders(t *testing.T) {
	t.Parallel()
	const rest = " grpc_stats fault cors router"
	for _, c := range []struct {
		d    Direction
		peer Peer
		mesh string
		link int
		want string
	}{
		{Outbound, PeerUnknown, prometheus, 5, "mesh.own header_to_metadata mesh.peer" + rest},
		{Inbound, PeerMutual, prometheus, 5, "header_to_metadata mesh.own" + rest},
		{Inbound, PeerTunnel, prometheus, 5, "header_to_metadata mesh.own" + rest},
		{Inbound, PeerUnknown, prometheus, 5, "mesh.peer" + rest},
		{Inbound, PeerMutual, "", 5, rest[1:]},
		{Inbound, PeerMutual, prometheus, 4, rest[1:]},
	} {
		s, _ := fixture{mesh: c.mesh, stock: true, links: everyLink()[:c.link]}.set(t)
		m := manager(t, last(s.Requests(HTTP{Direction: c.d, Peer: c.peer, StatPrefix: "x;", RouteName: "r", Protocol: model.HTTP})))
		if got := httpNames(m); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestBadLogFilter checks that a filter that Envoy would refuse takes its own logger away and no more.
func TestBadLogFilter(t *testing.T) {
	t.Parallel()
	s, _ := fixture{mesh: logProviders, telemetry: map[string]string{
		"shop/t": `{accessLogging: [{providers: [{name: file}], filter: {expression: "response.code >"}}, {providers: [{name: als}], filter: {expression: "response.code >= 400"}}]}`,
	}}.set(t)
	if got := logNames(s, Inbound); got != "http_grpc?" {
		t.Error(got)
	}
}
