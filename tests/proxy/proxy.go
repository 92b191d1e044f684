package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Options are what a Proxy is made with.
type Options struct {
	Node *corev3.Node
	// Delta selects the protocol: incremental, else state of the world.
	Delta bool
	// Routes makes it a gRPC client without a proxy, which asks for these route configurations and for the clusters
	// that they lead to, by name. Nil makes it an Envoy.
	Routes []string
	// Patient withholds the ACK of clusters until each has endpoints, as Envoy does, but without Envoy's deadline.
	Patient bool
	// KeepNonces says the last stream's nonces in the first requests of the next one, as some clients do; state of the
	// world only.
	KeepNonces bool
	Reader     *Reader
}

// Proxy is one client. It is not safe for concurrent use.
type Proxy struct {
	opts   Options
	types  map[string]*subscription
	order  []*subscription // as they were begun
	silent bool            // nothing was said on this stream yet
	// warm are the endpoint sets that came since their cluster came or changed; cold ones block an Envoy's start.
	warm map[string]bool
	// told are the route configurations of whose virtual hosts something was said, be it that there are none.
	told map[string]bool
}

// subscription is one type.
type subscription struct {
	url      string
	wildcard bool
	begun    bool // it is to be asked for
	asked    bool // it was, on this stream, and is wanted still
	said     bool // a request was sent on this stream
	names    map[string]bool
	add      map[string]bool // delta: to be said with the next request
	remove   map[string]bool
	again    bool // state of the world: the next request is due without a new name
	nonce    string
	version  string
	ack      bool // a response waits for its ACK
	answered bool // ever
	held     map[string]Resource
}

// New returns a proxy that has not connected yet.
func New(o Options) *Proxy {
	if o.Reader == nil {
		o.Reader = &Reader{}
	}
	p := &Proxy{opts: o, types: map[string]*subscription{}, warm: map[string]bool{}, told: map[string]bool{}}
	if o.Routes != nil {
		p.begin(translate.RouteType, false)
		p.want(translate.RouteType, setOf(o.Routes))
		return p
	}
	p.begin(translate.ClusterType, true)
	p.begin(translate.NameTableType, true)
	return p
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// begin starts to watch a type, if it is not watched yet.
func (p *Proxy) begin(url string, wildcard bool) *subscription {
	if s := p.types[url]; s != nil {
		return s
	}
	s := &subscription{
		url: url, wildcard: wildcard, begun: true,
		names: map[string]bool{}, add: map[string]bool{}, remove: map[string]bool{}, held: map[string]Resource{},
	}
	p.types[url] = s
	p.order = append(p.order, s)
	return s
}

// Connect begins a stream. What the proxy holds from before it keeps and says.
func (p *Proxy) Connect() {
	p.silent = true
	for _, s := range p.order {
		s.asked, s.said, s.ack, s.again = false, false, false, false
		clear(s.add)
		clear(s.remove)
		if p.opts.Delta || !p.opts.KeepNonces {
			s.nonce = ""
		}
	}
	// Whether a cluster still waits for endpoints that it holds from before is not said on a new stream: Envoy takes
	// those after its own deadline.
	for n := range p.Held(translate.EndpointType) {
		p.warm[n] = true
	}
}

// Held returns what the proxy holds of a type by name; it must not be modified.
func (p *Proxy) Held(url string) map[string]Resource {
	if s := p.types[url]; s != nil {
		return s.held
	}
	return nil
}

// Names returns the names that the proxy wants of a type now, sorted.
func (p *Proxy) Names(url string) []string {
	if s := p.types[url]; s != nil {
		return slices.Sorted(maps.Keys(s.names))
	}
	return nil
}

// Cold returns the clusters' endpoint sets that are waited for, sorted.
func (p *Proxy) Cold() []string {
	var out []string
	if s := p.types[translate.EndpointType]; s != nil {
		for n := range s.names {
			if !p.warm[n] {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Waiting returns the route configurations that still wait for their virtual hosts, sorted.
func (p *Proxy) Waiting() ([]string, error) {
	var out []string
	for n, r := range p.Held(translate.RouteType) {
		needs, err := p.opts.Reader.Of(translate.RouteType, r.Body)
		if err != nil {
			return nil, err
		}
		if needs.Apart && !p.told[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Pending returns the types for which a request is due, in the order in which they were begun.
func (p *Proxy) Pending() []string {
	var out []string
	for _, s := range p.order {
		if p.due(s) {
			out = append(out, s.url)
		}
	}
	return out
}

func (p *Proxy) due(s *subscription) bool {
	switch {
	case !s.begun:
		return false
	case !s.asked:
		return s.wildcard || len(s.names) > 0 || s.ack
	case s.ack && s.url == translate.ClusterType && p.opts.Patient && len(p.Cold()) > 0:
		return false
	}
	return s.ack || s.again || len(s.add)+len(s.remove) > 0
}

// Request returns the request that is due for a type and counts it as sent.
func (p *Proxy) Request(url string) *xds.Request {
	s := p.types[url]
	s.said = true
	r := &xds.Request{TypeURL: url, Nonce: s.nonce}
	if p.silent {
		r.Node, p.silent = p.opts.Node, false
	}
	if !p.opts.Delta {
		r.Version, r.Names = s.version, slices.Sorted(maps.Keys(s.names))
		s.ack, s.again, s.asked = false, false, s.wildcard || len(s.names) > 0
		clear(s.add)
		clear(s.remove)
		return r
	}
	if !s.ack {
		r.Nonce = ""
	}
	if s.asked {
		r.Subscribe, r.Unsubscribe = slices.Sorted(maps.Keys(s.add)), slices.Sorted(maps.Keys(s.remove))
	} else {
		r.Subscribe = slices.Sorted(maps.Keys(s.names))
		if len(s.held) > 0 {
			r.Initial = make(map[string]string, len(s.held))
			for n, x := range s.held {
				r.Initial[n] = x.Version
			}
		}
	}
	s.ack, s.asked = false, true
	clear(s.add)
	clear(s.remove)
	return r
}

// Receive applies a response. An error says what a proxy could not take.
func (p *Proxy) Receive(r *Response) error {
	s := p.types[r.TypeURL]
	if s == nil || !s.said {
		return fmt.Errorf("%s: a response that nobody asked for", r.TypeURL)
	}
	s.nonce, s.version, s.ack, s.answered = r.Nonce, r.Version, true, true
	before := maps.Clone(s.held)
	for n, x := range r.Resources {
		if p.wants(s, n) {
			s.held[n] = x
		}
	}
	for _, n := range r.Removed {
		delete(s.held, n)
	}
	if !p.opts.Delta && (s.wildcard || r.TypeURL == translate.ClusterType) {
		maps.DeleteFunc(s.held, func(n string, _ Resource) bool { _, in := r.Resources[n]; return !in })
	}
	switch r.TypeURL {
	case translate.ClusterType:
		if err := p.clusters(before); err != nil {
			return err
		}
	case translate.EndpointType:
		for n := range r.Resources {
			p.warm[n] = true
		}
	case translate.VirtualHostType:
		for n := range r.Resources {
			p.told[routeOf(n)] = true
		}
		for _, n := range r.Removed {
			p.told[routeOf(n)] = true
		}
	}
	return p.follow()
}

// wants tells whether a resource is of use. One that was sent before the server heard that it is not is let go.
func (p *Proxy) wants(s *subscription, name string) bool {
	if s.url == translate.VirtualHostType {
		return p.types[translate.RouteType].names[routeOf(name)]
	}
	return s.wildcard || s.names[name]
}

// routeOf returns the route configuration that a virtual host belongs to.
func routeOf(host string) string {
	i := strings.LastIndexByte(host, '/')
	return host[:max(i, 0)]
}
