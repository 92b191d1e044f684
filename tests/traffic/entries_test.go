package traffic

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// entries are scenarios about where the endpoints of a service come from.
func entries() []scenario {
	return []scenario{
		{
			name: "dns", backends: called("a"),
			objects:   resolved("DNS"),
			exchanges: []exchange{{backend: "a", seenHost: "dns.example"}},
		},
		{
			name: "dns-round-robin", backends: called("a"),
			objects:   resolved("DNS_ROUND_ROBIN"),
			exchanges: []exchange{{backend: "a"}},
		},
		{
			name: "wildcard", backends: called("all", "one"),
			objects: service("*.${host}", at("all")) + service("one.${host}", at("one")),
			exchanges: []exchange{
				{host: "any.wildcard.example", backend: "all"},
				{host: "a.b.wildcard.example", backend: "all"},
				{host: "one.wildcard.example", backend: "one"},
				{from: "guest", host: "wildcard.example", status: 502},
			},
		},
		{
			name: "workload-entries", backends: called("a", "b"),
			objects: networking("ServiceEntry", "${name}", `
  hosts: ['${host}']
  resolution: STATIC
  ports: [{number: ${http}, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: selected}}`) +
				networking("WorkloadEntry", "${name}-a", "  address: 127.0.0.1\n  ports: {http: ${a}}\n  labels: {app: selected}") +
				networking("WorkloadEntry", "${name}-b", "  address: 127.0.0.1\n  ports: {http: ${b}}\n  labels: {app: other}"),
			then: func(t *testing.T, r *run) {
				if c := r.count(t, 10, exchange{}); c["a"] != 10 {
					t.Errorf("answers: %v", c)
				}
			},
		},
		kubernetes(),
	}
}

// scopes are scenarios about which services and routes there are for whom.
func scopes() []scenario {
	return []scenario{
		{
			name: "unknown-host",
			exchanges: []exchange{
				{from: "guest", status: 502},
				// ALLOW_ANY sends it where the connection was meant to go. Without interception that is nowhere.
				{status: 503},
			},
		},
		{
			name: "hidden", backends: called("a"),
			objects: strings.Replace(own("a"), "\n  resolution", "\n  exportTo: ['.']\n  resolution", 1),
			exchanges: []exchange{
				{backend: "a"},
				{from: "guest", status: 502},
			},
		},
		{
			name: "hidden-route", backends: called("a", "b"),
			objects: own("a", "b") + subsets("a", "b") + strings.Replace(routed(`
  - {route: [`+to("a")+`]}`), "\n  hosts", "\n  exportTo: ['.']\n  hosts", 1) + strings.Replace(strings.Replace(routed(`
  - {route: [`+to("b")+`]}`), "\n  hosts", "\n  exportTo: [guest]\n  hosts", 1), "name: ${name}", "name: ${name}-guest", 1),
			exchanges: []exchange{{backend: "a"}, {from: "guest", backend: "b"}},
		},
		{
			name: "scoped", backends: called("in", "out"), ports: []string{"narrow"}, on: "guest",
			listeners: egress("guest", "HTTP", "narrow", "in.scoped.example"),
			objects:   strings.ReplaceAll(service("in.${host}", at("in"))+service("out.${host}", at("out")), "${http}", "${narrow}"),
			exchanges: []exchange{
				{from: "guest", port: "narrow", host: "in.scoped.example", backend: "in"},
				{from: "guest", port: "narrow", host: "out.scoped.example", status: 502},
			},
		},
	}
}

// tunnels are scenarios about connections whose content is nobody's concern.
func tunnels() []scenario {
	return []scenario{
		{
			name: "tcp-weights", connections: true, ports: []string{"tcp"},
			start: func(t *testing.T, r *run) {
				for _, n := range []string{"few", "many", "none"} {
					r.vars[n] = strconv.Itoa(harness.NewTCPEcho(t, n, "").Port())
				}
			},
			listeners: egress(caller, "TCP", "tcp", "tcp-weights.example"),
			objects: connections("TCP", "${host}", "none") + connections("TCP", "few.${host}", "few") + connections("TCP", "many.${host}", "many") +
				connections("TCP", "none.${host}", "none") + networking("VirtualService", "${name}", `
  hosts: ['${host}']
  tcp:
  - {match: [{port: ${tcp}}], route: [{destination: {host: 'few.${host}'}, weight: 20}, {destination: {host: 'many.${host}'}, weight: 80}, {destination: {host: 'none.${host}'}, weight: 0}]}`),
			then: func(t *testing.T, r *run) {
				c := map[string]int{}
				for range 200 {
					c[firstLine(t, net.JoinHostPort("127.0.0.1", r.vars["tcp"]), "")]++
				}
				between(t, "20 %", c["few"], 10, 80)
				between(t, "together", c["few"]+c["many"], 200, 200)
			},
		},
		{
			name: "sni", connections: true, ports: []string{"tcp"},
			start:     func(t *testing.T, r *run) { r.secured(t, tls.NoClientCert, "a", "b") },
			listeners: egress(caller, "TLS", "tcp", "*.sni.example"),
			objects: connections("TLS", "*.${host}", "a") + connections("TLS", "a.inner.example", "a") + connections("TLS", "b.inner.example", "b") +
				networking("VirtualService", "${name}", `
  hosts: ['*.${host}']
  tls:
  - {match: [{port: ${tcp}, sniHosts: ['a.${host}']}], route: [{destination: {host: a.inner.example}}]}
  - {match: [{port: ${tcp}, sniHosts: ['b.${host}', '*.b.${host}']}], route: [{destination: {host: b.inner.example}}]}`),
			then: func(t *testing.T, r *run) {
				for name, want := range map[string]string{"a": "a", "b": "b", "x.b": "b", "c": ""} {
					got, err := r.overTLS(t.Context(), name+"."+r.vars["host"])
					if (err != nil) != (want == "") || got != want {
						t.Errorf("%s: %q answered, want %q: %v", name, got, want, err)
					}
				}
			},
		},
	}
}

// resolved is the service of the scenario's host whose endpoint is the backend a by a DNS name.
func resolved(resolution string) string {
	return strings.NewReplacer("STATIC", resolution, "127.0.0.1", "localhost").Replace(own("a"))
}

// egress is a listener of a workload for one of the scenario's ports, with hosts of the scenarios' namespace.
func egress(workload, protocol, port string, hosts ...string) string {
	return fmt.Sprintf("  - port: {number: ${%[3]s}, protocol: %[2]s, name: %[3]s-${name}}\n    bind: '${%[1]s}'\n    captureMode: NONE\n    hosts: ['demo/%[4]s']\n",
		workload, protocol, port, strings.Join(hosts, "', 'demo/"))
}

// connections is the ServiceEntry of a host whose connections on ${tcp} go to a server.
func connections(protocol, host, server string) string {
	return networking("ServiceEntry", strings.ReplaceAll(host, "*", "any"), fmt.Sprintf("  hosts: ['%s']\n  resolution: STATIC\n"+
		"  ports: [{number: ${tcp}, name: tcp, protocol: %s}]\n  endpoints: [{address: 127.0.0.1, ports: {tcp: ${%s}}}]", host, protocol, server))
}

// firstLine connects, says something, and returns the first line that comes back, empty if the connection ends before.
func firstLine(t *testing.T, address, say string) string {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

// overTLS asks over TLS with that name, and returns which backend answers.
func (r *run) overTLS(ctx context.Context, name string) (string, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{ServerName: name, InsecureSkipVerify: true}, //nolint:gosec // who answers is what is asked
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort("127.0.0.1", r.vars["tcp"])+"/", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var echo harness.Echo
	err = json.NewDecoder(resp.Body).Decode(&echo)
	return echo.Backend, err
}

// kubernetes is a Service with endpoints on two ports, called by each of its names.
func kubernetes() scenario {
	slice := func(name, port, address string) string {
		return fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-%s, namespace: demo, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
endpoints: [%s]
ports: [{name: http, port: %s}]
`, name, address, port)
	}
	return scenario{
		name: "kubernetes", backends: called("a", "gone"),
		start: func(t *testing.T, r *run) {
			r.backend(t, harness.HTTPBackendOptions{Name: "b", Listen: "127.0.3.1:0"})
		},
		objects: `apiVersion: v1
kind: Service
metadata: {name: shop, namespace: demo}
spec: {selector: {app: shop}, clusterIP: 10.96.0.20, ports: [{name: http, port: ${http}, targetPort: web}]}
` + slice("a", "${a}", "{addresses: [127.0.0.1], conditions: {ready: true}}") +
			slice("b", "${b}", "{addresses: [127.0.3.1], conditions: {ready: true}}") +
			slice("gone", "${gone}", "{addresses: [127.0.3.2], conditions: {ready: false}}") + networking("VirtualService", "shop", `
  hosts: [shop]
  http: [{headers: {request: {set: {x-by: short-name}}}, route: [{destination: {host: shop}}]}]`),
		exchanges: []exchange{
			{host: "shop", seen: headers{"x-by": "short-name"}},
			{host: "shop.demo", seen: headers{"x-by": "short-name"}},
			{host: "shop.demo.svc.cluster.local", seen: headers{"x-by": "short-name"}},
			{host: "10.96.0.20", seen: headers{"x-by": "short-name"}},
			{from: "guest", host: "shop", status: 502},
			{from: "guest", host: "shop.demo.svc", seen: headers{"x-by": "short-name"}},
		},
		then: func(t *testing.T, r *run) {
			c := r.count(t, 40, exchange{host: "shop.demo"})
			between(t, "a", c["a"], 5, 35)
			between(t, "a and b", c["a"]+c["b"], 40, 40)
		},
	}
}
