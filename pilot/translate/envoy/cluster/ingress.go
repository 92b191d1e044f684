package cluster

import (
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// inboundIngress makes the cluster behind an ingress listener of the proxy's Sidecar.
func (j *job) inboundIngress(u ingressUnit) ([]*translate.Message, error) {
	sidecar := j.c.Sidecar()
	if sidecar == nil {
		return nil, nil
	}
	for _, l := range sidecar.Spec.GetIngress() {
		if l.GetPort().GetNumber() == u.Port {
			return j.ingress(sidecar, l), nil
		}
	}
	return nil, nil
}

func (j *job) ingress(sidecar *model.Sidecar, l *networking.IstioIngressListener) []*translate.Message {
	p := l.GetPort()
	in := &inbound{port: p.GetNumber()}
	if !j.primary(in) {
		in.service = &model.Service{
			ServiceKey:   model.ServiceKey{Host: sidecar.Name + "." + sidecar.Namespace, Namespace: sidecar.Namespace},
			Name:         sidecar.Name + "." + sidecar.Namespace,
			Registry:     model.External,
			MeshExternal: true,
		}
		in.protocol = &model.Port{Number: p.GetNumber()}
	}
	own := *in.protocol
	own.Name, own.Protocol = p.GetName(), model.ParseProtocol(p.GetProtocol())
	in.protocol = &own
	in.pools = []*networking.ConnectionPoolSettings{sidecar.Spec.GetInboundConnectionPool(), l.GetConnectionPool()}
	in.address, in.loopback = j.workloadAddress(l.GetDefaultEndpoint())
	return j.inboundCluster(in)
}

// workloadAddress reads a default endpoint (translation-l4 §2.10). Loopback addresses follow the proxy's families, and
// unspecified ones mean the pod's own. Nil means where the connection was going.
func (j *job) workloadAddress(endpoint string) (address *corev3.Address, loopback bool) {
	if path, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}, false
	}
	i := strings.LastIndexByte(endpoint, ':')
	if i < 0 {
		return nil, false
	}
	port, err := strconv.ParseUint(endpoint[i+1:], 10, 16)
	if err != nil {
		return nil, false
	}
	host := strings.Trim(endpoint[:i], "[]")
	switch host {
	case "0.0.0.0":
		return translate.SocketAddress(j.ownIP(false, "127.0.0.1"), uint32(port)), false
	case "::":
		return translate.SocketAddress(j.ownIP(true, "::1"), uint32(port)), false
	case "127.0.0.1", "::1":
		if f := j.c.Family(); f == view.IPv6 {
			host = "::1"
		} else if f == view.IPv4 {
			host = "127.0.0.1"
		}
		return translate.SocketAddress(host, uint32(port)), true
	}
	return nil, false
}

// ownIP returns the proxy's first address of a family.
func (j *job) ownIP(six bool, none string) string {
	for _, ip := range j.c.IPs() {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() == six {
			return ip
		}
	}
	return none
}
