package filter

import (
	"slices"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	apitype "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/extension"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Direction is the direction of a listener's traffic as its workload sees it.
type Direction uint8

// The directions.
const (
	Outbound Direction = iota
	Inbound
)

// mode is the direction as the API names it.
func (d Direction) mode() apitype.WorkloadMode {
	if d == Inbound {
		return apitype.WorkloadMode_SERVER
	}
	return apitype.WorkloadMode_CLIENT
}

// kindProxyConfig is the cell of the effective ProxyConfig.
const kindProxyConfig cell.Kind = 100

// kindMetrics is the cells of the loggers that make standard metrics; their argument is a metricsID.
const kindMetrics cell.Kind = 101

// kindCondition is the cells that tell whether Envoy takes a condition of access logs; their argument is its text. A
// condition stands in the loggers of every filter chain, and is parsed once.
const kindCondition cell.Kind = 102

// Define registers the package's cells.
func Define(g *cell.Graph, pc func() *model.PushContext) {
	view.DefineCell(g, pc, kindProxyConfig, func(c *view.Context, _ any) any { return parseProxyConfig(c) }, func(a, b any) bool {
		x, _ := a.(*meshconfig.ProxyConfig)
		y, _ := b.(*meshconfig.ProxyConfig)
		return proto.Equal(x, y)
	})
	view.DefineCell(g, pc, kindMetrics, func(c *view.Context, id metricsID) any { return &loggers{New(c).makeMetrics(id)} }, func(a, b any) bool {
		x, _ := a.(*loggers)
		y, _ := b.(*loggers)
		return x != nil && y != nil && slices.EqualFunc(x.list, y.list, func(l, m *accesslogv3.AccessLog) bool { return proto.Equal(l, m) })
	})
	view.DefineCell(g, pc, kindCondition, func(_ *view.Context, text string) any { return format.ValidExpression(text) }, nil)
}

// parseProxyConfig returns the proxy's own configuration, which its agent has merged over the mesh's already, or the
// mesh's default for a proxy that states none.
func parseProxyConfig(c *view.Context) *meshconfig.ProxyConfig {
	text := c.Meta("PROXY_CONFIG")
	if text == "" {
		return c.Mesh().Config.GetDefaultConfig()
	}
	out := &meshconfig.ProxyConfig{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), out); err != nil {
		return c.Mesh().Config.GetDefaultConfig()
	}
	return out
}

// Set makes the filters of one computation. Ask Err at the end.
type Set struct {
	c     *view.Context
	mesh  *meshconfig.MeshConfig
	stock bool
	proxy *meshconfig.ProxyConfig
	telem *telemetry
	added *extension.Set
}

// New returns the filters for the context's proxy.
func New(c *view.Context) *Set {
	return &Set{c: c, mesh: c.Mesh().Config, stock: c.Stock(), added: extension.New(c)}
}

// Stock tells whether the filters are for a stock Envoy.
func (s *Set) Stock() bool { return s.stock }

// Pack wraps m as translate.Pack does.
func (s *Set) Pack(m proto.Message) *anypb.Any { return translate.Pack(m) }

// ProxyConfig returns the configuration in force for the proxy; it is shared.
func (s *Set) ProxyConfig() *meshconfig.ProxyConfig {
	if s.proxy == nil {
		s.proxy, _ = s.c.Cell(cell.ID{Kind: kindProxyConfig}).(*meshconfig.ProxyConfig)
	}
	return s.proxy
}

// idleTimeout returns the metadata IDLE_TIMEOUT, nil if it is not given.
func (s *Set) idleTimeout() *durationpb.Duration {
	text := s.c.Meta("IDLE_TIMEOUT")
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil
	}
	return durationpb.New(d)
}
