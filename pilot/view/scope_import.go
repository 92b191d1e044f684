package view

import (
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// hostSet is a set of host patterns.
type hostSet struct {
	all   bool
	exact map[string]struct{}
	wild  []string
}

func (h *hostSet) add(host string) {
	switch {
	case host == "*":
		h.all = true
	case model.IsWildcard(host):
		h.wild = append(h.wild, host)
	default:
		if h.exact == nil {
			h.exact = map[string]struct{}{}
		}
		h.exact[host] = struct{}{}
	}
}

// covers tells whether every name that host stands for is in the set.
func (h *hostSet) covers(host string) bool {
	if h == nil {
		return false
	}
	if _, ok := h.exact[host]; h.all || ok {
		return true
	}
	for _, w := range h.wild {
		if model.HostSubsetOf(host, w) {
			return true
		}
	}
	return false
}

// meets tells whether some name that host stands for is in the set.
func (h *hostSet) meets(host string) bool {
	if h == nil {
		return false
	}
	if h.covers(host) {
		return true
	}
	if !model.IsWildcard(host) {
		return false
	}
	for w := range h.exact {
		if model.HostSubsetOf(w, host) {
			return true
		}
	}
	for _, w := range h.wild {
		if model.HostSubsetOf(w, host) {
			return true
		}
	}
	return false
}

// anyNamespace stands for all namespaces in an egress host.
const anyNamespace = "*"

// imports is the hosts of an egress listener, by the namespace they name.
type imports struct {
	include, exclude map[string]*hostSet
}

// parseImports reads hosts of the form "namespace/host" as written in namespace. A namespace that begins with "~"
// excludes; alone it means all namespaces. Entries of another form are passed over.
func parseImports(hosts []string, namespace string) *imports {
	im := &imports{include: map[string]*hostSet{}, exclude: map[string]*hostSet{}}
	for _, h := range hosts {
		ns, host, ok := strings.Cut(h, "/")
		if !ok || host == "" || strings.Contains(host, "/") {
			continue
		}
		sets := im.include
		if rest, excluded := strings.CutPrefix(ns, "~"); excluded {
			sets, ns = im.exclude, rest
			if ns == "" {
				ns = anyNamespace
			}
		}
		if ns == "." {
			ns = namespace
		}
		if sets[ns] == nil {
			sets[ns] = &hostSet{}
		}
		sets[ns].add(host)
	}
	return im
}

func (im *imports) excludes(namespace, host string) bool {
	return len(im.exclude) > 0 && (im.exclude[namespace].covers(host) || im.exclude[anyNamespace].covers(host))
}

// hasService tells whether s is imported: a wildcard service only by a wildcard at least as wide.
func (im *imports) hasService(s *model.Service) bool {
	if im.excludes(s.Namespace, s.Host) {
		return false
	}
	return im.include[s.Namespace].covers(s.Host) || im.include[anyNamespace].covers(s.Host)
}

// hasVirtualService tells whether one of v's hosts is imported. Here wildcards count both ways, but for routes of the
// Gateway API.
func (im *imports) hasVirtualService(v *model.VirtualService) bool {
	own, all := im.include[v.Namespace], im.include[anyNamespace]
	if own == nil && all == nil {
		return false
	}
	for _, h := range v.Hosts {
		switch {
		case im.excludes(v.Namespace, h):
		case v.FromGatewayAPI && (own.covers(h) || all.covers(h)), !v.FromGatewayAPI && (own.meets(h) || all.meets(h)):
			return true
		}
	}
	return false
}
