package parity

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// refused are the fields of the inputs that are refused, by scenario, object and field, with the rule. All of them were in
// force where the recordings were made, which therefore had no webhook: it would have kept them out. Rules: ingestion
// §11.3, each an error there.
func refused() map[string]string {
	const (
		claims = "claims of a JWT are matched at gateways only"
		sni    = "an SNI host is one of the hosts"
		hosts  = "several hosts with a port of neither HTTP nor TLS, and another resolution than NONE"
		menu   = "vs-http-match-kinds VirtualService/shop/menu spec.http[4]."
		db     = "vs-tcp-tls-routes VirtualService/shop/db spec.tls"
		shares = "vs-weights-mirror-fault-headers VirtualService/shop/menu spec.http[0]."
	)
	return map[string]string{
		"authz-conditions AuthorizationPolicy/shop/deny-none spec.rules":                                     "DENY without rules",
		"authz-custom-http-provider AuthorizationPolicy/shop/c1 spec.rules[1].from[0].source.namespaces":     "CUSTOM with namespaces",
		"dr-proxy-protocol-and-tunnel ServiceEntry/shop/tgt spec.ports[1].protocol":                          hosts,
		"se-auto-allocate-dns-capture ServiceEntry/shop/mail spec.ports[0].protocol":                         hosts,
		"vs-tcp-tls-routes ServiceEntry/shop/ext spec.ports[0].protocol":                                     hosts,
		"dr-workload-selector DestinationRule/shop/for-tool spec.exportTo[0]":                                "a rule with a selector is exported beyond its namespace",
		"vs-delegates VirtualService/team/leaf spec.http[2].delegate":                                        "a delegate in a delegate",
		menu + "match[0].headers[@request.auth.claims.role]":                                                 claims,
		menu + "match[1].headers[@request.auth.claims[a.b][c]]":                                              claims,
		menu + "match[2].withoutHeaders[@request.auth.claims.grp]":                                           claims,
		"vs-rewrite-redirect-direct-response VirtualService/shop/menu spec.http[3].headers.request":          "the authority is set twice",
		db + "[0].match[0].sniHosts[0]":                                                                      sni,
		db + "[0].match[0].sniHosts[1]":                                                                      sni,
		db + "[0].match[1].sniHosts[0]":                                                                      sni,
		db + "[1].match[0].sniHosts[0]":                                                                      sni,
		db + "[2].match[0].sniHosts[0]":                                                                      sni,
		shares + "route[0].headers.request":                                                                  "the authority is set twice",
		shares + "headers.request.remove[1]":                                                                 "a pseudo-header is removed",
		shares + "headers.request.remove[2]":                                                                 "Host is removed",
		"ztunnel-authz-l4 AuthorizationPolicy/istio-system/global spec.rules[0].to[0].operation.notPorts[1]": "not a port",
	}
}

// TestInputsAreValid checks that of all the objects that were in force where the recordings were made, those are refused
// that a webhook refuses, and no others.
func TestInputsAreValid(t *testing.T) {
	t.Parallel()
	dir := root(t)
	names := chosen(t, dir, "")
	want := refused()
	objects := 0
	for _, n := range names {
		s, err := loadScenario(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range s.objects {
			objects++
			for _, issue := range validate.Object(o) {
				if issue.Warning {
					continue
				}
				at := n + " " + o.String() + " " + issue.Field
				if want[at] == "" {
					t.Errorf("%s: %s", at, issue.Message)
				}
				delete(want, at)
			}
		}
	}
	for at, why := range want {
		scenario, _, _ := strings.Cut(at, " ")
		if slices.Contains(names, scenario) {
			t.Errorf("%s is not refused: %s", at, why)
		}
	}
	t.Logf("%d objects of %d scenarios", objects, len(names))
}
