package fault

import (
	"fmt"
	"strings"
)

// variants is how many variants of the good objects there are.
const variants = 2

// goodMesh is the mesh configuration that is in force but for the cases that change it.
const goodMesh = "connectTimeout: 7s\n"

// mark is a text that a variant puts into clusters, routes and endpoints.
func mark(variant int) (cluster, route, address string) {
	return fmt.Sprintf("sni-%d.example", variant), fmt.Sprintf("route-%d", variant), fmt.Sprintf("10.1.9.%d", variant+1)
}

// baseObjects are good objects that nobody edits.
func baseObjects() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n")
	for i := range 3 {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: s%[1]d, namespace: demo}
spec: {clusterIP: 10.96.0.%[2]d, ports: [{name: http, port: 80}, {name: tcp, port: 90}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s%[1]d-a, namespace: demo, labels: {kubernetes.io/service-name: s%[1]d}}
addressType: IPv4
ports: [{name: http, port: 80}, {name: tcp, port: 90}]
endpoints: [{addresses: [10.1.1.%[2]d], conditions: {ready: true}}]
`, i, i+10)
	}
	return b.String()
}

// editedObjects are a variant of the good objects that are edited.
func editedObjects(variant int) string {
	sni, route, address := mark(variant)
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s1, namespace: demo}
spec: {host: s1, trafficPolicy: {tls: {mode: SIMPLE, sni: %s}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s1, namespace: demo}
spec:
  hosts: [s1]
  http: [{name: %s, route: [{destination: {host: s1}}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s1-b, namespace: demo, labels: {kubernetes.io/service-name: s1}}
addressType: IPv4
ports: [{name: http, port: 80}, {name: tcp, port: 90}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`, sni, route, address)
}

// entry is a good ServiceEntry that every proxy sees. more goes into its metadata.
func entry(name, more string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: demo%[2]s}
spec:
  hosts: [%[1]s.example]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  location: MESH_EXTERNAL
  endpoints: [{address: 10.3.0.1}]
`, name, more)
}
