package offline

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/simulate"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// Call is one request of a pod's application.
type Call struct {
	// From is the pod, as Plane.Pod takes it.
	From string
	// To is a URL: http, https or tcp, with the host of a service or an address.
	To string
	// Address replaces what the host resolves to; the zero value looks it up.
	Address netip.Addr
	Method  string
	Headers map[string]string
	Claims  map[string]any
	// HTTP2 says that the application speaks HTTP/2.
	HTTP2 bool
	// Stock says that proxies are Envoys without Istio's extensions.
	Stock bool
}

// Leg is the walk through one proxy.
type Leg struct {
	// Pod is the proxy's, as "namespace/name".
	Pod string `json:"pod"`
	// Endpoint is, of an inbound leg, the address that the caller's proxy has sent the request to.
	Endpoint string `json:"endpoint,omitempty"`
	simulate.Trace
}

// Simulation is where a call goes.
type Simulation struct {
	// Notes say what was assumed.
	Notes    []string `json:"notes,omitempty"`
	Outbound Leg      `json:"outbound"`
	// Inbound are the walks through the sidecars of the endpoints that the call may reach.
	Inbound []Leg `json:"inbound,omitempty"`
}

// maxInbound bounds how many endpoints' sidecars are walked.
const maxInbound = 16

// Simulate walks a call through the caller's proxy and those of the pods that it may reach.
func (p *Plane) Simulate(c Call) (*Simulation, error) {
	pod, err := p.Pod(c.From)
	if err != nil {
		return nil, err
	}
	out := &Simulation{}
	if isGateway(pod) {
		return nil, fmt.Errorf("pod %s/%s is a gateway: only sidecars are walked", pod.Namespace, pod.Name)
	}
	if !HasSidecar(pod) {
		out.Notes = append(out.Notes, fmt.Sprintf("the manifest of pod %s/%s has no sidecar; walked as if it had one", pod.Namespace, pod.Name))
	}
	q, note, err := p.request(c, pod)
	if err != nil {
		return nil, err
	}
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	resources, err := p.holdings(pod, c.Stock)
	if err != nil {
		return nil, err
	}
	out.Outbound = Leg{Pod: pod.Namespace + "/" + pod.Name, Trace: simulate.Walk(resources, q)}
	return out, p.inbound(out, q, pod, c.Stock)
}

// request returns what the application sends.
func (p *Plane) request(c Call, pod *corev1.Pod) (simulate.Request, string, error) {
	u, err := url.Parse(c.To)
	if err != nil {
		return simulate.Request{}, "", fmt.Errorf("the destination: %w", err)
	}
	q := simulate.Request{Method: c.Method, Host: u.Host, Path: u.RequestURI(), Headers: map[string]string{}, Claims: c.Claims}
	port := uint64(80)
	switch u.Scheme {
	case "http":
	case "https":
		port, q.TLS = 443, true
		q.ALPN = []string{"h2", "http/1.1"}
	case "tcp":
		port, q.Protocol = 0, simulate.TCP
	default:
		return q, "", fmt.Errorf("the destination %q: want http, https or tcp before ://", c.To)
	}
	if c.HTTP2 && q.Protocol != simulate.TCP {
		q.Protocol = simulate.HTTP2
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return q, "", fmt.Errorf("the destination's port: %w", err)
		}
	}
	switch {
	case u.Hostname() == "":
		return q, "", fmt.Errorf("the destination %q has no host", c.To)
	case port == 0:
		return q, "", errors.New("a tcp destination needs a port")
	}
	to, note := c.Address, ""
	if !to.IsValid() {
		if to, note, err = p.resolve(u.Hostname(), pod.Namespace); err != nil {
			return q, "", err
		}
	}
	if _, err := netip.ParseAddr(u.Hostname()); q.TLS && err != nil {
		q.ServerName = u.Hostname()
	}
	for k, v := range c.Headers {
		if strings.EqualFold(k, "host") {
			q.Host = v
			continue
		}
		q.Headers[strings.ToLower(k)] = v
	}
	q.Destination = netip.AddrPortFrom(to, uint16(port))
	q.Source, err = sourceOf(pod)
	return q, note, err
}

func sourceOf(pod *corev1.Pod) (netip.AddrPort, error) {
	ips := addressesOf(pod)
	if len(ips) == 0 {
		return netip.AddrPort{}, fmt.Errorf("pod %s/%s has no address: its status lacks podIP", pod.Namespace, pod.Name)
	}
	a, err := netip.ParseAddr(ips[0])
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the address of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return netip.AddrPortFrom(a, 0), nil
}

// holdings returns what a pod's proxy holds, with the objects behind it.
func (p *Plane) holdings(pod *corev1.Pod, stock bool) (*simulate.Resources, error) {
	node, err := p.NodeOf(pod)
	if err != nil {
		return nil, err
	}
	if stock {
		node = Stock(node)
	}
	got, err := p.Ask(node, p.SubscriptionOf(node, nil))
	if err != nil {
		return nil, err
	}
	return got.Walkable(), nil
}

// Walkable returns resources in the form that a walk takes.
func (r Resources) Walkable() *simulate.Resources {
	out := &simulate.Resources{}
	for _, url := range []string{translate.ListenerType, translate.RouteType, translate.ClusterType, translate.EndpointType, translate.ExtensionType} {
		for _, name := range slices.Sorted(maps.Keys(r[url])) {
			out.Add(name, r[url][name].Message)
		}
	}
	stages := map[simulate.Stage]string{
		simulate.StageListener: translate.ListenerType, simulate.StageRoute: translate.RouteType, simulate.StageCluster: translate.ClusterType,
	}
	out.Objects = func(s simulate.Stage, name string) []string {
		var objects []string
		if made := r[stages[s]][name]; made != nil {
			for _, o := range made.Objects {
				objects = append(objects, o.String())
			}
		}
		return objects
	}
	return out
}
