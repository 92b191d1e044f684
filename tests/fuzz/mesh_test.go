package fuzz

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
)

// base is a mesh that the drawn objects are about: cart and pay in shop, with a client; calm in quiet is nobody's target.
func base(t testing.TB) []*model.Object {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: quiet}\n")
	for i, s := range []struct{ name, namespace, vip string }{{"cart", "shop", "10.96.1.1"}, {"pay", "shop", "None"}, {"calm", "quiet", "10.96.9.9"}} {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  clusterIP: %[3]s
  selector: {app: %[1]s}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp-a, port: 9000}, {name: grpc, port: 7070}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-x, namespace: %[2]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: tcp-a, port: 9000}, {name: grpc, port: 7070}]
endpoints:
- {addresses: [10.1.%[4]d.1], conditions: {ready: true}, targetRef: {kind: Pod, name: %[1]s-1, namespace: %[2]s}}
- {addresses: [10.1.%[4]d.2], conditions: {ready: true}, targetRef: {kind: Pod, name: %[1]s-2, namespace: %[2]s}}
`, s.name, s.namespace, s.vip, i+1)
		for w := 1; w <= 2; w++ {
			fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-%[5]d, namespace: %[2]s, labels: {app: %[1]s, version: v%[5]d, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: %[1]s, containers: [{name: app, image: app}]}
status: {phase: Running, podIP: 10.1.%[4]d.%[5]d, podIPs: [{ip: 10.1.%[4]d.%[5]d}], conditions: [{type: Ready, status: 'True'}]}
`, s.name, s.namespace, s.vip, i+1, w)
		}
	}
	objects, problems := file.Decode("base.yaml", []byte(b.String()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return objects
}

// node is what the proxy of a workload states.
func node(ip, name, namespace, app string, stock bool) string {
	extensions := ""
	if stock {
		extensions = ", extensions: [{name: envoy.filters.http.router}]"
	}
	return fmt.Sprintf(`{id: "sidecar~%s~%s.%s~%s.svc.cluster.local", metadata: {NAMESPACE: %s, CLUSTER_ID: Kubernetes, INSTANCE_IPS: %s,
  SERVICE_ACCOUNT: %s, ISTIO_VERSION: 1.32.0, LABELS: {app: %s, version: v1, security.istio.io/tlsMode: istio}}, locality: {region: r1, zone: z1}%s}`,
		ip, name, namespace, namespace, namespace, ip, app, app, extensions)
}
