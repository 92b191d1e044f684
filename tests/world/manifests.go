package world

import (
	"fmt"
	"strings"
)

// Names and addresses of the small mesh. All of 127.0.0.0/8 is the machine itself, so each workload has an address of
// its own without root.
const (
	Namespace  = "demo"
	CallerIP   = "127.0.1.2"
	ServiceVIP = "10.96.0.10"
	Host       = "reviews.demo.svc.cluster.local"
)

// VersionIP returns the address of the i-th version's workload, from 1.
func VersionIP(i int) string { return fmt.Sprintf("127.0.2.%d", i+1) }

// Ports are the ports of the small mesh, the same on every address.
type Ports struct {
	Service int // where callers call and sidecars listen
	App     int // where the application listens
}

// Base returns the manifests that seldom change: namespace, service, pods, slices, sidecars.
func Base(p Ports, versions int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Service
metadata: {name: reviews, namespace: %[1]s}
spec:
  selector: {app: reviews}
  clusterIP: %[2]s
  ports:
  - {name: http, port: %[3]d, targetPort: %[3]d, protocol: TCP}
---
apiVersion: v1
kind: Pod
metadata: {name: caller, namespace: %[1]s, labels: {app: caller}}
spec:
  serviceAccountName: caller
  containers: [{name: app, image: app}]
status: {phase: Running, podIP: %[4]s, podIPs: [{ip: %[4]s}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: caller, namespace: %[1]s}
spec:
  workloadSelector: {labels: {app: caller}}
  egress:
  - port: {number: %[3]d, protocol: HTTP, name: http}
    bind: %[4]s
    captureMode: NONE
    hosts: ["./*"]
`, Namespace, ServiceVIP, p.Service, CallerIP)
	for i := 1; i <= versions; i++ {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: reviews-v%[2]d, namespace: %[1]s, labels: {app: reviews, version: v%[2]d}}
spec:
  serviceAccountName: reviews
  containers: [{name: app, image: app}]
status: {phase: Running, podIP: %[3]s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: reviews-v%[2]d, namespace: %[1]s}
spec:
  workloadSelector: {labels: {app: reviews, version: v%[2]d}}
  ingress:
  - port: {number: %[4]d, protocol: HTTP, name: http}
    bind: %[3]s
    captureMode: NONE
    defaultEndpoint: 0.0.0.0:%[5]d
  egress:
  - hosts: ["~/*"]
`, Namespace, i, VersionIP(i), p.Service, p.App)
	}
	return b.String()
}

// Slice returns the EndpointSlice with the given versions in it.
func Slice(p Ports, versions ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: reviews-1, namespace: %s, labels: {kubernetes.io/service-name: reviews}}
addressType: IPv4
ports:
- {name: http, port: %d, protocol: TCP}
endpoints:
`, Namespace, p.Service)
	for _, v := range versions {
		fmt.Fprintf(&b, `- addresses: [%s]
  conditions: {ready: true}
  targetRef: {kind: Pod, name: reviews-v%d, namespace: %s}
`, VersionIP(v), v, Namespace)
	}
	return b.String()
}

// Subsets returns the DestinationRule that names the versions.
func Subsets(versions int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: %s}
spec:
  host: reviews
  subsets:
`, Namespace)
	for i := 1; i <= versions; i++ {
		fmt.Fprintf(&b, "  - {name: v%[1]d, labels: {version: v%[1]d}}\n", i)
	}
	return b.String()
}

// Split returns the VirtualService that gives version i+1 the i-th weight.
func Split(weights ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: %s}
spec:
  hosts: [reviews]
  http:
  - route:
`, Namespace)
	for i, w := range weights {
		fmt.Fprintf(&b, "    - {destination: {host: reviews, subset: v%d}, weight: %d}\n", i+1, w)
	}
	return b.String()
}
