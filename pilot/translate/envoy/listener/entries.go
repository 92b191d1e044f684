package listener

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/forward"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// class is how a listener tells protocols apart.
type class uint8

const (
	classHTTP class = iota
	classTCP
	classAuto // the proxy finds out
)

func classOf(p model.Protocol) class {
	switch {
	case p.IsHTTP():
		return classHTTP
	case p.IsAuto():
		return classAuto
	}
	return classTCP
}

// entry is a listener in the making.
type entry struct {
	binds    []string
	port     uint32
	bound    bool
	class    class
	protocol model.Protocol // of who came first
	locked   bool
	demands  []demand
	first    [1]demand // room for one, which most have
}

func (u *unitMaker) newEntry(e entry) *entry {
	if len(u.spare) == 0 {
		u.spare = make([]entry, entryChunk)
	}
	out := &u.spare[0]
	u.spare = u.spare[1:]
	*out = e
	out.demands = out.first[:0]
	return out
}

func (e *entry) unit(fallback string) outboundUnit {
	var b strings.Builder
	for i := range e.demands {
		e.demands[i].encode(&b)
	}
	return outboundUnit{
		bind: strings.Join(e.binds, ","), port: e.port, bound: e.bound, fallback: fallback, demands: b.String(),
	}
}

// add puts a service port into the listeners where it is called.
func (u *unitMaker) add(l *view.EgressListener, s *view.ScopedService, p *model.Port, at place) {
	if s.Resolution == model.Alias || p.Protocol == model.UDP {
		return
	}
	d := demand{service: s.ServiceKey, port: p.Number, name: p.Name, protocol: p.Protocol, target: targetOf(s, p), forward: forward.Serves(s.Service, p.Protocol)}
	kind := classOf(p.Protocol)
	d.http, d.tcp = kind != classTCP, kind != classHTTP
	if d.tcp {
		d.rules = u.rules(l, s, p)
	}
	if kind == classHTTP {
		binds := at.binds
		if binds == nil {
			binds = wildcards(u.family)
		}
		u.join(d, kind, binds, at.bound)
		return
	}
	for _, a := range u.addresses(s.Service) {
		binds := at.binds
		if binds == nil {
			binds, d.cidrs = u.bindsOf(a), nil
			if a.cidr != "" {
				d.cidrs = []string{a.cidr}
			}
		}
		// only where several services share an address is the server name needed to tell them apart
		d.sni = a.cidr != "" || a.unspecified() && isWildcard(binds[0]) ||
			s.Resolution == model.DynamicDNS && model.IsWildcard(s.Host)
		u.join(d, kind, binds, at.bound)
	}
}

// bindsOf returns where a service at address a is listened for.
func (u *unitMaker) bindsOf(a serviceAddress) []string {
	if a.primary != "" {
		return append([]string{a.primary}, a.more...)
	}
	return wildcards(u.family)
}

// targetOf returns the service port behind a listener port: a service with one port is reached through any.
func targetOf(s *view.ScopedService, p *model.Port) uint32 {
	if len(s.Ports) == 1 {
		return s.Ports[0].Number
	}
	return p.Number
}

// rules returns the virtual services whose TCP or TLS routes may apply to a service port.
func (u *unitMaker) rules(l *view.EgressListener, s *view.ScopedService, p *model.Port) []string {
	var out []string
	for _, v := range l.VirtualServices {
		if p.Protocol.IsTLS() && len(v.Spec.GetTls()) == 0 || !p.Protocol.IsTLS() && len(v.Spec.GetTcp()) == 0 {
			continue
		}
		if slices.ContainsFunc(v.Hosts, func(h string) bool { return model.HostMatches(h, s.Host) }) {
			out = append(out, v.Row())
		}
	}
	return out
}

// join settles whether and how d takes part in the listener at binds (translation-l4 §4.5).
func (u *unitMaker) join(d demand, kind class, binds []string, bound bool) {
	key := bindKey{binds[0], d.port}
	has := u.entries[key]
	if d.protocol == model.HTTPProxy && has != nil && !has.locked {
		has.demands, has.class, has.protocol = nil, classHTTP, d.protocol
	}
	if has == nil {
		has = u.newEntry(entry{binds: binds, port: d.port, bound: bound, class: kind, protocol: d.protocol})
		if kind == classHTTP && isWildcard(binds[0]) && !bound {
			has.class = classAuto // its HTTP chain is chosen by what the proxy sees
		}
		u.entries[key] = has
		u.order = append(u.order, has)
		has.demands = append(has.demands, d)
		return
	}
	if has.locked || inspected(has.protocol, d.protocol) {
		return
	}
	switch {
	case len(has.demands) == 0:
	case kind == classHTTP && has.class != classTCP:
		return
	case kind == classAuto && has.class == classHTTP:
		has.demands, has.protocol = nil, d.protocol
	case kind == classAuto && has.class == classAuto:
		d.http = false
	}
	if kind != has.class && d.protocol != model.HTTPProxy {
		has.class = classAuto
	}
	has.demands = append(has.demands, d)
}

// inspected tells whether one of two different protocols is one whose server speaks first, so that waiting for the
// client's first bytes would hang.
func inspected(a, b model.Protocol) bool {
	first := func(p model.Protocol) bool { return p == model.Mongo || p == model.MySQL }
	return a != b && (first(a) || first(b))
}

// endpoints adds a listener for each endpoint of a headless service port, the proxy's own excepted.
func (u *unitMaker) endpoints(l *view.EgressListener, s *view.ScopedService, p *model.Port) {
	at := place{bound: u.binds(l.Spec)}
	if s.Resolution == model.Alias || u.unusable(at, p) {
		return
	}
	own := ""
	if u.serves(s.Service) {
		if ips := u.c.IPs(); len(ips) > 0 {
			own = ips[0]
		}
	}
	d := demand{service: s.ServiceKey, port: p.Number, name: p.Name, protocol: p.Protocol, target: targetOf(s, p), tcp: true}
	d.http = p.Protocol.IsAuto()
	d.rules = u.rules(l, s, p)
	seen := map[string]bool{}
	for _, e := range u.c.Endpoints(s.ServiceKey).All {
		if e.PortName != p.Name || !allIPs(e.Addresses) || e.Addresses[0] == own || seen[e.Addresses[0]] {
			continue
		}
		seen[e.Addresses[0]] = true
		u.join(d, classOf(p.Protocol), e.Addresses, at.bound)
	}
}

// serves tells whether the proxy's workload is behind s.
func (u *unitMaker) serves(s *model.Service) bool {
	return slices.ContainsFunc(u.c.Targets(), func(t model.ServiceTarget) bool { return t.Service.ServiceKey == s.ServiceKey })
}

func allIPs(list []string) bool {
	for _, a := range list {
		if _, err := netip.ParseAddr(a); err != nil {
			return false
		}
	}
	return len(list) > 0
}
