package simulate

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	internalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/internal_upstream/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// destinations looks the clusters up and shares the load out.
func (w *walker) destinations(shares []share) []Destination {
	var total uint32
	for _, s := range shares {
		total += s.weight
	}
	var out []Destination
	for _, s := range shares {
		if s.weight == 0 {
			continue
		}
		d := w.destination(s.name)
		d.Weight = percent(s.weight, total)
		out = append(out, d)
	}
	return out
}

func (w *walker) destination(name string) Destination {
	d := Destination{Cluster: name}
	c := w.r.Clusters[name]
	if c == nil {
		d.Problem = "no such cluster"
		w.step(StageCluster, name, d.Problem)
		return d
	}
	w.step(StageCluster, name, clusterText(c), w.clusterObjects(name, c.GetMetadata())...)
	switch {
	case c.GetType() == clusterv3.Cluster_ORIGINAL_DST && !w.restored:
		d.Problem = "the connection was not redirected, so it has no original destination"
	case c.GetType() == clusterv3.Cluster_ORIGINAL_DST:
		e := Endpoint{Address: w.q.Destination.String(), Weight: 1, Share: 100, Transport: transportOf(c, nil)}
		d.Endpoints = []Endpoint{e}
	case c.GetClusterType().GetName() == forwardProxy:
		d.Endpoints = []Endpoint{{Address: w.q.Host, Weight: 1, Share: 100, Transport: transportOf(c, nil)}}
	default:
		d.Endpoints = members(c, w.assignment(c))
		if !slices.ContainsFunc(d.Endpoints, func(e Endpoint) bool { return e.Share > 0 }) {
			d.Problem = "no healthy endpoints"
		}
	}
	w.speak(&d, c)
	w.step(StageEndpoint, name, endpointText(d.Endpoints))
	return d
}

// forwardProxy is the type of clusters that send each request to the host that it names.
const forwardProxy = "envoy.clusters.dynamic_forward_proxy"

const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// speak sets what the proxy speaks to the endpoints. Where a filter says so, handshakes within the mesh name the protocol.
func (w *walker) speak(d *Destination, c *clusterv3.Cluster) {
	d.Protocol = TCP
	if !w.asHTTP {
		return
	}
	d.Protocol = HTTP1
	o, _ := opened(c.GetTypedExtensionProtocolOptions()[httpOptions]).(*httpv3.HttpProtocolOptions)
	switch {
	case o.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil:
		d.Protocol = HTTP2
	case o.GetUseDownstreamProtocolConfig() != nil:
		d.Protocol = w.q.Protocol
	}
	if !w.names {
		return
	}
	named := []string{"istio-http/1.1", "istio", "http/1.1"}
	if d.Protocol == HTTP2 {
		named = []string{"istio-h2", "istio", "h2"}
	}
	for i := range d.Endpoints {
		if d.Endpoints[i].Transport.Mode == MutualTLS {
			d.Endpoints[i].Transport.ALPN = named
		}
	}
}

// assignment returns a cluster's endpoints, nil if there are none.
func (w *walker) assignment(c *clusterv3.Cluster) *endpointv3.ClusterLoadAssignment {
	if c.GetType() != clusterv3.Cluster_EDS {
		return c.GetLoadAssignment()
	}
	name := c.GetName()
	if n := c.GetEdsClusterConfig().GetServiceName(); n != "" {
		name = n
	}
	return w.r.Endpoints[name]
}

func clusterText(c *clusterv3.Cluster) string {
	kind := c.GetType().String()
	if t := c.GetClusterType(); t != nil {
		kind = t.GetName()
	}
	text := kind + ", " + c.GetLbPolicy().String()
	if s := c.GetMetadata().GetFilterMetadata()["istio"].GetFields()["subset"].GetStringValue(); s != "" {
		text += ", subset " + s
	}
	if c.GetOutlierDetection() != nil {
		text += ", outlier detection"
	}
	return text
}

func endpointText(list []Endpoint) string {
	used := 0
	for _, e := range list {
		if e.Share > 0 {
			used++
		}
	}
	if len(list) == 1 && used == 1 {
		return list[0].Address + ", " + list[0].Transport.Mode
	}
	return fmt.Sprintf("%d, %d of them get requests", len(list), used)
}

// transportOf returns how the proxy speaks to an endpoint: by the first of the cluster's matches that the endpoint's
// metadata agrees with, else as the cluster says.
func transportOf(c *clusterv3.Cluster, e *endpointv3.LbEndpoint) Transport {
	for _, m := range c.GetTransportSocketMatches() {
		if agrees(m.GetMatch(), e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"]) {
			return transport(m.GetTransportSocket())
		}
	}
	return transport(c.GetTransportSocket())
}

func agrees(want, has *structpb.Struct) bool {
	for k, v := range want.GetFields() {
		if has.GetFields()[k].GetStringValue() != v.GetStringValue() || has.GetFields()[k] == nil {
			return false
		}
	}
	return true
}

func transport(s *corev3.TransportSocket) Transport {
	switch m := opened(s.GetTypedConfig()).(type) {
	case *tlsv3.UpstreamTlsContext:
		t := Transport{Mode: SimpleTLS, ServerName: m.GetSni(), ALPN: m.GetCommonTlsContext().GetAlpnProtocols()}
		common := m.GetCommonTlsContext()
		if len(common.GetTlsCertificateSdsSecretConfigs()) > 0 || len(common.GetTlsCertificates()) > 0 {
			t.Mode = MutualTLS
		}
		return t
	case *proxyprotocolv3.ProxyProtocolUpstreamTransport:
		return transport(m.GetTransportSocket())
	case *internalv3.InternalUpstreamTransport:
		return transport(m.GetTransportSocket())
	}
	return Transport{Mode: Plaintext}
}
