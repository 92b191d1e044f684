package listener

import (
	"cmp"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// inboundPort is a port at which the workload takes connections. Target 0 is every port that no other entry names.
type inboundPort struct {
	target uint32
	binds  []string
	bound  bool
	// passthrough ports belong to no service.
	passthrough bool
	host        string
	port        uint32 // the service's
	protocol    model.Protocol
	cluster     string
	// stat names connections in statistics.
	stat     string
	dynamic  bool
	metadata *corev3.Metadata
	// tls is a Sidecar's own server TLS.
	tls *networking.ServerTLSSettings
}

// inboundPorts returns the ports that the proxy's services or its Sidecar name, by target port.
func inboundPorts(c *view.Context) []inboundPort {
	sc := c.Sidecar()
	none := c.Interception() == view.None
	var out []inboundPort
	ingress := sc != nil && len(sc.Spec.GetIngress()) > 0
	if ingress {
		for _, l := range sc.Spec.GetIngress() {
			out = append(out, ingressPort(c, sc, l))
		}
	}
	if !none && (!ingress || c.Settings().SidecarServiceInboundMerge) {
		out = append(out, servicePorts(c)...)
	}
	return usablePorts(c, out)
}

// servicePorts returns the ports that services send traffic to. Of several for one port the oldest service's counts.
func servicePorts(c *view.Context) []inboundPort {
	binds := wildcards(c.Family())
	if !c.Settings().DualStack {
		binds = binds[:1]
	}
	pattern := c.Mesh().Config.GetInboundClusterStatName()
	var out []inboundPort
	for _, t := range c.Targets() {
		p := inboundPort{
			target: t.TargetPort, binds: binds, host: t.Service.Host, port: t.Port.Number, protocol: t.Port.Protocol,
			cluster: traffic.Name{Direction: traffic.Inbound, Port: t.TargetPort}.String(),
			dynamic: t.Service.Resolution == model.DynamicDNS,
		}
		p.stat = p.cluster
		if pattern != "" {
			p.stat = statName(pattern, t.Service, statPort{t.Port.Number, t.Port.Name}, "")
		}
		out = append(out, p)
	}
	return out
}

// ingressPort returns the port of a Sidecar's ingress listener.
func ingressPort(c *view.Context, sc *model.Sidecar, l *networking.IstioIngressListener) inboundPort {
	n := l.GetPort().GetNumber()
	p := inboundPort{
		target: n, port: n, host: sc.Name + "." + sc.Namespace,
		protocol: model.ParseProtocol(l.GetPort().GetProtocol()),
		cluster:  traffic.Name{Direction: traffic.Inbound, Port: n}.String(),
		metadata: configMetadata("sidecar", sc.Namespace, sc.Name),
	}
	p.stat = p.cluster
	switch l.GetCaptureMode() {
	case networking.CaptureMode_NONE:
		p.bound = true
	case networking.CaptureMode_DEFAULT:
		p.bound = c.Interception() == view.None
	}
	if p.binds = []string{l.GetBind()}; l.GetBind() == "" {
		p.binds = unicast(c)
	}
	if c.Settings().Raw["ENABLE_TLS_ON_SIDECAR_INGRESS"] == "true" {
		p.tls = l.GetTls()
	}
	return p
}

// unicast returns the proxy's first address that others can reach.
func unicast(c *view.Context) []string {
	for _, text := range c.IPs() {
		if a, err := netip.ParseAddr(text); err == nil && a.IsGlobalUnicast() {
			return []string{text}
		}
	}
	return wildcards(c.Family())[:1]
}

// usablePorts drops ports that the proxy has for itself or may not open, and all but the first of a number.
func usablePorts(c *view.Context, list []inboundPort) []inboundPort {
	var out []inboundPort
	u := &unitMaker{c: c}
	u.reserve()
	for _, p := range list {
		at := place{binds: p.binds, bound: p.bound}
		if u.unusable(at, &model.Port{Number: p.target, Protocol: p.protocol}) ||
			slices.ContainsFunc(out, func(q inboundPort) bool { return q.target == p.target }) {
			continue
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b inboundPort) int { return cmp.Compare(a.target, b.target) })
	return out
}
