package offline

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/simulate"
)

// inbound walks what the caller's proxy has sent through the sidecars of the endpoints that may get it.
func (p *Plane) inbound(s *Simulation, q simulate.Request, caller *corev1.Pod, stock bool) error {
	o := &s.Outbound.Outcome
	held := map[string]*simulate.Resources{}
	for _, d := range slices.Concat(o.Destinations, o.Mirrors) {
		for _, e := range d.Endpoints {
			to, err := netip.ParseAddrPort(e.Address)
			if err != nil || e.Share <= 0 {
				continue
			}
			pod := p.podAt(to.Addr().String())
			if pod == nil || slices.ContainsFunc(s.Inbound, func(l Leg) bool { return l.Endpoint == e.Address }) {
				continue
			}
			if !HasSidecar(pod) {
				s.note(fmt.Sprintf("the manifest of pod %s/%s has no sidecar; its application gets the request", pod.Namespace, pod.Name))
				continue
			}
			if len(s.Inbound) == maxInbound {
				s.note(fmt.Sprintf("more than %d endpoints; the sidecars of the others are not walked", maxInbound))
				return nil
			}
			name := pod.Namespace + "/" + pod.Name
			if held[name] == nil {
				if held[name], err = p.holdings(pod, stock); err != nil {
					return fmt.Errorf("the sidecar of %s: %w", name, err)
				}
			}
			arriving := p.arriving(q, o.Request, d, e, caller)
			arriving.Destination = to
			s.Inbound = append(s.Inbound, Leg{Pod: name, Endpoint: e.Address, Trace: simulate.Walk(held[name], arriving)})
		}
	}
	return nil
}

// note says something once.
func (s *Simulation) note(text string) {
	if !slices.Contains(s.Notes, text) {
		s.Notes = append(s.Notes, text)
	}
}

// arriving returns the request as it comes to an endpoint: sent is what the application's proxy got, left what left it.
func (p *Plane) arriving(sent, left simulate.Request, d simulate.Destination, e simulate.Endpoint, caller *corev1.Pod) simulate.Request {
	q := left
	q.Inbound, q.Source = true, sent.Source
	if d.Protocol != simulate.TCP {
		q.Protocol = d.Protocol
		q.TLS, q.ServerName, q.ALPN = false, "", nil // the caller's proxy has read the request
	}
	if e.Transport.Mode == simulate.Plaintext {
		return q
	}
	if q.TLS {
		q.Protocol = simulate.TCP // the application's own TLS within
	}
	q.TLS, q.ServerName, q.ALPN = true, e.Transport.ServerName, e.Transport.ALPN
	if e.Transport.Mode == simulate.MutualTLS {
		q.Peer = p.identity(caller)
	}
	return q
}
