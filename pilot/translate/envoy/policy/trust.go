package policy

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// trust is the names of the local trust domain, its own first.
type trust struct{ names []string }

// legacyDomain is the trust domain that policies may name whatever the mesh's is called.
const legacyDomain = "cluster.local"

func newTrust(mesh *meshconfig.MeshConfig) trust {
	var t trust
	for _, n := range append([]string{mesh.GetTrustDomain()}, mesh.GetTrustDomainAliases()...) {
		if n != "" && !slices.Contains(t.names, n) {
			t.names = append(t.names, n)
		}
	}
	return t
}

// local tells whether a written trust domain, wildcard allowed at either end, means the local one.
func (t trust) local(domain string) bool {
	if domain == legacyDomain {
		return true
	}
	return slices.ContainsFunc(t.names, func(n string) bool { return wildcardMatches(domain, n) })
}

func wildcardMatches(pattern, v string) bool {
	switch {
	case pattern == "*":
		return true
	case strings.HasPrefix(pattern, "*"):
		return strings.HasSuffix(v, pattern[1:])
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(v, pattern[:len(pattern)-1])
	}
	return pattern == v
}

// expand returns principals with those of the local trust domain in all of its names.
func (t trust) expand(principals []string) []string {
	const parts = 5 // domain/ns/x/sa/y
	var out []string
	add := func(p string) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, p := range principals {
		domain, rest, ok := strings.Cut(p, "/")
		if !ok || domain == "*" || strings.Count(p, "/") != parts-1 || !t.local(domain) {
			add(p)
			continue
		}
		for _, n := range t.names {
			if strings.Contains(domain, "*") && wildcardMatches(domain, n) {
				add(p) // the pattern covers this name already
				continue
			}
			add(n + "/" + rest)
		}
	}
	return out
}

// expandDomains is expand for bare trust domains.
func (t trust) expandDomains(domains []string) []string {
	var out []string
	for _, d := range domains {
		names := []string{d}
		if !strings.Contains(d, "*") && t.local(d) {
			names = t.names
		}
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}
