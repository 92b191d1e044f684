package filter

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"istio.io/api/envoy/extensions/stats"
	meshconfig "istio.io/api/mesh/v1alpha1"
	api "istio.io/api/telemetry/v1alpha1"
)

// statsFilter is one provider's statistics filter.
type statsFilter struct{ config *stats.PluginConfig }

// stats returns the configurations of the statistics filters for one direction. A stock Envoy has no such filter.
func (s *Set) stats(d Direction) []*stats.PluginConfig {
	if s.stock {
		return nil
	}
	t := s.telemetry()
	if !t.known[d] {
		t.stats[d], t.known[d] = s.makeStats(d), true
	}
	out := make([]*stats.PluginConfig, len(t.stats[d]))
	for i, f := range t.stats[d] {
		out[i] = f.config
	}
	return out
}

// metricMerge is what Telemetry objects make of one provider's metrics in one direction.
type metricMerge struct {
	interval  *durationpb.Duration
	off       bool
	overrides map[string]*metricOverride
}

type metricOverride struct {
	drop bool
	tags map[string]*api.MetricsOverrides_TagOverride
}

func (s *Set) makeStats(d Direction) []statsFilter {
	merged := s.mergeMetrics(d)
	var out []statsFilter
	for _, name := range sortedKeys(merged) {
		m := merged[name]
		p := s.provider(name)
		if m.off || p == nil {
			continue
		}
		if _, ok := p.GetProvider().(*meshconfig.MeshConfig_ExtensionProvider_Prometheus); !ok {
			continue
		}
		out = append(out, statsFilter{m.config(d)})
	}
	return out
}

func (s *Set) mergeMetrics(d Direction) map[string]*metricMerge {
	var sections []*api.Metrics
	for _, spec := range s.telemetry().specs {
		sections = append(sections, spec.GetMetrics()...)
	}
	inherited := s.mesh.GetDefaultProviders().GetMetrics()
	last := inherited
	for _, m := range sections {
		if n := providerNames(m.GetProviders()); len(n) > 0 {
			last = n
		}
	}
	out := map[string]*metricMerge{}
	for _, name := range last {
		out[name] = &metricMerge{overrides: map[string]*metricOverride{}}
	}
	current := inherited
	for _, section := range sections {
		if n := providerNames(section.GetProviders()); len(n) > 0 {
			current = n
		}
		for _, name := range current {
			if m := out[name]; m != nil {
				m.apply(section, d)
			}
		}
	}
	return out
}

func (m *metricMerge) apply(section *api.Metrics, d Direction) {
	if section.GetReportingInterval() != nil {
		m.interval = section.GetReportingInterval()
	}
	for _, o := range section.GetOverrides() {
		if !selects(o.GetMatch().GetMode(), d) {
			continue
		}
		names := metricsOf(o.GetMatch())
		if len(names) > 1 && o.GetDisabled().GetValue() {
			m.off = true
			continue
		}
		m.off = false
		for _, n := range names {
			m.override(n, o)
		}
	}
}

func (m *metricMerge) override(name string, o *api.MetricsOverrides) {
	has := m.overrides[name]
	if has == nil {
		has = &metricOverride{tags: map[string]*api.MetricsOverrides_TagOverride{}}
		m.overrides[name] = has
	}
	if o.GetDisabled() != nil {
		has.drop = o.GetDisabled().GetValue()
	}
	for k, v := range o.GetTagOverrides() {
		has.tags[k] = v
	}
}

// metricsOf returns the metrics that a selector names: one, or all.
func metricsOf(m *api.MetricSelector) []string {
	if c := m.GetCustomMetric(); c != "" {
		return []string{c}
	}
	if m.GetMetric() != api.MetricSelector_ALL_METRICS {
		return []string{m.GetMetric().String()}
	}
	var out []string
	for n, name := range api.MetricSelector_IstioMetric_name {
		if api.MetricSelector_IstioMetric(n) != api.MetricSelector_ALL_METRICS {
			out = append(out, name)
		}
	}
	return out
}

// exported returns the name under which the proxy knows a metric.
func exported(metric string) string {
	switch metric {
	case "REQUEST_COUNT":
		return "requests_total"
	case "REQUEST_DURATION":
		return "request_duration_milliseconds"
	case "REQUEST_SIZE":
		return "request_bytes"
	case "RESPONSE_SIZE":
		return "response_bytes"
	case "TCP_OPENED_CONNECTIONS":
		return "tcp_connections_opened_total"
	case "TCP_CLOSED_CONNECTIONS":
		return "tcp_connections_closed_total"
	case "TCP_SENT_BYTES":
		return "tcp_sent_bytes_total"
	case "TCP_RECEIVED_BYTES":
		return "tcp_received_bytes_total"
	case "GRPC_REQUEST_MESSAGES":
		return "request_messages_total"
	case "GRPC_RESPONSE_MESSAGES":
		return "response_messages_total"
	}
	return metric
}

func (m *metricMerge) config(d Direction) *stats.PluginConfig {
	out := &stats.PluginConfig{DisableHostHeaderFallback: d == Inbound, TcpReportingDuration: m.interval}
	for _, name := range sortedKeys(m.overrides) {
		o := m.overrides[name]
		mc := &stats.MetricConfig{Name: exported(name), Drop: o.drop, Dimensions: map[string]string{}}
		for _, tag := range sortedKeys(o.tags) {
			t := o.tags[tag]
			if t.GetOperation() == api.MetricsOverrides_TagOverride_REMOVE {
				mc.TagsToRemove = append(mc.TagsToRemove, tag)
			} else {
				mc.Dimensions[tag] = t.GetValue()
			}
		}
		out.Metrics = append(out.Metrics, mc)
	}
	return out
}
