package traffic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// pools are scenarios about connections to a service.
func pools() []scenario {
	slow := []backend{{"slow", harness.Behaviour{Delay: 500 * time.Millisecond}}}
	const unretried = `
  - {retries: {attempts: 0}, route: [{destination: {host: '${host}'}}]}`
	return []scenario{
		{
			name: "overflow-connections", beyond: "how busy a service is", backends: slow,
			objects: own("slow") + routed(unretried) + rule("    connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}"),
			then: func(t *testing.T, r *run) {
				overflows(t, r, 1) // while there is no connection yet the first one waits, and no second one may
			},
		},
		{
			name: "overflow-requests", beyond: "how busy a service is", backends: slow,
			objects: own("slow") + routed(unretried) + rule("    connectionPool: {http: {http2MaxRequests: 3}}"),
			then: func(t *testing.T, r *run) {
				overflows(t, r, 3)
			},
		},
		{
			name: "requests-per-connection", backends: called("a"),
			objects: own("a") + rule("    connectionPool: {http: {maxRequestsPerConnection: 2}}"),
			then: func(t *testing.T, r *run) {
				r.count(t, 10, exchange{})
				between(t, "connections", r.stat(t, "", "upstream_cx_total"), 5, 5)
			},
		},
		{
			name: "upgrade", backends: called("a"),
			objects:   own("a") + rule("    connectionPool: {http: {h2UpgradePolicy: UPGRADE}}"),
			exchanges: []exchange{{backend: "a", seenProto: "HTTP/2.0"}},
		},
		{
			name: "no-upgrade", backends: called("a"),
			objects:   own("a") + rule("    connectionPool: {http: {h2UpgradePolicy: DO_NOT_UPGRADE}}"),
			exchanges: []exchange{{backend: "a", seenProto: "HTTP/1.1"}},
		},
	}
}

// certificates is why walks do not tell whether a handshake with a service succeeds.
const certificates = "what a server's TLS wants"

// origination are scenarios about TLS that a sidecar begins.
func origination() []scenario {
	return []scenario{
		{
			name: "tls", start: func(t *testing.T, r *run) { r.secured(t, tls.NoClientCert, "a") },
			objects: own("a") + networking("DestinationRule", "${name}", `
  host: '${host}'
  subsets:
  - {name: good, trafficPolicy: {tls: {mode: SIMPLE, sni: example.com, caCertificates: '${roots}', subjectAltNames: [example.com]}}}
  - {name: wrong, trafficPolicy: {tls: {mode: SIMPLE, sni: example.com, caCertificates: '${roots}', subjectAltNames: [other.example]}}}
  - {name: unverified, trafficPolicy: {tls: {mode: SIMPLE, insecureSkipVerify: true}}}
  - {name: unknown, trafficPolicy: {tls: {mode: SIMPLE, sni: example.com}}}
  - {name: plain, trafficPolicy: {tls: {mode: DISABLE}}}`) + routed(`
  - {match: [{uri: {prefix: /good}}], route: [`+to("good")+`]}
  - {match: [{uri: {prefix: /wrong}}], route: [`+to("wrong")+`]}
  - {match: [{uri: {prefix: /unverified}}], route: [`+to("unverified")+`]}
  - {match: [{uri: {prefix: /unknown}}], route: [`+to("unknown")+`]}
  - {match: [{uri: {prefix: /plain}}], route: [`+to("plain")+`]}`),
			exchanges: []exchange{
				{path: "/good", backend: "a", seen: headers{"x-forwarded-proto": "http"}},
				{path: "/wrong", status: 503, beyond: certificates},
				{path: "/unverified", backend: "a"},
				{path: "/unknown", status: 503, beyond: certificates},
				{path: "/plain", status: 400, beyond: certificates}, // what a Go server answers to plaintext on a port of TLS
			},
			then: func(t *testing.T, r *run) {
				between(t, "wrong names", r.stat(t, "wrong", "ssl.fail_verify_san"), 1, 3)
				between(t, "unknown authorities", r.stat(t, "unknown", "ssl.fail_verify_error"), 1, 3)
			},
		},
		{
			name: "tls-mutual", start: func(t *testing.T, r *run) { r.secured(t, tls.RequireAnyClientCert, "a") },
			objects: own("a") + networking("DestinationRule", "${name}", `
  host: '${host}'
  subsets:
  - {name: mutual, trafficPolicy: {tls: {mode: MUTUAL, sni: example.com, caCertificates: '${roots}', clientCertificate: '${roots}', privateKey: '${key}'}}}
  - {name: simple, trafficPolicy: {tls: {mode: SIMPLE, sni: example.com, caCertificates: '${roots}'}}}`) + routed(`
  - {match: [{uri: {prefix: /mutual}}], route: [`+to("mutual")+`]}
  - {match: [{uri: {prefix: /simple}}], route: [`+to("simple")+`]}`),
			exchanges: []exchange{{path: "/mutual", backend: "a"}, {path: "/simple", status: 503, beyond: certificates}},
		},
	}
}

// secured starts backends that speak TLS with a certificate of example.com. ${roots} is the file of its authority, which
// the system does not know, and of the certificate; ${key} is the file of its key.
func (r *run) secured(t *testing.T, clients tls.ClientAuthType, names ...string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.StartTLS()
	t.Cleanup(server.Close)
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"roots": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		r.vars[name] = filepath.Join(dir, name+".pem")
		if err := os.WriteFile(r.vars[name], pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range names {
		r.backend(t, harness.HTTPBackendOptions{Name: n, TLS: &tls.Config{
			Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12, ClientAuth: clients,
		}})
	}
}

// overflows fails the test unless of many requests at once some are refused, and only some are let through.
func overflows(t *testing.T, r *run, through int) {
	t.Helper()
	const n = 12
	var wg sync.WaitGroup
	answers := make(chan *harness.Reply, n)
	for range n {
		wg.Go(func() {
			reply, err := r.do(context.Background(), exchange{})
			if err != nil {
				t.Error(err)
				return
			}
			answers <- reply
		})
	}
	wg.Wait()
	close(answers)
	good := 0
	for a := range answers {
		switch {
		case a.Status == http.StatusOK:
			good++
		case a.Status != http.StatusServiceUnavailable || a.Header.Get("x-envoy-overloaded") != "true":
			t.Errorf("answer %d %v %s", a.Status, a.Header, a.Body)
		}
	}
	// A request that comes late, when an earlier one is done, passes too.
	between(t, "requests let through", good, through, n-2)
}
