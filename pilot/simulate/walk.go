package simulate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
)

// Walk says what becomes of a request at a proxy that holds the resources.
func Walk(r *Resources, q Request) Trace {
	w := &walker{r: r, q: q.filled()}
	w.walk()
	w.t.Outcome.Request = w.q
	return w.t
}

// walker is one walk. The request changes on its way.
type walker struct {
	r *Resources
	q Request
	t Trace

	seen     seen
	listener *listenerv3.Listener
	// restored says that the connection was redirected, and the proxy knows where it was meant to go.
	restored bool
	// terminated says that the proxy has ended the client's TLS.
	terminated bool
	// asHTTP says that requests are forwarded, not bytes; names that a filter chooses the names of protocols by them.
	asHTTP, names bool
	// metadata is what filters leave for others, by filter.
	metadata map[string]any
}

func (w *walker) step(s Stage, name, text string, because ...string) {
	w.t.Steps = append(w.t.Steps, Step{Stage: s, Name: name, Text: text, Because: because})
}

func (w *walker) end(o Outcome) { w.t.Outcome = o }

func (w *walker) reset(reason string) { w.end(Outcome{Kind: Reset, Reason: reason}) }

func (w *walker) walk() {
	if w.listener = w.accept(); w.listener == nil {
		return
	}
	w.inspect()
	c, why := chainOf(w.listener, w.seen)
	if c == nil {
		w.step(StageChain, "", "none matches "+w.seen.String())
		w.reset("no filter chain of " + w.listener.GetName() + " matches")
		return
	}
	w.step(StageChain, chainName(c), why, w.chainObjects(c)...)
	if w.handshake(c) {
		w.network(c)
	}
}

func chainName(c *listenerv3.FilterChain) string {
	if c.GetName() == "" {
		return "(unnamed)"
	}
	return c.GetName()
}

// accept finds the listener that takes the connection.
func (w *walker) accept() *listenerv3.Listener {
	to := w.q.Destination
	if entry := w.entry(); entry != nil {
		w.restored = true
		if w.q.Inbound || !entry.GetUseOriginalDst().GetValue() { //nolint:staticcheck // the field that proxies are sent
			w.step(StageListener, entry.GetName(), "takes redirected connections, this one to "+to.String(), w.objects(StageListener, entry.GetName())...)
			return entry
		}
		l, how := w.at(to, entry)
		if l == nil {
			w.step(StageListener, entry.GetName(), "no listener at "+to.String()+", so it takes the connection itself", w.objects(StageListener, entry.GetName())...)
			return entry
		}
		w.step(StageListener, l.GetName(), how+", handed over by "+entry.GetName(), w.objects(StageListener, l.GetName())...)
		return l
	}
	l, how := w.at(to, nil)
	if l == nil {
		w.step(StageListener, "", "none at "+to.String())
		w.reset("no listener at " + to.String())
		return nil
	}
	w.step(StageListener, l.GetName(), how, w.objects(StageListener, l.GetName())...)
	w.restored = restores(l)
	return l
}

// entry returns the listener that redirected connections of the request's direction reach first, nil without redirection.
func (w *walker) entry() *listenerv3.Listener {
	for _, l := range w.r.Listeners {
		if w.q.Inbound {
			if restores(l) && l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND {
				return l
			}
		} else if l.GetUseOriginalDst().GetValue() { //nolint:staticcheck // the field that proxies are sent
			return l
		}
	}
	return nil
}

// restores tells whether a listener finds out where redirected connections were meant to go.
func restores(l *listenerv3.Listener) bool {
	return slices.ContainsFunc(l.GetListenerFilters(), func(f *listenerv3.ListenerFilter) bool { return f.GetName() == filterOriginalDst })
}

// at returns the listener at an address: of that very address, else of its port and all addresses. Without redirection
// only those count that open their port.
func (w *walker) at(to netip.AddrPort, entry *listenerv3.Listener) (l *listenerv3.Listener, how string) {
	var wide *listenerv3.Listener
	for _, l := range w.r.Listeners {
		if l == entry || entry == nil && l.GetBindToPort() != nil && !l.GetBindToPort().GetValue() { //nolint:staticcheck // as above
			continue
		}
		for _, a := range addressesOf(l) {
			if a.Port() != to.Port() {
				continue
			}
			if a.Addr() == to.Addr() {
				return l, "listens at " + a.String()
			}
			if a.Addr().IsUnspecified() && (a.Addr().Is4() == to.Addr().Is4() || a.Addr().Is6() && wide == nil) {
				wide = l
			}
		}
	}
	if wide == nil {
		return nil, ""
	}
	return wide, fmt.Sprintf("listens at port %d of all addresses", to.Port())
}

func addressesOf(l *listenerv3.Listener) []netip.AddrPort {
	var out []netip.AddrPort
	add := func(a *corev3.Address) {
		s := a.GetSocketAddress()
		if ip, err := netip.ParseAddr(s.GetAddress()); err == nil {
			out = append(out, netip.AddrPortFrom(ip, uint16(s.GetPortValue()))) //nolint:gosec // a port
		}
	}
	add(l.GetAddress())
	for _, a := range l.GetAdditionalAddresses() {
		add(a.GetAddress())
	}
	return out
}

// seen is what filter chains are matched by.
type seen struct {
	source, destination netip.AddrPort
	transport           string
	serverName          string
	alpn                []string
}

func (s seen) String() string {
	parts := []string{"destination " + s.destination.String(), s.transport}
	if s.serverName != "" {
		parts = append(parts, "SNI "+s.serverName)
	}
	if len(s.alpn) > 0 {
		parts = append(parts, "ALPN "+strings.Join(s.alpn, ","))
	}
	return strings.Join(parts, ", ")
}

// Names of listener filters that decide something.
const (
	filterOriginalDst   = "envoy.filters.listener.original_dst"
	filterTLSInspector  = "envoy.filters.listener.tls_inspector"
	filterHTTPInspector = "envoy.filters.listener.http_inspector"
)

// The transport protocols of filter chain matches.
const (
	transportTLS = "tls"
	transportRaw = "raw_buffer"
)

// inspect says what the listener filters find out.
func (w *walker) inspect() {
	s := seen{source: w.q.Source, destination: w.q.Destination, transport: transportRaw}
	for _, f := range w.listener.GetListenerFilters() {
		if disabled(f.GetFilterDisabled(), s.destination.Port()) {
			w.step(StageInspect, f.GetName(), fmt.Sprintf("not for port %d", s.destination.Port()))
			continue
		}
		switch f.GetName() {
		case filterTLSInspector:
			if !w.q.TLS {
				w.step(StageInspect, f.GetName(), "no TLS")
				continue
			}
			s.transport, s.serverName, s.alpn = transportTLS, strings.ToLower(w.q.ServerName), w.q.ALPN
			w.step(StageInspect, f.GetName(), fmt.Sprintf("TLS, SNI %q, ALPN %v", s.serverName, s.alpn))
		case filterHTTPInspector:
			if s.transport != transportRaw || w.q.TLS || w.q.Protocol == TCP {
				w.step(StageInspect, f.GetName(), "no plaintext HTTP")
				continue
			}
			s.alpn = []string{"http/1.1"}
			if w.q.Protocol == HTTP2 {
				s.alpn = []string{"h2c"}
			}
			w.step(StageInspect, f.GetName(), s.alpn[0])
		}
	}
	w.seen = s
}

// disabled evaluates where a listener filter does not run.
func disabled(p *listenerv3.ListenerFilterChainMatchPredicate, port uint16) bool {
	switch r := p.GetRule().(type) {
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return r.AnyMatch
	case *listenerv3.ListenerFilterChainMatchPredicate_NotMatch:
		return !disabled(r.NotMatch, port)
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		return slices.ContainsFunc(r.OrMatch.GetRules(), func(p *listenerv3.ListenerFilterChainMatchPredicate) bool { return disabled(p, port) })
	case *listenerv3.ListenerFilterChainMatchPredicate_AndMatch:
		return !slices.ContainsFunc(r.AndMatch.GetRules(), func(p *listenerv3.ListenerFilterChainMatchPredicate) bool { return !disabled(p, port) })
	case *listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange:
		return int32(port) >= r.DestinationPortRange.GetStart() && int32(port) < r.DestinationPortRange.GetEnd()
	}
	return false
}
