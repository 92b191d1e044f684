package simulate_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/simulate"
)

// mesh are the manifests that all cases share: a client and a plain pod, a service of two versions with sidecars (web),
// and one without (raw).
func mesh() string {
	pod := func(ns, name, labels, ip, account, node string, sidecar bool) string {
		if sidecar {
			labels += ", security.istio.io/tlsMode: istio"
		}
		return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {%[3]s}}
spec: {serviceAccountName: %[5]s, nodeName: %[6]s, containers: [{name: app, image: app}]}
status: {phase: Running, podIP: %[4]s, podIPs: [{ip: %[4]s}], conditions: [{type: Ready, status: 'True'}]}
`, ns, name, labels, ip, account, node)
	}
	var b strings.Builder
	for _, n := range []string{"a", "b"} {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Node\nmetadata: {name: node-%[1]s, labels: {topology.kubernetes.io/region: r-%[1]s, topology.kubernetes.io/zone: z-%[1]s}}\n", n)
	}
	b.WriteString(pod("shop", "client", "app: client", "10.1.0.1", "client", "node-a", true))
	b.WriteString(pod("shop", "web-1", "app: web, version: v1", "10.1.0.2", "web", "node-a", true))
	b.WriteString(pod("shop", "web-2", "app: web, version: v2", "10.1.0.3", "web", "node-b", true))
	b.WriteString(pod("other", "raw-1", "app: raw", "10.2.0.2", "raw", "node-a", false))
	b.WriteString(pod("other", "visitor", "app: visitor", "10.2.0.1", "visitor", "node-a", true))
	b.WriteString(`---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 9000}, {name: tls, port: 443, targetPort: 8443}, {name: any, port: 7000}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: tcp, port: 9000}, {name: tls, port: 8443}, {name: any, port: 7000}]
endpoints:
- {addresses: [10.1.0.2], conditions: {ready: true}, targetRef: {kind: Pod, name: web-1, namespace: shop}}
- {addresses: [10.1.0.3], conditions: {ready: true}, targetRef: {kind: Pod, name: web-2, namespace: shop}}
---
apiVersion: v1
kind: Service
metadata: {name: raw, namespace: other}
spec: {selector: {app: raw}, clusterIP: 10.96.0.20, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: raw-1, namespace: other, labels: {kubernetes.io/service-name: raw}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.2.0.2], conditions: {ready: true}, targetRef: {kind: Pod, name: raw-1, namespace: other}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec:
  host: web
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}, {name: none, labels: {version: v9}}]
`)
	return b.String()
}

// object is a manifest; its spec is YAML in braces or indented lines.
func object(kind, name, spec string) string {
	version := map[string]string{
		"VirtualService": "networking", "DestinationRule": "networking", "ServiceEntry": "networking", "Sidecar": "networking",
		"AuthorizationPolicy": "security", "PeerAuthentication": "security", "RequestAuthentication": "security",
	}[kind]
	return fmt.Sprintf("---\napiVersion: %s.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: shop}\nspec: %s\n", version, kind, name, spec)
}

// http is a VirtualService for web with these HTTP routes.
func http(routes string) string {
	return object("VirtualService", "web", "{hosts: [web], http: ["+routes+"]}")
}

// To routes to a version.
func to(subset string) string { return "[{destination: {host: web, subset: " + subset + "}}]" }

// plane starts a control plane on the mesh and more manifests.
func plane(t *testing.T, more string) *offline.Plane {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte(mesh()+more), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := offline.Read(t.Context(), offline.Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Problems) > 0 {
		t.Fatalf("the manifests: %+v", in.Problems)
	}
	p, err := offline.Start(model.DefaultSettings(), in.Mesh, in.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// summary is what becomes of a call, in a line: where it goes with its shares, or how it ends, and the same for each
// sidecar at the other end that does not just take it.
func summary(s *offline.Simulation) string {
	o := s.Outbound.Outcome
	text := short(o)
	if o.Kind == simulate.Forwarded {
		text = strings.Join(shares(o.Destinations), " ")
	}
	if len(o.Mirrors) > 0 {
		text += " mirror " + strings.Join(shares(o.Mirrors), " ")
	}
	for _, l := range s.Inbound {
		if l.Outcome.Kind != simulate.Forwarded {
			text += fmt.Sprintf(" | %s %s", netip.MustParseAddrPort(l.Endpoint).Addr(), short(l.Outcome))
		}
	}
	return text
}

func short(o simulate.Outcome) string {
	text := string(o.Kind)
	if o.Status != 0 {
		text += fmt.Sprintf(" %d", o.Status)
	}
	if o.Location != "" {
		text += " " + o.Location
	}
	if o.Kind == simulate.Denied && o.By != "" {
		text += " by " + o.By
	}
	return text
}

func shares(list []simulate.Destination) []string {
	var out []string
	for _, d := range list {
		if d.Problem != "" {
			out = append(out, fmt.Sprintf("%s=%.4g!", d.Cluster, d.Weight))
		}
		for _, e := range d.Endpoints {
			if e.Share > 0 {
				out = append(out, fmt.Sprintf("%s=%.4g", e.Address, d.Weight*e.Share/100))
			}
		}
	}
	slices.Sort(out)
	return out
}
