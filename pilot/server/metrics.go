package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// Metrics are the loop's own; the names are those that dashboards of the field know.
type Metrics struct {
	configEvents  *prometheus.CounterVec
	serviceEvents *prometheus.CounterVec
	inboundTotal  *prometheus.CounterVec
	debounceTime  prometheus.Histogram
	contextTime   prometheus.Histogram
	invalid       *prometheus.GaugeVec
}

// NewMetrics registers the metrics with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	buckets := []float64{.001, .005, .01, .05, .1, .5, 1, 3, 5, 10, 20, 30}
	m := &Metrics{
		configEvents:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pilot_k8s_cfg_events", Help: "Events from configuration sources."}, []string{"type", "event"}),
		serviceEvents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pilot_k8s_reg_events", Help: "Events from service registries."}, []string{"type", "event"}),
		inboundTotal:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pilot_inbound_updates", Help: "Updates received, by kind."}, []string{"type"}),
		debounceTime:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pilot_debounce_time", Help: "Seconds from the first change to the start of its commit.", Buckets: buckets}),
		contextTime:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pilot_pushcontext_init_seconds", Help: "Seconds to make and publish a PushContext.", Buckets: buckets}),
		invalid:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "mizzen_source_problems", Help: "Mistakes in the sources' input now, by source and code."}, []string{"source", "code"}),
	}
	r.MustRegister(m.configEvents, m.serviceEvents, m.inboundTotal, m.debounceTime, m.contextTime, m.invalid)
	return m
}

func (m *Metrics) inbound(events []model.Event) {
	for _, e := range events {
		what := "update"
		if e.Object == nil {
			what = "delete"
		}
		switch e.Key.Kind {
		case model.KindService, model.KindEndpointSlice, model.KindPod, model.KindNode:
			m.serviceEvents.WithLabelValues(string(e.Key.Kind)+"s", what).Inc()
		default:
			m.configEvents.WithLabelValues(string(e.Key.Kind), what).Inc()
		}
	}
	kind := "config"
	if onlyEndpoints(events) {
		kind = "eds"
	}
	m.inboundTotal.WithLabelValues(kind).Add(float64(len(events)))
}

func (m *Metrics) committed(_ int, took time.Duration) { m.contextTime.Observe(took.Seconds()) }

func (m *Metrics) problems(name string, problems []source.Problem) {
	m.invalid.DeletePartialMatch(prometheus.Labels{"source": name})
	for _, p := range problems {
		m.invalid.WithLabelValues(name, strings.ToLower(p.Code)).Inc()
	}
}
