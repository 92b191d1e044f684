package model

import (
	"net/netip"
	"strings"
)

// IsWildcard tells whether host stands for many names ("*", "*.suffix").
func IsWildcard(host string) bool { return strings.HasPrefix(host, "*") }

// HostSubsetOf tells whether every name that host stands for is also one of pattern's: "a.com" and "*.a.com" are
// subsets of "*.com" or "*", and everything is a subset of itself.
func HostSubsetOf(host, pattern string) bool { return hostMatches(pattern, host) }

// HostMatches tells whether a and b have a name in common. It is symmetric: each may be the wildcard.
func HostMatches(a, b string) bool { return hostMatches(a, b) || hostMatches(b, a) }

// MoreSpecific orders hosts by how little they stand for: full names before wildcards, longer wildcards before shorter
// ones, the rest by text.
func MoreSpecific(a, b string) int {
	wa, wb := IsWildcard(a), IsWildcard(b)
	switch {
	case wa != wb && wb:
		return -1
	case wa != wb:
		return 1
	case wa && len(a) != len(b):
		return len(b) - len(a)
	}
	return strings.Compare(a, b)
}

// ResolveShortName returns the full name of a host written in an object of namespace. Names with a dot, "*", addresses
// and the empty name are full already.
func ResolveShortName(host, namespace, domain string) string {
	if host == "" || host == "*" || strings.Contains(host, ".") {
		return host
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err == nil {
			return host
		}
	}
	if namespace != "" {
		host += "." + namespace
	}
	if domain != "" {
		host += ".svc." + domain
	}
	return host
}

// ResolveGateway returns MeshGateway or "namespace/name" for a gateway named in an object of namespace. Dotted names
// are the legacy form "name.namespace[.svc...]".
func ResolveGateway(name, namespace string) string {
	if name == MeshGateway {
		return name
	}
	if ns, base, ok := strings.Cut(name, "/"); ok {
		if ns == "." {
			return namespace + "/" + base
		}
		return name
	}
	base, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return namespace + "/" + name
	}
	ns, _, _ := strings.Cut(rest, ".")
	return ns + "/" + base
}

// ParseExportTo returns who may see an object of namespace whose exportTo is list, or defaults if that is empty. "*"
// beats all, then "~" hides from everybody. Without any default the object is public.
func ParseExportTo(list, defaults []string, namespace string) Visibility {
	if len(list) == 0 {
		list = defaults
	}
	if len(list) == 0 {
		return Visibility{Public: true}
	}
	v := Visibility{Namespaces: make(map[string]struct{}, len(list))}
	hidden := false
	for _, e := range list {
		switch e = strings.TrimSpace(e); e {
		case "*":
			return Visibility{Public: true}
		case "~":
			hidden = true
		case ".":
			v.Namespaces[namespace] = struct{}{}
		case "":
		default:
			v.Namespaces[e] = struct{}{}
		}
	}
	if hidden {
		return Visibility{Namespaces: map[string]struct{}{}}
	}
	return v
}

// LabelsMatch tells whether labels has every pair of selector. An empty selector matches everything.
func LabelsMatch(selector, labels map[string]string) bool {
	for k, v := range selector {
		if w, ok := labels[k]; !ok || w != v {
			return false
		}
	}
	return true
}
