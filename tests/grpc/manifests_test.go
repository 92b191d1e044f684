package grpc

import (
	"fmt"
	"strings"
)

const (
	namespace = "demo"
	host      = "echo.demo.svc.cluster.local"
	clientIP  = "127.0.4.1"
)

// versionIP returns the address of the i-th version's workload, from 1. All of 127.0.0.0/8 is the machine itself.
func versionIP(i int) string { return fmt.Sprintf("127.0.5.%d", i) }

// base returns the namespace, the service with a port, and a pod for each of two versions.
func base(port int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: %[1]s}
spec:
  selector: {app: echo}
  clusterIP: 10.96.0.20
  ports: [{name: grpc, port: %[2]d, targetPort: %[2]d, protocol: TCP}]
`, namespace, port)
	for i := 1; i <= 2; i++ {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: echo-v%[2]d, namespace: %[1]s, labels: {app: echo, version: v%[2]d}}
spec:
  serviceAccountName: echo
  containers: [{name: app, image: app}]
status: {phase: Running, podIP: %[3]s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: 'True'}]}
`, namespace, i, versionIP(i))
	}
	return b.String()
}

// slice returns the EndpointSlice of a service with the given versions in it.
func slice(service string, port int, versions ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: grpc, port: %[3]d, protocol: TCP}]
endpoints:
`, namespace, service, port)
	for _, v := range versions {
		fmt.Fprintf(&b, `- addresses: [%s]
  conditions: {ready: true}
  targetRef: {kind: Pod, name: echo-v%d, namespace: %s}
`, versionIP(v), v, namespace)
	}
	return b.String()
}

// rule returns the DestinationRule of the service, with its versions as subsets and a traffic policy.
func rule(policy string) string {
	if policy != "" {
		policy = "trafficPolicy: {" + policy + "}"
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo, namespace: %s}
spec:
  host: echo
  %s
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
`, namespace, policy)
}

// virtual returns the VirtualService of the service with routes in YAML.
func virtual(http ...string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: %s}
spec:
  hosts: [echo]
  http:
  - %s
`, namespace, strings.Join(http, "\n  - "))
}

// split returns a route that gives version i+1 the i-th weight.
func split(weights ...int) string {
	to := make([]string, 0, len(weights))
	for i, w := range weights {
		to = append(to, fmt.Sprintf("{destination: {host: echo, subset: v%d}, weight: %d}", i+1, w))
	}
	return "{route: [" + strings.Join(to, ", ") + "]}"
}

// peers returns the PeerAuthentication of the namespace.
func peers(mode string) string {
	return fmt.Sprintf(`apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: all, namespace: %s}
spec: {mtls: {mode: %s}}
`, namespace, mode)
}

// authorization returns an AuthorizationPolicy of the service's workloads.
func authorization(action, rules string) string {
	return fmt.Sprintf(`apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: echo, namespace: %s}
spec: {selector: {matchLabels: {app: echo}}, action: %s, rules: [%s]}
`, namespace, action, rules)
}
