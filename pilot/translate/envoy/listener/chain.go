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
}

// normalize sorts and masks what the chain matches. Matching everything is matching nothing in particular.
func (c *chain) normalize() {
	if slices.Contains(c.sni, "*") {
		c.sni = nil
	}
	c.sni = sortedSet(c.sni)
	var cidrs []string
	for _, text := range c.cidrs {
		p, ok := parseRange(text)
		if ok && (p.Bits() != 0 || !p.Addr().IsUnspecified()) {
			cidrs = append(cidrs, p.Masked().String())
		}
	}
	c.cidrs = sortedSet(cidrs)
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

// key tells chains apart that Envoy takes for the same.
func (c *chain) key() string {
	return strings.Join([]string{
		c.transport, strings.Join(c.alpn, ","), strings.Join(c.sni, ","), strings.Join(c.cidrs, ","),
	}, "|")
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

// chainSet collects the chains of a listener; of several that match the same the first stays.
type chainSet struct {
	list []*chain
	keys map[string]bool
}

func (s *chainSet) add(c *chain) {
	c.normalize()
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	if k := c.key(); !s.keys[k] {
		s.keys[k] = true
		s.list = append(s.list, c)
	}
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
