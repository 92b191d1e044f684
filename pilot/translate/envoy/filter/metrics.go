package filter

import (
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	logtypev3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	transformv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/actions/transform_stat/v3"
	taginputv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/stats/v3"
	scopev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	api "istio.io/api/telemetry/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// metricsID says which standard metrics: of which connections, requests' or connections' own.
type metricsID struct {
	d    Direction
	peer Peer
	tcp  bool
}

// metrics returns the loggers that count for a stock Envoy what Istio's own filter counts (envoy-facts §4). They are
// shared: nobody modifies them.
func (s *Set) metrics(id metricsID) []*accesslogv3.AccessLog {
	if !s.stock || !s.c.Links(view.LinksStats) {
		return nil
	}
	made, _ := s.c.Cell(cell.ID{Kind: kindMetrics, Arg: id}).(*loggers)
	if made == nil {
		return nil
	}
	return made.list
}

// loggers is the value of a cell, which compares them by their pointer.
type loggers struct{ list []*accesslogv3.AccessLog }

// makeMetrics makes those loggers. Of several providers of metrics the first counts: all would count in the same names.
func (s *Set) makeMetrics(id metricsID) []*accesslogv3.AccessLog {
	merged := s.mergeMetrics(id.d)
	for _, name := range sortedKeys(merged) {
		if m := merged[name]; !m.off && s.isPrometheus(name) {
			return s.metricLogs(id, m)
		}
	}
	return nil
}

func (s *Set) isPrometheus(name string) bool {
	_, ok := s.provider(name).GetProvider().(*meshconfig.MeshConfig_ExtensionProvider_Prometheus)
	return ok
}

// metric is one standard metric: a counter if it has no unit, by 1 if it has no value.
type metric struct {
	kind  api.MetricSelector_IstioMetric
	value string
	unit  statsv3.Config_Histogram_Unit
}

func httpMetrics() []metric {
	return []metric{
		{kind: api.MetricSelector_REQUEST_COUNT},
		{api.MetricSelector_REQUEST_DURATION, "%DURATION%", statsv3.Config_Histogram_Milliseconds},
		{api.MetricSelector_REQUEST_SIZE, "%BYTES_RECEIVED%", statsv3.Config_Histogram_Bytes},
		{api.MetricSelector_RESPONSE_SIZE, "%BYTES_SENT%", statsv3.Config_Histogram_Bytes},
	}
}

// The metrics of a connection: some when it is there, some when it ends. What it reports in between is cumulative, and
// would be counted again and again.
func openedMetrics() []metric { return []metric{{kind: api.MetricSelector_TCP_OPENED_CONNECTIONS}} }

func closedMetrics() []metric {
	return []metric{
		{kind: api.MetricSelector_TCP_CLOSED_CONNECTIONS},
		{kind: api.MetricSelector_TCP_SENT_BYTES, value: "%BYTES_SENT%"},
		{kind: api.MetricSelector_TCP_RECEIVED_BYTES, value: "%BYTES_RECEIVED%"},
	}
}

func (s *Set) metricLogs(id metricsID, m *metricMerge) []*accesslogv3.AccessLog {
	tags := standardTags(id)
	if !id.tcp {
		return s.metricLog(httpMetrics(), tags, m, nil)
	}
	return append(
		s.metricLog(openedMetrics(), tags, m, logType(logtypev3.AccessLogType_TcpUpstreamConnected, false)),
		s.metricLog(closedMetrics(), tags, m, logType(logtypev3.AccessLogType_TcpConnectionEnd, false))...,
	)
}

// logType lets entries of one type through, or all others.
func logType(t logtypev3.AccessLogType, except bool) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: []logtypev3.AccessLogType{t}, Exclude: except},
	}}
}

// statsScope is the scope that Envoy prints without its own prefix once it has loaded any WebAssembly.
const statsScope = "wasmcustom"

// metricLog returns a logger for those of the metrics that are not off.
func (s *Set) metricLog(list []metric, tags []*statsv3.Config_Tag, m *metricMerge, when *accesslogv3.AccessLogFilter) []*accesslogv3.AccessLog {
	c := &statsv3.Config{StatsScope: &scopev3.Scope{Prefix: statsScope}}
	for _, one := range list {
		o := m.overrides[one.kind.String()]
		if o != nil && o.drop {
			continue
		}
		stat := &statsv3.Config_Stat{Name: "istio_" + exported(one.kind.String()), Tags: s.overridden(tags, o)}
		switch {
		case one.unit != statsv3.Config_Histogram_Unspecified:
			c.Histograms = append(c.Histograms, &statsv3.Config_Histogram{Stat: stat, Unit: one.unit, ValueFormat: one.value})
		case one.value != "":
			c.Counters = append(c.Counters, &statsv3.Config_Counter{Stat: stat, ValueFormat: one.value})
		default:
			c.Counters = append(c.Counters, &statsv3.Config_Counter{Stat: stat, ValueFixed: wrapperspb.UInt64(1)})
		}
	}
	if len(c.Counters)+len(c.Histograms) == 0 {
		return nil
	}
	l := s.logger(nameStatsLog, c)
	l.Filter = when
	return []*accesslogv3.AccessLog{l}
}

// overridden returns the tags with a Telemetry object's own in place. A value that Envoy would not understand is left
// out alone, as one that it finds no value for is "unknown".
func (s *Set) overridden(tags []*statsv3.Config_Tag, o *metricOverride) []*statsv3.Config_Tag {
	if o == nil || len(o.tags) == 0 {
		return tags
	}
	out := slices.DeleteFunc(slices.Clone(tags), func(t *statsv3.Config_Tag) bool { return o.tags[t.GetName()] != nil })
	for _, name := range sortedKeys(o.tags) {
		t := o.tags[name]
		if t.GetOperation() == api.MetricsOverrides_TagOverride_REMOVE || !tagName(name) {
			continue
		}
		if value, ok := format.Expression(t.GetValue()); ok {
			out = append(out, &statsv3.Config_Tag{Name: name, ValueFormat: "%CEL(" + value + ")%", Rules: s.orUnknown()})
		}
	}
	return out
}

// tagName tells whether Prometheus takes name for a label.
func tagName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "__")
}

// orUnknown turns a tag without a value into "unknown".
func (s *Set) orUnknown() *matcherv3.Matcher {
	extension := func(name string, m proto.Message) *xdscorev3.TypedExtensionConfig {
		return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: s.Pack(m)}
	}
	return &matcherv3.Matcher{MatcherType: &matcherv3.Matcher_MatcherTree_{MatcherTree: &matcherv3.Matcher_MatcherTree{
		Input: extension("stat_tag_value_input", &taginputv3.StatTagValueInput{}),
		TreeType: &matcherv3.Matcher_MatcherTree_ExactMatchMap{ExactMatchMap: &matcherv3.Matcher_MatcherTree_MatchMap{
			Map: map[string]*matcherv3.Matcher_OnMatch{"": {OnMatch: &matcherv3.Matcher_OnMatch_Action{
				Action: extension("transform_stat", &transformv3.TransformStat{
					UpdateTag: &transformv3.TransformStat_UpdateTag{NewTagValue: unknown},
				}),
			}}},
		}},
	}}}
}
