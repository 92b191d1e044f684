package route

import (
	"net/netip"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// reach says which of a host's short names a proxy may use.
type reach uint8

const (
	noShort reach = iota // the host is not one of the proxy's cluster domain
	farOff               // another namespace's: "foo.ns", "foo.ns.svc"
	near                 // the proxy's own namespace's: "foo" as well
)

const svcInfix = ".svc."

// reachOf tells how a proxy of dnsDomain ("<namespace>.svc.<suffix>") may shorten host.
func reachOf(host, dnsDomain string) reach {
	h, d := strings.Index(host, svcInfix), strings.Index(dnsDomain, svcInfix)
	if h <= 0 || d < 0 || host[h:] != dnsDomain[d:] {
		return noShort
	}
	name := strings.IndexByte(host, '.')
	if name >= h {
		return noShort
	}
	if host[name+1:h] == dnsDomain[:d] {
		return near
	}
	return farOff
}

// shortNames returns what host is called within its cluster. They are all parts of host, so that none is allocated.
func shortNames(host string, r reach) []string {
	if r == noShort {
		return nil
	}
	h := strings.Index(host, svcInfix)
	svc := h + len(svcInfix) - 1
	if r == near {
		return []string{host[:strings.IndexByte(host, '.')], host[:svc], host[:h]}
	}
	return []string{host[:h], host[:svc]}
}

// sharedSuffixNames returns short names for proxies whose domain is not a Kubernetes one: what of host is not shared
// with it, and of two labels also with the first shared one.
func sharedSuffixNames(host, dnsDomain string) []string {
	h, d := strings.Split(host, "."), strings.Split(dnsDomain, ".")
	i, j := len(h), len(d)
	for i > 0 && j > 0 && h[i-1] == d[j-1] {
		i, j = i-1, j-1
	}
	if i == len(h) || i == 0 {
		return nil
	}
	unique := strings.Join(h[:i], ".")
	if i == 2 {
		return []string{unique, unique + "." + h[i]}
	}
	return []string{unique}
}

// naming is what the proxies that share a plan have in common about names.
type naming struct {
	dnsDomain string
	absolute  bool // "host." is a domain too
}

// alternates returns the other spellings of host, and which of them are guesses that a real host of that name beats.
func (n naming) alternates(host string) (absolute string, guesses []string) {
	if n.absolute && !isAddress(host) {
		absolute = host + "."
	}
	if !strings.Contains(n.dnsDomain, svcInfix) {
		return absolute, sharedSuffixNames(host, n.dnsDomain)
	}
	return absolute, shortNames(host, reachOf(host, n.dnsDomain))
}

// domainList is the domains of one virtual host in the making.
type domainList struct {
	// port is what "domain:port" gets, 0 for listeners that ignore ports.
	port    uint32
	domains []string
	guesses map[string]struct{}
}

func (l *domainList) add(domain string, guess bool) {
	if strings.Contains(domain, "\n") {
		return // no domain, and lines are how units list them
	}
	forms := []string{bracketed(domain)}
	if l.port != 0 {
		forms = append(forms, hostPort(domain, l.port))
	}
	if guess {
		if l.guesses == nil {
			l.guesses = map[string]struct{}{}
		}
		for _, f := range forms {
			l.guesses[f] = struct{}{}
		}
	}
	l.domains = append(l.domains, forms...)
}

// addHost adds host with its other spellings.
func (l *domainList) addHost(n naming, host string) {
	l.add(host, false)
	absolute, guesses := n.alternates(host)
	if absolute != "" {
		l.add(absolute, true)
	}
	for _, g := range guesses {
		l.add(g, true)
	}
}

// serviceDomains returns every domain under which a service is called: host and aliases with their other spellings, for
// headless services also the names of their members, and the addresses.
func serviceDomains(n naming, s *model.Service, aliases []string, addresses []string, port uint32) *domainList {
	l := &domainList{port: port}
	l.addHost(n, s.Host)
	for _, a := range aliases {
		l.addHost(n, a)
	}
	if s.Headless() && s.Registry == model.Kubernetes {
		for _, d := range l.domains {
			l.domains = append(l.domains, "*."+d)
		}
	}
	for _, a := range addresses {
		l.add(a, false)
	}
	return l
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
