package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mizzen-mesh/mizzen/tests/world"
)

func namespaceOf(o options, service int) string { return fmt.Sprintf("ns-%d", service%o.Namespaces) }

func podIP(n int) string { return fmt.Sprintf("10.%d.%d.%d", 128+n/62500, (n/250)%250, n%250+1) }

func serviceYAML(o options, s int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: svc-%[1]d, namespace: %[2]s}
spec:
  selector: {app: svc-%[1]d}
  clusterIP: 10.96.%[3]d.%[4]d
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp, port: 9000, targetPort: 9000}
`, s, namespaceOf(o, s), s/250, s%250+2)
}

func podYAML(o options, s, p int) string {
	ip := podIP(s*o.Pods + p)
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: svc-%[1]d-%[2]d, namespace: %[3]s, labels: {app: svc-%[1]d, version: v%[4]d, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: default, nodeName: node-%[5]d, containers: [{name: app, image: app}]}
status: {phase: Running, podIP: %[6]s, podIPs: [{ip: %[6]s}], conditions: [{type: Ready, status: 'True'}]}
`, s, p, namespaceOf(o, s), p%2+1, s%20, ip)
}

func sliceYAML(o options, s int, ready bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: svc-%[1]d-1, namespace: %[2]s, labels: {kubernetes.io/service-name: svc-%[1]d}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: tcp, port: 9000, protocol: TCP}]
endpoints:
`, s, namespaceOf(o, s))
	for p := range o.Pods {
		fmt.Fprintf(&b, "- {addresses: [%s], conditions: {ready: %v}, targetRef: {kind: Pod, name: svc-%d-%d, namespace: %s}}\n",
			podIP(s*o.Pods+p), ready || p > 0, s, p, namespaceOf(o, s))
	}
	return b.String()
}

// fill writes one file a service, and one for its slice, so that a change touches one small file.
func fill(dir string, o options) error {
	for n := range o.Namespaces {
		text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: ns-%d}\n", n)
		if err := world.Write(dir, fmt.Sprintf("ns-%d.yaml", n), text); err != nil {
			return err
		}
	}
	for s := range o.Services {
		parts := []string{serviceYAML(o, s)}
		for p := range o.Pods {
			parts = append(parts, podYAML(o, s, p))
		}
		if err := world.Write(dir, fmt.Sprintf("svc-%d.yaml", s), strings.Join(parts, "---\n")); err != nil {
			return err
		}
		if err := world.Write(dir, fmt.Sprintf("slice-%d.yaml", s), sliceYAML(o, s, true)); err != nil {
			return err
		}
	}
	if !o.Rules {
		return nil
	}
	return world.Write(dir, "rules.yaml", rules(func(i int) (name, namespace string) { return fmt.Sprintf("svc-%d", i), namespaceOf(o, i) }))
}

func remove(dir, name string) error { return os.Remove(filepath.Join(dir, name)) }
