package listener

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// connectTimeout is how long a chain's transport socket may take to negotiate.
const connectTimeout = 15 * time.Second

// passthroughChain takes what no other chain of an outbound listener takes.
const passthroughChain = "PassthroughFilterChain"

const (
	transportTLS = "tls"
	transportRaw = "raw_buffer"
)

// plainHTTP is what the HTTP inspector says of HTTP without TLS. With http10, version 1.0 counts.
func plainHTTP(http10 bool) []string {
	if http10 {
		return []string{"http/1.0", "http/1.1", "h2c"}
	}
	return []string{"http/1.1", "h2c"}
}

// chain is an outbound filter chain in the making.
type chain struct {
	name      string // unique in the listener, for stock Envoys
	cidrs     []string
	sni       []string
	alpn      []string
	transport string
	filters   []*listenerv3.Filter
	metadata  *corev3.Metadata
	forwarded bool // the server name says where to, whatever it is
}

// normalize sorts and masks what the chain matches. Matching everything is matching nothing in particular. It reports
// false if there is something in particular to match, but nothing that Envoy takes: that is not everything.
func (c *chain) normalize() bool {
	if slices.Contains(c.sni, "*") {
		c.sni = nil
	}
	names := make([]string, 0, len(c.sni))
	for _, n := range c.sni {
		if serverName(n) {
			names = append(names, strings.ToLower(n)) // as Envoy compares them
		}
	}
	if len(names) == 0 && len(c.sni) > 0 {
		return false
	}
	c.sni = sortedSet(names)
	var cidrs []string
	any := len(c.cidrs) == 0
	for _, text := range c.cidrs {
		p, ok := parseRange(text)
		any = any || ok
		if ok && (p.Bits() != 0 || !p.Addr().IsUnspecified()) {
			cidrs = append(cidrs, p.Masked().String())
		}
	}
	c.cidrs = sortedSet(cidrs)
	return any
}

// serverName tells whether Envoy can match a server name: a wildcard stands for whole labels at the beginning.
func serverName(n string) bool {
	return n != "" && n[0] != '.' && !strings.Contains(strings.TrimPrefix(n, "*."), "*")
}

func sortedSet(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func parseRange(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p, true
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

func (c *chain) all() bool {
	return len(c.cidrs) == 0 && len(c.sni) == 0 && len(c.alpn) == 0 && c.transport == ""
}

func (c *chain) proto(stock bool) *listenerv3.FilterChain {
	out := &listenerv3.FilterChain{
		Filters: c.filters, Metadata: c.metadata, TransportSocketConnectTimeout: durationpb.New(connectTimeout),
	}
	if stock {
		out.Name = c.name
	}
	if !c.all() {
		m := &listenerv3.FilterChainMatch{
			ServerNames: c.sni, ApplicationProtocols: c.alpn, TransportProtocol: c.transport,
		}
		for _, text := range c.cidrs {
			if p, ok := parseRange(text); ok {
				m.PrefixRanges = append(m.PrefixRanges, &corev3.CidrRange{
					AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits())),
				})
			}
		}
		out.FilterChainMatch = m
	}
	return out
}

// chainSet collects the chains of a listener; of several that match the same the first stays, and of what several
// match in part the first has that part: Envoy takes no listener in which two chains match the same.
type chainSet struct {
	list  []*chain
	taken map[string]bool
}

func (s *chainSet) add(c *chain) {
	if !c.normalize() || !s.claim(c) {
		return
	}
	s.list = append(s.list, c)
}

// claim takes from c what earlier chains match, and reports false if nothing is left.
func (s *chainSet) claim(c *chain) bool {
	if !s.free(c, c.cidrs, c.sni) {
		switch {
		case len(c.sni) > 0:
			c.sni = slices.DeleteFunc(c.sni, func(n string) bool { return !s.free(c, c.cidrs, []string{n}) })
			if len(c.sni) == 0 {
				return false
			}
		case len(c.cidrs) > 0:
			c.cidrs = slices.DeleteFunc(c.cidrs, func(r string) bool { return !s.free(c, []string{r}, nil) })
			if len(c.cidrs) == 0 {
				return false
			}
		default:
			return false
		}
	}
	if s.taken == nil {
		s.taken = map[string]bool{}
	}
	c.matches(c.cidrs, c.sni, func(key string) { s.taken[key] = true })
	return true
}

// free tells whether no chain matches any of the ranges and names as c would.
func (s *chainSet) free(c *chain, cidrs, sni []string) bool {
	ok := true
	c.matches(cidrs, sni, func(key string) { ok = ok && !s.taken[key] })
	return ok
}

// matches yields the single matches that the ranges and names make up with what else c matches.
func (c *chain) matches(cidrs, sni []string, yield func(key string)) {
	for _, r := range orNone(cidrs) {
		for _, n := range orNone(sni) {
			for _, a := range orNone(c.alpn) {
				yield(c.transport + "|" + a + "|" + n + "|" + r)
			}
		}
	}
}

func orNone(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// matchAll returns the index of the chain that takes everything, or -1.
func (s *chainSet) matchAll() int { return slices.IndexFunc(s.list, (*chain).all) }

// configMetadata names the object that a chain comes from.
func configMetadata(kind, namespace, name string) *corev3.Metadata {
	path := "/apis/networking.istio.io/v1/namespaces/" + namespace + "/" + kind + "/" + name
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"istio": {Fields: map[string]*structpb.Value{"config": structpb.NewStringValue(path)}},
	}}
}
