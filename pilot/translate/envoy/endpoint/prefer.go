package endpoint

import (
	"math"
	"slices"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

// prefer gives the groups weights and priorities by how near they are to the proxy (translation-l4 §3.6).
func (b *builder) prefer() {
	switch {
	case len(b.groups) == 0:
	case len(b.locality.Distribute) > 0:
		if b.placed() {
			b.distribute(b.locality.Distribute)
		}
	case !b.locality.Active:
	default:
		if keys := b.locality.FailoverPriority; b.differ(keys) {
			b.byLabels(keys)
		}
		if (len(b.locality.FailoverPriority) == 0 || len(b.locality.Failover) > 0) && b.placed() {
			b.byPlace()
		}
		b.compact()
	}
}

// placed tells whether the groups differ in their place, or at least the only one has one: else the proxy's place makes
// no difference.
func (b *builder) placed() bool {
	return len(b.groups) > 1 || b.groups[0].locality != "" && len(b.locality.Distribute) > 0
}

// differ tells whether the endpoints differ in one of the labels: else they all have the same priority, whatever the
// proxy's labels are.
func (b *builder) differ(keys []string) bool {
	first := b.groups[0].sources
	for _, k := range keys {
		k, _, _ = strings.Cut(k, "=")
		for _, g := range b.groups {
			for _, e := range g.sources {
				if len(first) > 0 && e.Labels[k] != first[0].Labels[k] {
					return true
				}
			}
		}
	}
	return false
}

// distribute gives the groups the weights of the first rule for the proxy's place. Groups that the rule does not name
// keep their place without members.
func (b *builder) distribute(rules []*networking.LocalityLoadBalancerSetting_Distribute) {
	here := b.c.Locality()
	for _, rule := range rules {
		if !localityMatches(here, rule.GetFrom()) {
			continue
		}
		left := slices.Clone(b.groups)
		for _, to := range destinations(rule.GetTo()) {
			left = share(left, to, rule.GetTo()[to])
		}
		for _, g := range left {
			g.members, g.sources = nil, nil
		}
		return
	}
}

// destinations returns the places of a distribution, the most exact first.
func destinations(to map[string]uint32) []string {
	out := make([]string, 0, len(to))
	for k := range to {
		out = append(out, k)
	}
	slices.SortFunc(out, func(x, y string) int {
		if c := exactness(y) - exactness(x); c != 0 {
			return c
		}
		return strings.Compare(x, y)
	})
	return out
}

func exactness(place string) int {
	n := 0
	for _, p := range strings.Split(place, "/") {
		if p != "*" && p != "" {
			n++
		}
	}
	return n
}

// share divides weight among the groups at a place in proportion to their own, and returns the other groups.
func share(groups []*group, place string, weight uint32) []*group {
	var here, other []*group
	var total uint64
	for _, g := range groups {
		if !localityMatches(g.locality, place) {
			other = append(other, g)
			continue
		}
		here = append(here, g)
		total += uint64(max(g.weight, 1))
	}
	for _, g := range here {
		w := math.Ceil(float64(max(g.weight, 1)) * float64(weight) / float64(total))
		if w > 0 {
			g.weight = saturate(uint64(w))
		}
	}
	return other
}

// localityMatches tells whether a place is in pattern, whose parts may be "*" or absent.
func localityMatches(place, pattern string) bool {
	have := strings.SplitN(place, "/", 3)
	for i, want := range strings.SplitN(pattern, "/", 3) {
		if want == "*" || want == "" {
			return true
		}
		if i >= len(have) || have[i] != want {
			return false
		}
	}
	return true
}

// byLabels splits each group by how many of the labels, the most important first, an endpoint has in common with the
// proxy.
func (b *builder) byLabels(keys []string) {
	own := make([]label, len(keys))
	for i, k := range keys {
		own[i] = b.ownLabel(k)
	}
	var out []*group
	for _, g := range b.groups {
		split := map[uint32]*group{}
		for i, e := range g.sources {
			p := mismatch(own, e)
			if split[p] == nil {
				split[p] = &group{locality: g.locality, priority: p}
			}
			split[p].put(e, g.members[i])
		}
		out = append(out, inOrder(split)...)
	}
	b.groups = out
}

func inOrder(split map[uint32]*group) []*group {
	out := make([]*group, 0, len(split))
	for _, g := range split {
		out = append(out, g)
	}
	slices.SortFunc(out, func(x, y *group) int { return int(x.priority) - int(y.priority) })
	return out
}

// label is a key and the value that the proxy has, or is taken to have.
type label struct{ key, value string }

// ownLabel returns the proxy's value of a priority label. Labels that stand for its place are asked for as such, for
// they split the proxies into fewer classes than all its labels would.
func (b *builder) ownLabel(key string) label {
	if k, v, given := strings.Cut(key, "="); given {
		return label{k, v}
	}
	part := func(i int) string {
		if p := strings.SplitN(b.c.Locality(), "/", 3); i < len(p) {
			return p[i]
		}
		return ""
	}
	switch key {
	case traffic.LabelRegion:
		return label{key, part(0)}
	case traffic.LabelZone:
		return label{key, part(1)}
	case traffic.LabelSubzone:
		return label{key, part(2)}
	case traffic.LabelNetwork:
		return label{key, b.c.Network()}
	case "topology.istio.io/cluster":
		return label{key, b.c.ClusterID()}
	case traffic.LabelHostname:
		return label{key, b.c.NodeName()}
	}
	return label{key, b.c.Labels()[key]}
}

// mismatch returns the priority of e: 0 if all labels agree, else the higher the earlier the first that does not. If the
// network comes first, it counts by itself and the comparison goes on behind it.
func mismatch(own []label, e *model.Endpoint) uint32 {
	n, base := len(own), 0
	for i, l := range own {
		if e.Labels[l.key] == l.value {
			continue
		}
		if i == 0 && l.key == traffic.LabelNetwork {
			base = n
			continue
		}
		return saturate(uint64(base + n - i)) //nolint:gosec // i < n
	}
	return saturate(uint64(base))
}

// byPlace adds the distance between the proxy's place and each group's to the priorities so far.
func (b *builder) byPlace() {
	here := b.c.Locality()
	region, _, _ := strings.Cut(here, "/")
	to, directed := "", false
	for _, f := range b.locality.Failover {
		if f.From == region {
			to, directed = f.To, true
			break
		}
	}
	for _, g := range b.groups {
		there, _, _ := strings.Cut(g.locality, "/")
		if b.locality.ZoneAware != nil {
			g.priority = g.priority*3 + regionDistance(region, there, to, directed)
			continue
		}
		p := distance(here, g.locality)
		if p == 3 && directed && there != to {
			p = 4
		}
		g.priority = g.priority*5 + p
	}
}

func distance(a, b string) uint32 {
	x, y := localityMessage(a), localityMessage(b)
	switch {
	case x.GetRegion() != y.GetRegion():
		return 3
	case x.GetZone() != y.GetZone():
		return 2
	case x.GetSubZone() != y.GetSubZone():
		return 1
	}
	return 0
}

func regionDistance(here, there, to string, directed bool) uint32 {
	switch {
	case here == there:
		return 0
	case directed && there == to:
		return 1
	}
	return 2
}

// compact numbers the priorities from 0 without holes.
func (b *builder) compact() {
	var used []uint32
	for _, g := range b.groups {
		used = append(used, g.priority)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	for _, g := range b.groups {
		i, _ := slices.BinarySearch(used, g.priority)
		g.priority = saturate(uint64(i)) //nolint:gosec // an index
	}
}

// keepMutual drops the endpoints that do not speak mutual TLS: a gateway that passes connections on by their SNI knows
// no other.
func (b *builder) keepMutual() {
	for _, g := range b.groups {
		sources, members := g.sources, g.members
		g.sources, g.members, g.weight = nil, nil, 0
		for i, m := range members {
			if speaksMTLS(m) {
				g.put(sources[i], m)
			}
		}
	}
}

func speaksMTLS(m *endpointv3.LbEndpoint) bool {
	return m.GetMetadata().GetFilterMetadata()[metaMatch].GetFields()[keyTLSMode].GetStringValue() == modeIstio
}
