package xds

import (
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// Metrics are the series of the serving side, with the names that istiod has.
type Metrics struct {
	connected    *prometheus.GaugeVec
	pushes       *prometheus.CounterVec
	pushTime     *prometheus.HistogramVec
	sendTime     prometheus.Histogram
	configSize   *prometheus.HistogramVec
	expiredNonce *prometheus.CounterVec
	rejects      *prometheus.CounterVec
	reject       map[string]*prometheus.GaugeVec // by type URL
	internal     prometheus.Counter
	panics       prometheus.Counter
	writeTimeout prometheus.Counter
	recvMax      prometheus.Gauge
	convergence  prometheus.Histogram
}

// NewMetrics registers the series.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	sendTime := histogram("pilot_xds_send_time", "Time to send a response, in seconds.", []float64{.01, .1, 1, 3, 5, 10, 20, 30})
	convergence := histogram("pilot_proxy_convergence_time", "Time from a change's publication until a proxy was sent all of it, in seconds.",
		[]float64{.1, .5, 1, 3, 5, 10, 20, 30})
	internal := counter("pilot_total_xds_internal_errors", "Unexpected errors of streams.")
	panics := counter("mizzen_xds_stream_panics_total", "Streams that ended by a panic.")
	writeTimeout := counter("pilot_xds_write_timeout", "Responses that could not be sent in time.")
	recvMax := gauge("pilot_xds_recv_max", "The largest request received, in bytes.")
	m := &Metrics{
		connected: gauge("pilot_xds", "Connected streams by proxy version.", "version"),
		pushes:    counter("pilot_xds_pushes", "Responses sent, and errors of sending, by type.", "type"),
		pushTime: histogram("pilot_xds_push_time", "Time to make and send a response, in seconds.",
			[]float64{.01, .1, .5, 1, 3, 5, 10, 20, 30}, "type"),
		sendTime:     sendTime.WithLabelValues().(prometheus.Histogram),
		configSize:   histogram("pilot_xds_config_size_bytes", "Size of the resources of a response.", []float64{1, 1e4, 1e6, 4e6, 1e7, 4e7}, "type"),
		expiredNonce: counter("pilot_xds_expired_nonce", "Requests with a nonce that is not the last one sent.", "type"),
		rejects:      counter("pilot_total_xds_rejects", "Responses that proxies rejected.", "type"),
		reject: map[string]*prometheus.GaugeVec{
			translate.ClusterType:  gauge("pilot_xds_cds_reject", "Proxies that rejected clusters.", "node", "err"),
			translate.EndpointType: gauge("pilot_xds_eds_reject", "Proxies that rejected endpoints.", "node", "err"),
			translate.ListenerType: gauge("pilot_xds_lds_reject", "Proxies that rejected listeners.", "node", "err"),
			translate.RouteType:    gauge("pilot_xds_rds_reject", "Proxies that rejected routes.", "node", "err"),
		},
		internal: internal.WithLabelValues(), panics: panics.WithLabelValues(), writeTimeout: writeTimeout.WithLabelValues(),
		recvMax: recvMax.WithLabelValues(), convergence: convergence.WithLabelValues().(prometheus.Histogram),
	}
	all := []prometheus.Collector{
		m.connected, m.pushes, m.pushTime, sendTime, m.configSize, m.expiredNonce, m.rejects, internal, panics, writeTimeout, recvMax, convergence,
	}
	for _, g := range m.reject {
		all = append(all, g)
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// shortType returns the name of a type in metric labels. Types that nobody knows share one label, since their number is
// the clients' to choose.
func shortType(url string) string {
	switch url {
	case translate.ClusterType:
		return "cds"
	case translate.ListenerType:
		return "lds"
	case translate.RouteType:
		return "rds"
	case translate.EndpointType:
		return "eds"
	case translate.SecretType:
		return "sds"
	case translate.NameTableType:
		return "nds"
	case translate.ExtensionType:
		return "ecds"
	case translate.VirtualHostType:
		return "vhds"
	case "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig":
		return "pcds"
	case "type.googleapis.com/istio.workload.Address", "type.googleapis.com/istio.workload.Workload":
		return "wds"
	case "type.googleapis.com/istio.security.Authorization":
		return "wads"
	}
	if strings.HasPrefix(url, debugPrefix) {
		return debugPrefix
	}
	return "other"
}
