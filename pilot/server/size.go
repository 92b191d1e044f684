package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// sizes exports how much the engine holds, as it is when metrics are read.
type sizes struct {
	engine                                 *xds.Engine
	clients, classes, cells, rows, sharing *prometheus.Desc
}

func newSizes(e *xds.Engine) *sizes {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("mizzen_engine_"+name, help, nil, nil)
	}
	return &sizes{
		engine: e, clients: desc("clients", "Sessions attached to the push engine."),
		classes: desc("classes", "Groups of proxies that get the same of one slot."), cells: desc("cells", "Computed values held."),
		rows: desc("rows", "Rows that a computed value was made from."), sharing: desc("resources", "Encoded resources held, each once."),
	}
}

// Describe implements prometheus.Collector.
func (s *sizes) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.clients, s.classes, s.cells, s.rows, s.sharing} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *sizes) Collect(out chan<- prometheus.Metric) {
	now := s.engine.Size()
	for d, n := range map[*prometheus.Desc]int{
		s.clients: now.Clients, s.classes: now.Classes, s.cells: now.Cells, s.rows: now.Rows, s.sharing: now.Shared,
	} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
}
