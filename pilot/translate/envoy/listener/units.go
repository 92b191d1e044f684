package listener

import (
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// privileged ports need a right that a proxy without privileges lacks.
const privileged = 1024

// unitMaker turns a scope into units.
type unitMaker struct {
	c         *view.Context
	scope     *view.Scope
	family    view.Family
	dualStack bool
	none      bool // nothing is redirected to the proxy
	fallback  string
	reserved  []uint32

	entries map[bindKey]*entry
	order   []*entry
	spare   []entry          // of a chunk
	found   []serviceAddress // of the service at hand
}

// entryChunk is how many entries are allocated at once.
const entryChunk = 16

type bindKey struct {
	bind string
	port uint32
}

func newUnitMaker(c *view.Context, sc *view.Scope) *unitMaker {
	u := &unitMaker{
		c: c, scope: sc, family: c.Family(), dualStack: c.Settings().DualStack,
		none: c.Interception() == view.None, fallback: fallbackCluster(sc), entries: map[bindKey]*entry{},
	}
	u.reserve()
	return u
}

// reserve notes the ports that the proxy has for itself.
func (u *unitMaker) reserve() {
	c := u.c
	mesh := c.Mesh().Config
	u.reserved = []uint32{uint32(mesh.GetProxyListenPort()), uint32(mesh.GetProxyInboundListenPort())}
	for _, key := range [...]string{"ENVOY_STATUS_PORT", "ENVOY_PROMETHEUS_PORT", "ENVOY_METRICS_TLS_PORT"} {
		if n, err := strconv.ParseUint(c.Meta(key), 10, 16); err == nil && n != 0 {
			u.reserved = append(u.reserved, uint32(n))
		}
	}
}

// fallbackCluster is where connections go that nobody claims.
func fallbackCluster(sc *view.Scope) string {
	p := sc.OutboundPolicy
	if p.GetMode() == networking.OutboundTrafficPolicy_REGISTRY_ONLY {
		return traffic.BlackHole
	}
	if e := p.GetEgressProxy(); e != nil {
		return traffic.Name{
			Direction: traffic.Outbound, Port: e.GetPort().GetNumber(), Subset: e.GetSubset(), Host: e.GetHost(),
		}.String()
	}
	return traffic.Passthrough
}

// resolvesAnyName tells whether a scope lets through names that no service has and has them resolved. A Sidecar's modes
// are the mesh's, which has one more.
func resolvesAnyName(sc *view.Scope) bool {
	return meshconfig.MeshConfig_OutboundTrafficPolicy_Mode(sc.OutboundPolicy.GetMode()) == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS
}

func outboundUnits(c *view.Context, sc *view.Scope) []any {
	u := newUnitMaker(c, sc)
	n := len(u.scope.Services)
	u.entries, u.order, u.spare = make(map[bindKey]*entry, n), make([]*entry, 0, n), make([]entry, n)
	for _, l := range u.scope.Listeners {
		u.listener(l)
	}
	out := u.finish()
	if p := httpProxyPort(c); p != 0 {
		out = append(out, httpProxyUnit{bind: strings.Join(loopbacks(u.family), ","), port: p})
	}
	if !u.none {
		binds := wildcards(u.family)
		if !u.dualStack {
			binds = binds[:1]
		}
		out = append(out, virtualUnit{bind: strings.Join(binds, ","), fallback: u.fallback, anyName: resolvesAnyName(sc)})
	}
	return out
}

func headlessUnits(c *view.Context, sc *view.Scope) []any {
	u := newUnitMaker(c, sc)
	for _, l := range u.scope.Listeners {
		if l.Spec.GetPort() != nil || u.bindOf(l.Spec) != nil {
			continue
		}
		for _, s := range l.Services {
			for _, p := range s.Ports {
				if headless(s.Service, p) {
					u.endpoints(l, s, p)
				}
			}
		}
	}
	return u.finish()
}

func (u *unitMaker) finish() []any {
	out := make([]any, 0, len(u.order)+2)
	for _, e := range u.order {
		out = append(out, e.unit(u.fallback))
	}
	return out
}

// binds tells whether the listeners of an egress listener are really opened.
func (u *unitMaker) binds(l *networking.IstioEgressListener) bool {
	return u.none || l.GetCaptureMode() == networking.CaptureMode_NONE || strings.HasPrefix(l.GetBind(), translate.UnixPrefix)
}

// bindOf returns the addresses that an egress listener prescribes, nil to go by the service.
func (u *unitMaker) bindOf(l *networking.IstioEgressListener) []string {
	switch {
	case l.GetBind() != "":
		return []string{l.GetBind()}
	case u.binds(l):
		return loopbacks(u.family)
	}
	return nil
}

// listener adds what one egress listener asks for. One without a port leaves alone what earlier ones have made.
func (u *unitMaker) listener(l *view.EgressListener) {
	place := place{binds: u.bindOf(l.Spec), bound: u.binds(l.Spec)}
	if p := l.Spec.GetPort(); p != nil {
		port := &model.Port{Number: p.GetNumber(), Name: p.GetName(), Protocol: model.ParseProtocol(p.GetProtocol())}
		if u.unusable(place, port) {
			return
		}
		for _, s := range l.Services {
			u.add(l, s, port, place)
		}
		return
	}
	for _, e := range u.order {
		e.locked = true
	}
	for _, s := range l.Services {
		for _, p := range s.Ports {
			if u.unusable(place, p) || place.binds == nil && headless(s.Service, p) && !u.plainWildcard(s.Service) {
				continue
			}
			u.add(l, s, p, place)
		}
	}
}

// place is where an egress listener's listeners are.
type place struct {
	binds []string
	bound bool
}

// unusable tells whether the proxy cannot listen there: it lacks the right, or has the port for itself.
func (u *unitMaker) unusable(at place, p *model.Port) bool {
	if at.bound && p.Number != 0 && p.Number < privileged && u.c.Meta("UNPRIVILEGED_POD") == "true" {
		return true
	}
	if len(at.binds) > 0 {
		return isWildcard(at.binds[0]) && slices.Contains(u.reserved, p.Number)
	}
	return p.Protocol.IsHTTP() && slices.Contains(u.reserved, p.Number)
}

// headless tells whether callers of a port connect to the endpoints themselves, so that each needs a listener. HTTP
// goes by host names instead.
func headless(s *model.Service, p *model.Port) bool {
	return s.Headless() && (s.Address == "" || isWildcard(s.Address)) && len(s.ClusterVIPs) == 0 &&
		(p.Protocol.IsTCP() || p.Protocol.IsAuto())
}

// plainWildcard tells whether a headless service can have no endpoints at all: it is called at any address then.
func (u *unitMaker) plainWildcard(s *model.Service) bool {
	return s.Registry != model.Kubernetes && s.Selector == nil && len(u.c.Endpoints(s.ServiceKey).All) == 0
}
