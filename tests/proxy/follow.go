package proxy

import (
	"maps"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// clusters notes which clusters came, changed or went: each that is new warms up anew, and in the state of the world
// Envoy asks for the endpoints of a changed one again.
func (p *Proxy) clusters(before map[string]Resource) error {
	held := p.types[translate.ClusterType].held
	for n, x := range held {
		was, had := before[n]
		if had && was.Body == x.Body {
			continue
		}
		needs, err := p.opts.Reader.Of(translate.ClusterType, x.Body)
		if err != nil {
			return err
		}
		for _, e := range needs.Names {
			delete(p.warm, e)
			if eds := p.types[translate.EndpointType]; eds != nil && had && eds.names[e] {
				eds.again = !p.opts.Delta
			}
		}
	}
	return nil
}

// follow brings the names that the proxy wants up to date with what it holds.
func (p *Proxy) follow() error {
	if p.opts.Routes != nil {
		names, err := p.needed(translate.RouteType)
		if err != nil {
			return err
		}
		p.begin(translate.ClusterType, false)
		p.want(translate.ClusterType, names)
	}
	if cds := p.types[translate.ClusterType]; cds != nil && cds.answered {
		names, err := p.needed(translate.ClusterType)
		if err != nil {
			return err
		}
		p.begin(translate.EndpointType, false)
		p.want(translate.EndpointType, names)
		if p.opts.Routes == nil && len(p.Cold()) == 0 {
			p.begin(translate.ListenerType, true)
		}
	}
	if p.types[translate.ListenerType] != nil {
		names, err := p.needed(translate.ListenerType)
		if err != nil {
			return err
		}
		p.begin(translate.RouteType, false)
		p.want(translate.RouteType, names)
	}
	return p.virtualHosts()
}

// needed returns the names that the held resources of a type lead to.
func (p *Proxy) needed(url string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, x := range p.types[url].held {
		needs, err := p.opts.Reader.Of(url, x.Body)
		if err != nil {
			return nil, err
		}
		for _, n := range needs.Names {
			out[n] = true
		}
	}
	return out, nil
}

// virtualHosts asks for virtual hosts when the first route configuration wants its own apart.
func (p *Proxy) virtualHosts() error {
	if !p.opts.Delta || p.types[translate.RouteType] == nil {
		return nil
	}
	for _, x := range p.types[translate.RouteType].held {
		needs, err := p.opts.Reader.Of(translate.RouteType, x.Body)
		if err != nil {
			return err
		}
		if needs.Apart {
			p.begin(translate.VirtualHostType, true)
		}
	}
	return nil
}

// want makes names what the proxy wants of a type that is asked for by name. As in Envoy, a name that goes and comes
// before the request is out is asked for again.
func (p *Proxy) want(url string, names map[string]bool) {
	s := p.types[url]
	for n := range names {
		if !s.names[n] {
			s.names[n], s.add[n], s.again = true, true, true
			delete(s.remove, n)
		}
	}
	for n := range s.names {
		if names[n] {
			continue
		}
		delete(s.names, n)
		delete(s.add, n)
		delete(s.held, n)
		s.remove[n], s.again = true, true
		p.dropped(url, n)
	}
	if p.opts.Delta {
		s.again = false
	}
}

// dropped forgets what belonged to a name that is no longer wanted.
func (p *Proxy) dropped(url, name string) {
	switch url {
	case translate.EndpointType:
		delete(p.warm, name)
	case translate.RouteType:
		delete(p.told, name)
		if s := p.types[translate.VirtualHostType]; s != nil {
			maps.DeleteFunc(s.held, func(h string, _ Resource) bool { return routeOf(h) == name })
		}
	}
}
