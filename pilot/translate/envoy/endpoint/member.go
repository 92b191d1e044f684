package endpoint

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// The metadata of an endpoint: what the cluster's transport socket matches compare, and what names the workload.
const (
	metaMatch    = "envoy.transport_socket_match"
	metaIstio    = "istio"
	keyTLSMode   = "tlsMode"
	keyWorkload  = "workload"
	modeIstio    = "istio"
	modeDisabled = "disabled"
)

// member returns e as Envoy is told it.
func (b *builder) member(e *model.Endpoint) *endpointv3.LbEndpoint {
	fields := map[string]*structpb.Struct{
		metaIstio: text(keyWorkload, b.workload(e)),
	}
	if e.TLSMode != "" && e.TLSMode != modeDisabled && b.mtls.enabled(e) {
		fields[metaMatch] = text(keyTLSMode, e.TLSMode)
	}
	out := &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: b.address(e)},
		LoadBalancingWeight: wrapperspb.UInt32(saturate(uint64(max(e.Weight, 1)) * uint64(b.networks.scale))),
		Metadata:            &corev3.Metadata{FilterMetadata: fields},
	}
	if b.tunnelled(e) {
		tunnel(out, e)
	}
	switch h := b.health(e); h {
	case model.Healthy, model.Unhealthy, model.Draining:
		out.HealthStatus = corev3.HealthStatus(h)
	}
	return out
}

func text(key, value string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(value)}}
}

// workload names the endpoint's workload for telemetry: "workload;namespace;canonical name;canonical revision;cluster".
func (b *builder) workload(e *model.Endpoint) string {
	canonical, revision := e.CanonicalName, e.CanonicalRevision
	if canonical == "" {
		canonical = e.WorkloadName
	}
	if revision == "latest" {
		revision = ""
	}
	return strings.Join([]string{e.WorkloadName, e.Namespace, canonical, revision, e.Cluster}, ";")
}

func (b *builder) address(e *model.Endpoint) *endpointv3.Endpoint {
	out := &endpointv3.Endpoint{Address: translate.Address(e.Addresses[0], e.Port)}
	if b.dual {
		for _, a := range e.Addresses[1:] {
			if !isAddress(a) {
				continue
			}
			out.AdditionalAddresses = append(out.AdditionalAddresses, &endpointv3.Endpoint_AdditionalAddress{
				Address: translate.Address(a, e.Port),
			})
		}
	}
	return out
}

// mtls tells which endpoints speak mutual TLS of the mesh.
type mtls struct {
	c *view.Context
	// rule is set when the destination rule decides for all endpoints.
	rule, byRule bool
	// namespaces holds the answers for namespaces in which no policy tells workloads apart.
	namespaces map[string]model.MTLSMode
}

func newMTLS(c *view.Context, q *Request) mtls {
	t := traffic.TLSFor(q.Rule, q.Name.Port, q.Name.Subset)
	return mtls{c: c, rule: t.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL, byRule: t != nil}
}

func (m *mtls) enabled(e *model.Endpoint) bool {
	if m.byRule {
		return m.rule
	}
	return e.TLSMode == modeIstio && m.mode(e) != model.MTLSDisable
}

// mode returns what e's workload accepts. Policies are gone through once a namespace unless they tell workloads apart.
func (m *mtls) mode(e *model.Endpoint) model.MTLSMode {
	if mode, ok := m.namespaces[e.Namespace]; ok {
		if mode == model.MTLSUnset {
			return m.c.EndpointMTLS(e)
		}
		return mode
	}
	mode := m.c.NamespaceMTLS(e.Namespace)
	for _, p := range m.c.PeerAuthentications(e.Namespace) {
		if len(p.Selector()) > 0 {
			mode = model.MTLSUnset
		}
	}
	if m.namespaces == nil {
		m.namespaces = map[string]model.MTLSMode{}
	}
	m.namespaces[e.Namespace] = mode
	return m.mode(e)
}
