package simulate_test

import (
	"net/netip"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
)

const (
	v1   = "10.1.0.2:8080=100"
	v2   = "10.1.0.3:8080=100"
	both = "10.1.0.2:8080=50 10.1.0.3:8080=50"
)

// meshCase is a call in a mesh.
type meshCase struct {
	name, manifests string
	call            offline.Call // From is shop/client if empty
	want            string
}

func (c meshCase) run(t *testing.T) {
	t.Parallel()
	if c.call.From == "" {
		c.call.From = "shop/client"
	}
	p := plane(t, c.manifests)
	s, err := p.Simulate(c.call)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(s); got != c.want {
		t.Errorf("got %s\nwant %s\n%+v", got, c.want, s)
	}
}

func runAll(t *testing.T, cases []meshCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, c.run)
	}
}

func TestHTTPRouting(t *testing.T) {
	t.Parallel()
	get := func(url string, headers ...string) offline.Call {
		c := offline.Call{To: url, Headers: map[string]string{}}
		for i := 0; i < len(headers); i += 2 {
			c.Headers[headers[i]] = headers[i+1]
		}
		return c
	}
	inOrder := http("{match: [{uri: {prefix: /a}}], route: " + to("v1") + "}, {match: [{uri: {prefix: /a/b}}], route: " + to("v2") + "}, {route: " + to("v2") + "}")
	exact := http("{match: [{uri: {exact: /a}}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	expression := http("{match: [{uri: {regex: '/v[0-9]+'}}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	header := http("{match: [{headers: {x-user: {exact: jo}}}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	without := http("{match: [{withoutHeaders: {x-user: {exact: jo}}}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	query := http("{match: [{queryParams: {q: {exact: '1'}}}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	method := http("{match: [{method: {exact: POST}}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	folded := http("{match: [{uri: {prefix: /Path}, ignoreUriCase: true}], route: " + to("v1") + "}, {route: " + to("v2") + "}")
	runAll(t, []meshCase{
		{"no rule", "", get("http://web/"), both},
		{"every name of the service", "", get("http://web.shop.svc.cluster.local/"), both},
		{"from another namespace", "", offline.Call{From: "visitor.other", To: "http://web.shop/"}, both},
		{"a host with a port", "", get("http://web:80/"), both},
		{"the first match wins over the longer", inOrder, get("http://web/a/b"), v1},
		{"the last takes the rest", inOrder, get("http://web/"), v2},
		{"a path with a query is the path", exact, get("http://web/a?x=1"), v1},
		{"an exact path is no prefix", exact, get("http://web/a/"), v2},
		{"an expression matches all of the path", expression, get("http://web/v12/x"), v2},
		{"an expression that does", expression, get("http://web/v12"), v1},
		{"a header", header, get("http://web/", "X-User", "jo"), v1},
		{"another value", header, get("http://web/", "x-user", "al"), v2},
		{"inverted: the value is there", without, get("http://web/", "x-user", "jo"), v2},
		{"inverted: another value", without, get("http://web/", "x-user", "al"), v1},
		{"inverted: no header", without, get("http://web/"), v1},
		{"a query parameter", query, get("http://web/?q=1"), v1},
		{"another parameter's value", query, get("http://web/?q=2"), v2},
		{"a method", method, offline.Call{To: "http://web/", Method: "POST"}, v1},
		{"any case", folded, get("http://web/pAth/x"), v1},
		{"the host header decides, not the address", header, get("http://10.96.0.20/", "host", "web.shop.svc.cluster.local", "x-user", "jo"), v1},
		{"weights", http("{route: [{destination: {host: web, subset: v1}, weight: 90}, {destination: {host: web, subset: v2}, weight: 10}]}"), get("http://web/"), "10.1.0.2:8080=90 10.1.0.3:8080=10"},
		{"a subset without endpoints", http("{route: " + to("none") + "}"), get("http://web/"), "answered 503"},
		{"a subset that no rule has", http("{route: " + to("v7") + "}"), get("http://web/"), "answered 503"},
		{"one part fails", http("{route: [{destination: {host: web, subset: v1}, weight: 80}, {destination: {host: web, subset: none}, weight: 20}]}"), get("http://web/"), "10.1.0.2:8080=80 outbound|80|none|web.shop.svc.cluster.local=20!"},
		{"a mirror", http("{route: " + to("v1") + ", mirror: {host: web, subset: v2}}"), get("http://web/"), v1 + " mirror " + v2},
		{"no rule for gateways", object("VirtualService", "web", "{hosts: [web], gateways: [shop/g], http: [{route: "+to("v1")+"}]}"), get("http://web/"), both},
		{"a service without sidecars", "", get("http://raw.other/"), "10.2.0.2:8080=100"},
	})
}

func TestAnswersOfTheProxy(t *testing.T) {
	t.Parallel()
	runAll(t, []meshCase{
		{"redirect", http("{match: [{uri: {prefix: /a}}], redirect: {uri: /b, authority: new.example.com, redirectCode: 302}}"), offline.Call{To: "http://web/a?x=1"}, "answered 302 http://new.example.com/b?x=1"},
		{"redirect to HTTPS", http("{redirect: {scheme: https}}"), offline.Call{To: "http://web/a"}, "answered 301 https://web/a"},
		{"direct response", http("{directResponse: {status: 418}}"), offline.Call{To: "http://web/"}, "answered 418"},
		{"no route", http("{match: [{uri: {prefix: /a}}], route: " + to("v1") + "}"), offline.Call{To: "http://web/b"}, "answered 404"},
		{"abort", http("{fault: {abort: {httpStatus: 555, percentage: {value: 100}}}, route: " + to("v1") + "}"), offline.Call{To: "http://web/"}, "answered 555"},
		{"abort of some", http("{fault: {abort: {httpStatus: 555, percentage: {value: 50}}}, route: " + to("v1") + "}"), offline.Call{To: "http://web/"}, v1},
		{
			"preflight", http("{corsPolicy: {allowOrigins: [{exact: 'https://a.example.com'}]}, route: " + to("v1") + "}"),
			offline.Call{To: "http://web/", Method: "OPTIONS", Headers: map[string]string{"origin": "https://a.example.com", "access-control-request-method": "GET"}},
			"answered 200",
		},
	})
}

func TestRewritesLeaveTheProxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, routes, url, host, path string }{
		{"prefix", "{match: [{uri: {prefix: /old/}}], rewrite: {uri: /new/}, route: " + to("v1") + "}", "http://web/old/x?y=1", "web", "/new/x?y=1"},
		{"host", "{rewrite: {authority: inner}, route: " + to("v1") + "}", "http://web/x", "inner", "/x"},
		{"expression", `{rewrite: {uriRegexRewrite: {match: '^/user/([^/]+)/(.*)$', rewrite: '/\2?u=\1'}}, route: ` + to("v1") + "}", "http://web/user/jo/cart", "web", "/cart?u=jo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := plane(t, http(c.routes)).Simulate(offline.Call{From: "client.shop", To: c.url})
			if err != nil {
				t.Fatal(err)
			}
			if q := s.Outbound.Outcome.Request; q.Host != c.host || q.Path != c.path {
				t.Errorf("it leaves as %s%s, want %s%s", q.Host, q.Path, c.host, c.path)
			}
		})
	}
}

func TestOutsideOfTheMesh(t *testing.T) {
	t.Parallel()
	out := netip.MustParseAddr("203.0.113.9")
	call := func(url string) offline.Call { return offline.Call{To: url, Address: out} }
	only := object("Sidecar", "default", "{outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: ['./*']}]}")
	entry := func(hosts, resolution, more string) string {
		return object("ServiceEntry", "out", "{hosts: ["+hosts+"], ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}], resolution: "+resolution+more+"}")
	}
	runAll(t, []meshCase{
		{"passthrough", "", call("http://out.example.com/"), "203.0.113.9:80=100"},
		{"passthrough on a port that no service has", "", call("tcp://out.example.com:5555"), "203.0.113.9:5555=100"},
		{"registry only", only, call("http://out.example.com/"), "answered 502"},
		{"registry only, TCP", only, call("tcp://out.example.com:5555"), "reset"},
		{"an entry", only + entry("out.example.com", "STATIC", ", endpoints: [{address: 198.51.100.1}]"), call("http://out.example.com/"), "198.51.100.1:80=100"},
		{"a wildcard", only + entry("'*.example.com'", "NONE", ""), call("http://a.example.com/"), "203.0.113.9:80=100"},
		{"a wildcard does not cover its own end", only + entry("'*.example.com'", "NONE", ""), call("http://example.com/"), "answered 502"},
		{"a Sidecar hides a service: its address is passed through", object("Sidecar", "default", "{egress: [{hosts: ['./*']}]}"), offline.Call{To: "http://raw.other/"}, "10.96.0.20:80=100"},
		{"a Sidecar hides a service: registry only", only, offline.Call{To: "http://raw.other/"}, "answered 502"},
	})
}

func TestTCPAndTLSRouting(t *testing.T) {
	t.Parallel()
	backends := object("ServiceEntry", "x", "{hosts: [x.example.com, a.example.com, '*.example.com'], addresses: [192.0.2.10], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, location: MESH_EXTERNAL, endpoints: [{address: 198.51.100.1}]}") +
		object("ServiceEntry", "y", "{hosts: [y.example.org], addresses: [192.0.2.11], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, location: MESH_EXTERNAL, endpoints: [{address: 198.51.100.2}]}")
	route := func(sni, host string) string {
		return "{match: [{port: 443, sniHosts: ['" + sni + "']}], route: [{destination: {host: " + host + ", port: {number: 443}}}]}"
	}
	bySNI := func(first, second string) string {
		return backends + object("VirtualService", "sni", "{hosts: ['*.example.com'], tls: ["+first+", "+second+"]}")
	}
	at := netip.MustParseAddr("192.0.2.10")
	runAll(t, []meshCase{
		{"TCP", "", offline.Call{To: "tcp://web:9000"}, "10.1.0.2:9000=50 10.1.0.3:9000=50"},
		{"TCP by weight", object("VirtualService", "web", "{hosts: [web], tcp: [{match: [{port: 9000}], route: [{destination: {host: web, subset: v1}, weight: 30}, {destination: {host: web, subset: v2}, weight: 70}]}]}"), offline.Call{To: "tcp://web:9000"}, "10.1.0.2:9000=30 10.1.0.3:9000=70"},
		{"TCP to nobody", object("VirtualService", "web", "{hosts: [web], tcp: [{route: "+to("none")+"}]}"), offline.Call{To: "tcp://web:9000"}, "reset"},
		{"a sniffed port: HTTP", http("{match: [{uri: {prefix: /a}}], route: " + to("v1") + "}, {route: " + to("v2") + "}"), offline.Call{To: "http://web:7000/a"}, "10.1.0.2:7000=100"},
		{"a sniffed port: bytes", http("{match: [{uri: {prefix: /a}}], route: " + to("v1") + "}"), offline.Call{To: "tcp://web:7000"}, "10.1.0.2:7000=50 10.1.0.3:7000=50"},
		{"the application's TLS", "", offline.Call{To: "https://web/"}, "10.1.0.2:8443=50 10.1.0.3:8443=50"},
		{"an exact SNI wins, first", bySNI(route("a.example.com", "y.example.org"), route("*.example.com", "x.example.com")), offline.Call{To: "https://a.example.com/", Address: at}, "198.51.100.2:443=100"},
		{"an exact SNI wins, last", bySNI(route("*.example.com", "x.example.com"), route("a.example.com", "y.example.org")), offline.Call{To: "https://a.example.com/", Address: at}, "198.51.100.2:443=100"},
		{"a wildcard SNI", bySNI(route("*.example.com", "x.example.com"), route("a.example.com", "y.example.org")), offline.Call{To: "https://b.c.example.com/", Address: at}, "198.51.100.1:443=100"},
	})
}

func TestFailover(t *testing.T) {
	t.Parallel()
	rule := func(policy string) string {
		return object("DestinationRule", "near", "{host: web.shop.svc.cluster.local, trafficPolicy: {"+policy+"}}")
	}
	const outlier = "outlierDetection: {consecutive5xxErrors: 5}"
	far := offline.Call{To: "http://web/"}
	runAll(t, []meshCase{
		{"the nearest", rule(outlier), far, v1},
		{"without outlier detection all are the same", rule("connectionPool: {tcp: {maxConnections: 10}}"), far, both},
		{"by weight", rule(outlier + ", loadBalancer: {localityLbSetting: {distribute: [{from: 'r-a/*', to: {'r-a/*': 20, 'r-b/*': 80}}]}}"), far, "10.1.0.2:8080=20 10.1.0.3:8080=80"},
		{"from a farther place", rule(outlier + ", loadBalancer: {localityLbSetting: {failover: [{from: r-a, to: r-b}]}}"), offline.Call{To: "http://web/"}, v1},
	})
}
