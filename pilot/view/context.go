package view

import (
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Context is what a generator is given: rows and properties, both recorded. It is used by one computation and
// must not be kept.
type Context struct {
	*model.Reader
	rec   *cell.Recorder
	graph *cell.Graph
	view  *View
}

// NewContext returns a context for one computation of a cell for v.
func NewContext(pc *model.PushContext, rec *cell.Recorder, graph *cell.Graph, v *View) *Context {
	return &Context{Reader: model.NewReader(pc, rec), rec: rec, graph: graph, view: v}
}

// DefineCell tells g how the cells of kind k are computed for a view from the PushContext that pc returns. Their argument
// is of type A; of cells without one it is the zero value.
func DefineCell[A any](g *cell.Graph, pc func() *model.PushContext, k cell.Kind, compute func(c *Context, arg A) any, equal cell.Equal) {
	g.Define(k, func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
		v, _ := env.(*View)
		arg, _ := id.Arg.(A)
		return compute(NewContext(pc(), rec, g, v), arg)
	}, equal)
}

// Cell returns the value of another cell for the same view, and makes this computation depend on it.
func (c *Context) Cell(id cell.ID) any { return c.graph.Get(c.rec, id, c.view).Value() }

// View returns the view itself, for those who keep it; what depends on it must be asked of the context.
func (c *Context) View() *View { return c.view }

func (c *Context) use(p cell.Prop) { c.rec.Use(p) }

// Type returns the proxy's type.
func (c *Context) Type() Type { c.use(PropType); return c.view.proxy.Type }

// ProxyNamespace returns the proxy's configuration namespace.
func (c *Context) ProxyNamespace() string { c.use(PropNamespace); return c.view.proxy.Namespace }

// ClusterID returns the cluster the proxy runs in.
func (c *Context) ClusterID() string { c.use(PropClusterID); return c.view.proxy.ClusterID }

// Network returns the proxy's network.
func (c *Context) Network() string { c.use(PropNetwork); return c.view.proxy.Network }

// NetworkView returns the networks whose endpoints the proxy wants; nil means all.
func (c *Context) NetworkView() []string { c.use(PropNetworkView); return c.view.proxy.NetworkView }

// NodeName returns the node the proxy runs on. Asking splits the class by node: ask only where it matters.
func (c *Context) NodeName() string { c.use(PropNodeName); return c.view.nodeName }

// ServiceAccount returns the account's name that the proxy states.
func (c *Context) ServiceAccount() string {
	c.use(PropServiceAccount)
	return c.view.proxy.ServiceAccount
}

// Locality returns "region/zone/subzone". Asking splits the class by locality: ask only where it matters.
func (c *Context) Locality() string { c.use(PropLocality); return c.view.locality }

// Family returns the families of the proxy's addresses.
func (c *Context) Family() Family { c.use(PropFamily); return c.view.family }

// IPs returns the proxy's addresses. Asking makes the result the proxy's own.
func (c *Context) IPs() []string { c.use(PropIPs); return c.view.proxy.IPs }

// Labels returns those of the proxy's labels that some selector tests (model.Reader.TestedLabels).
func (c *Context) Labels() map[string]string { c.use(PropLabels); return c.view.labels }

// TelemetryLabels returns the labels that name the workload in metrics: app, version, canonical name and revision.
func (c *Context) TelemetryLabels() map[string]string {
	c.use(PropTelemetryLabels)
	return c.view.telemetry
}

// Canonical returns the workload's canonical name and revision as its labels give them. It splits less than
// TelemetryLabels.
func (c *Context) Canonical() (name, revision string) {
	c.use(PropCanonical)
	return c.view.telemetry[labelCanonicalName], c.view.telemetry[labelCanonicalRevision]
}

// PreservesHeaderCase tells whether HTTP/1 header names keep their case: as the proxy's own configuration says, or the
// mesh's for a proxy that states none.
func (c *Context) PreservesHeaderCase() bool {
	c.use(PropHeaderCase)
	if own := c.view.props[PropHeaderCase]; own != "" {
		return own == "true"
	}
	return c.Mesh().Config.GetDefaultConfig().GetProxyHeaders().GetPreserveHttp1HeaderCase().GetValue()
}

// Sidecar returns the Sidecar object that applies to the proxy, or nil.
func (c *Context) Sidecar() *model.Sidecar { c.use(PropSidecar); return c.view.sidecar }

// Targets returns the service ports that the proxy's workload serves, the oldest service first.
func (c *Context) Targets() []model.ServiceTarget { c.use(PropTargets); return c.view.targets }

// Profile returns which extensions the proxy links.
func (c *Context) Profile() Profile { c.use(PropProfile); return c.view.proxy.Profile }

// Stock tells whether the proxy is a stock Envoy.
func (c *Context) Stock() bool { return c.Profile() == StockProfile }

// Delta tells whether the proxy's stream is of the delta variant of xDS.
func (c *Context) Delta() bool { c.use(PropDelta); return c.view.proxy.Delta }

// Verified tells whether the proxy has proved who it is. Ask it before anything secret.
func (c *Context) Verified() bool { c.use(PropVerified); return c.view.proxy.Verified }

// HasCertificate tells whether the proxy can take part in mutual TLS: always in the Istio profile, whose agent sees to it;
// the workload of a stock Envoy or of a gRPC library says so by the label security.istio.io/tlsMode, since one without an
// agent would refuse every resource that names the agent's cluster or its certificates.
func (c *Context) HasCertificate() bool { c.use(PropCertificate); return c.view.certified }

// Version returns the proxy's Istio version.
func (c *Context) Version() [3]int { c.use(PropVersion); return c.view.proxy.Version }

// DNSDomain returns the proxy's DNS domain, "<namespace>.svc.<domain>".
func (c *Context) DNSDomain() string { c.use(PropDNSDomain); return c.view.proxy.DNSDomain }

// GRPC is the generator that gRPC clients and servers without a proxy ask for.
const GRPC = "grpc"

// Generator returns the metadata GENERATOR.
func (c *Context) Generator() string { c.use(PropGenerator); return c.view.proxy.Generator }

// Interception returns how traffic reaches the sidecar.
func (c *Context) Interception() Interception {
	c.use(PropInterception)
	return Interception(c.view.props[PropInterception])
}

// DNSCapture tells whether the proxy answers its workload's DNS.
func (c *Context) DNSCapture() bool {
	c.use(PropDNSCapture)
	return c.view.props[PropDNSCapture] == "true"
}

// Meta returns a metadata value as a string ("" if absent; numbers and booleans in JSON form). Keys that name the
// single proxy (NAME, WORKLOAD_NAME, ...) make the result the proxy's own.
func (c *Context) Meta(key string) string {
	c.use(metaProp(key))
	return metaString(c.view.proxy.Metadata, key)
}
