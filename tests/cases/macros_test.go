package cases

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// expand writes manifests out. Its macros:
//
//	app NAMESPACE/NAME VIP PORTS IPS    a service, its endpoints, and a pod for each address that takes mutual TLS
//	plain ...                           the same, of pods without sidecar
//	svc NAMESPACE/NAME VIP PORTS        the service alone
//	pods NAMESPACE/NAME PORTS IPS       the rest of app
//	node NAME REGION ZONE               a Kubernetes node; the n-th pod of an app is on "node-n"
//	entry NAME HOST PORTS FIELDS        a ServiceEntry of the namespace shop; ports are NAME:NUMBER:PROTOCOL[>TARGETPORT]
//	exports, sessions                   names of services with values of exportTo, and with labels
//
// PORTS are "name:port" or "name:port>targetPort", separated by blanks. The n-th pod is called NAME-n, its labels are app:
// NAME and version: vn, and its service account is NAME.
func expand(text string) ([]byte, error) {
	t, err := template.New("objects").Funcs(template.FuncMap{
		"app": func(name, vip, ports, ips string) string {
			return service(name, vip, ports) + pods(name, ports, ips, ", security.istio.io/tlsMode: istio")
		},
		"plain": func(name, vip, ports, ips string) string {
			return service(name, vip, ports) + pods(name, ports, ips, "")
		},
		"svc": service,
		"pods": func(name, ports, ips string) string {
			return pods(name, ports, ips, ", security.istio.io/tlsMode: istio")
		},
		"node": func(name, region, zone string) string {
			return fmt.Sprintf("---\napiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {topology.kubernetes.io/region: %s, topology.kubernetes.io/zone: %s}}\n", name, region, zone)
		},
		"entry": entry,
		"exports": func() map[string]string {
			return map[string]string{"own": ".", "none": "~", "two": "ns2, ns3"}
		},
		"sessions": func() map[string]string {
			return map[string]string{"plain": "{}", "cookie": "{istio.io/persistent-session: s}", "header": "{istio.io/persistent-session-header: s}"}
		},
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, nil)
	return b.Bytes(), err
}

// port is a port of a service.
type port struct{ name, number, target string }

func portsOf(text string) []port {
	var out []port
	for p := range strings.FieldsSeq(text) {
		name, number, _ := strings.Cut(p, ":")
		number, target, ok := strings.Cut(number, ">")
		if !ok {
			target = number
		}
		out = append(out, port{name, number, target})
	}
	return out
}

func service(name, vip, ports string) string {
	namespace, name, _ := strings.Cut(name, "/")
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec:\n  clusterIP: %q\n  selector: {app: %s}\n  ports:\n", name, namespace, vip, name)
	for _, p := range portsOf(ports) {
		fmt.Fprintf(&b, "  - {name: %s, port: %s, targetPort: %s}\n", p.name, p.number, p.target)
	}
	return b.String()
}

func pods(name, ports, ips, labels string) string {
	namespace, name, _ := strings.Cut(name, "/")
	var b strings.Builder
	family := "IPv4"
	if strings.Contains(ips, ":") {
		family = "IPv6"
	}
	fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s-x, namespace: %s, labels: {kubernetes.io/service-name: %s}}\n", name, namespace, name)
	fmt.Fprintf(&b, "addressType: %s\nports:\n", family)
	for _, p := range portsOf(ports) {
		fmt.Fprintf(&b, "- {name: %s, port: %s}\n", p.name, p.target)
	}
	b.WriteString("endpoints:\n")
	for i, ip := range strings.Fields(ips) {
		fmt.Fprintf(&b, "- {addresses: [%q], nodeName: node-%d, conditions: {ready: true}, targetRef: {kind: Pod, name: %s-%d, namespace: %s}}\n", ip, i+1, name, i+1, namespace)
	}
	for i, ip := range strings.Fields(ips) {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %[1]s-%[2]d, namespace: %[3]s, labels: {app: %[1]s, version: v%[2]d%[4]s}}\n", name, i+1, namespace, labels)
		fmt.Fprintf(&b, "spec: {serviceAccountName: %s, nodeName: node-%d, containers: [{name: app, image: app}]}\n", name, i+1)
		fmt.Fprintf(&b, "status: {phase: Running, podIP: %[1]q, podIPs: [{ip: %[1]q}], conditions: [{type: Ready, status: 'True'}]}\n", ip)
	}
	return b.String()
}

func entry(name, host, ports, fields string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: shop}\nspec:\n  hosts: [%q]\n  ports:\n", name, host)
	for p := range strings.FieldsSeq(ports) {
		p, target, ok := strings.Cut(p, ">")
		parts := strings.Split(p, ":")
		if ok {
			target = ", targetPort: " + target
		}
		fmt.Fprintf(&b, "  - {name: %s, number: %s, protocol: %s%s}\n", parts[0], parts[1], parts[2], target)
	}
	for f := range strings.SplitSeq(fields, ";") {
		b.WriteString("  " + strings.TrimSpace(f) + "\n")
	}
	return b.String()
}

// proxy is a node in short form: by default the sidecar of the pod client-1 in shop.
type proxy struct {
	Kind      string         `json:"kind"`
	IP        string         `json:"ip"` // several separated by commas
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	Account   string         `json:"account"`
	Labels    map[string]any `json:"labels"`
	Region    string         `json:"region"`
	Zone      string         `json:"zone"`
	Metadata  map[string]any `json:"metadata"`
	// Stock makes it a stock Envoy.
	Stock bool `json:"stock"`
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// node returns the xDS node.
func (p proxy) node() (*corev3.Node, error) {
	name, namespace, ip := or(p.Name, "client-1"), or(p.Namespace, "shop"), or(p.IP, "10.1.9.9")
	app := name
	if i := strings.LastIndex(name, "-"); i > 0 {
		app = name[:i]
	}
	labels := map[string]any{"app": app, "version": "v1", "security.istio.io/tlsMode": "istio"}
	for k, v := range p.Labels {
		labels[k] = v
	}
	meta := map[string]any{
		"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": ip, "SERVICE_ACCOUNT": or(p.Account, app), "ISTIO_VERSION": "1.32.0",
		"LABELS": labels,
	}
	for k, v := range p.Metadata {
		meta[k] = v
	}
	first, _, _ := strings.Cut(ip, ",")
	n := map[string]any{
		"id":      fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", or(p.Kind, "sidecar"), first, name, namespace, namespace),
		"cluster": app + "." + namespace, "metadata": meta, "locality": map[string]any{"region": or(p.Region, "r1"), "zone": or(p.Zone, "z1")},
	}
	if p.Stock {
		n["extensions"] = []any{map[string]any{"name": "envoy.filters.http.router"}}
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	out := &corev3.Node{}
	return out, protojson.Unmarshal(text, out)
}
