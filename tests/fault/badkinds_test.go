package fault

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/offline"
)

// badKind is a kind with a good object, one beside it that is wrong, and what shows of the good one.
type badKind struct {
	kind, version string
	good, bad     string // specs in YAML
	shows         string // part of what a proxy gets because of the good one
	field         string // that is reported of the bad one
}

// badKinds are the kinds that change what sidecars get.
func badKinds() []badKind {
	const networking, security, telemetry, extensions = "networking.istio.io/v1", "security.istio.io/v1", "telemetry.istio.io/v1", "extensions.istio.io/v1alpha1"
	return []badKind{
		{
			"VirtualService", networking, `{hosts: [s0], http: [{name: good, route: [{destination: {host: s0}}]}]}`,
			`{hosts: [s1], http: [{name: bad, route: [{destination: {host: s1}, weight: -1}]}]}`, `"good"`, "spec.http[0].route[0].weight",
		},
		{
			"VirtualService", networking, `{hosts: [s0], http: [{name: good, route: [{destination: {host: s0}}]}]}`,
			`{hosts: [s0], http: [{name: bad, match: [{uri: {regex: "(("}}], route: [{destination: {host: s0}}]}]}`, `"good"`, "spec.http[0].match[0].uri",
		},
		{
			"DestinationRule", networking, `{host: s0, trafficPolicy: {tls: {mode: SIMPLE, sni: good}}}`,
			`{host: s1, trafficPolicy: {outlierDetection: {interval: -1s}}}`, `"good"`, "spec.trafficPolicy.outlierDetection.interval",
		},
		{
			"ServiceEntry", networking, `{hosts: [good.example], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.9.0.1}]}`,
			`{hosts: [bad.example], resolution: STATIC, ports: [{number: 70000, name: http, protocol: HTTP}], endpoints: [{address: 10.9.0.2}]}`, "good.example", "spec.ports[0].number",
		},
		{"WorkloadEntry", networking, `{address: 10.9.0.3, labels: {app: selected}}`, `{address: not an address, labels: {app: selected}}`, "10.9.0.3", "spec.address"},
		{
			"Sidecar", networking, `{workloadSelector: {labels: {app: s0}}, egress: [{hosts: ["./s0.demo.svc.cluster.local", "./selected.example"]}]}`,
			`{workloadSelector: {labels: {app: s0}}, egress: [{hosts: ["no slash"]}]}`, "s0.demo", "spec.egress[0].hosts[0]",
		},
		{
			"EnvoyFilter", "networking.istio.io/v1alpha3",
			`{configPatches: [{applyTo: CLUSTER, match: {cluster: {service: s0.demo.svc.cluster.local}}, patch: {operation: MERGE, value: {alt_stat_name: good}}}]}`,
			`{configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: [1]}}}, {applyTo: HTTP_FILTER, patch: {operation: ADD}}]}`, `"good"`, "spec.configPatches",
		},
		{
			"PeerAuthentication", security, `{selector: {matchLabels: {app: s0}}, mtls: {mode: STRICT}, portLevelMtls: {8099: {mode: DISABLE}}}`,
			`{selector: {matchLabels: {app: s0}}, portLevelMtls: {0: {mode: DISABLE}}}`, "8099", "spec.portLevelMtls",
		},
		{
			"AuthorizationPolicy", security, `{action: DENY, rules: [{to: [{operation: {paths: [/good]}}]}]}`,
			`{action: DENY, rules: [{when: [{key: no.such.key, values: [x]}]}]}`, "/good", "spec.rules[0].when[0].key",
		},
		{"RequestAuthentication", security, `{jwtRules: [{issuer: good}]}`, `{jwtRules: [{issuer: "", jwksUri: "not a uri"}]}`, `"good"`, "spec.jwtRules[0]"},
		{"Telemetry", telemetry, `{accessLogging: [{providers: [{name: envoy}]}]}`, `{tracing: [{randomSamplingPercentage: 101}]}`, "/dev/stdout", "spec.tracing[0].randomSamplingPercentage"},
		{"WasmPlugin", extensions, `{url: oci://registry.example/good, phase: AUTHN}`, `{url: "", phase: AUTHN}`, "demo.good", "spec.url"},
		{"TrafficExtension", extensions, `{lua: {inlineCode: "-- good"}}`, `{lua: {inlineCode: ""}}`, "demo.good", "spec.lua"},
	}
}

// manifest writes an object of the kind.
func (k badKind) manifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: demo}\nspec: %s\n", k.version, k.kind, name, spec)
}

const badKindsNode = `{"id": "sidecar~10.1.1.10~s0-1.demo~demo.svc.cluster.local", "metadata": {"NAMESPACE": "demo", "CLUSTER_ID": "Kubernetes",
  "INSTANCE_IPS": "10.1.1.10", "ISTIO_VERSION": "1.32.0", "LABELS": {"app": "s0"}}}`

// TestBadKinds puts a wrong object of each kind beside a good one: it is reported with its field, and the proxy gets what
// it got without it. Package fuzz has objects that nobody validates.
func TestBadKinds(t *testing.T) {
	t.Parallel()
	for i, k := range badKinds() {
		t.Run(fmt.Sprintf("%02d-%s", i, k.kind), func(t *testing.T) {
			t.Parallel()
			good, bad := k.manifest("good", k.good), k.manifest("bad", k.bad)
			want, _ := resourcesOf(t, map[string]string{"base": badKindsBase(), "good": good})
			if !strings.Contains(want.text(t), k.shows) {
				t.Fatalf("nothing shows of the good object; want %s", k.shows)
			}
			got, in := resourcesOf(t, map[string]string{"base": badKindsBase(), "good": good, "bad": bad})
			if d := want.differs(got); d != "" {
				t.Errorf("beside a bad object that is refused: %s", d)
			}
			reported := false
			for _, p := range in.Problems {
				reported = reported || string(p.Object.Kind) == k.kind && p.Object.Name == "bad" && strings.HasPrefix(p.Field, k.field) &&
					p.File == "bad.yaml" && p.Line > 0 && p.Message != ""
			}
			if !reported {
				t.Errorf("not reported with the field %s: %+v", k.field, in.Problems)
			}
		})
	}
}

// badKindsBase are services, and a ServiceEntry that selects workloads.
func badKindsBase() string {
	return baseObjects() + `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: selected, namespace: demo}
spec: {hosts: [selected.example], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], workloadSelector: {labels: {app: selected}}}
`
}

// made is what a proxy gets.
type made struct{ offline.Resources }

// resourcesOf returns what the proxy gets of a directory with the files.
func resourcesOf(t *testing.T, files map[string]string) (made, *offline.Input) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := offline.Read(context.Background(), offline.Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := offline.Start(model.DefaultSettings(), in.Mesh, in.Objects)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	n, err := offline.ReadNode([]byte(badKindsNode))
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.Ask(n, p.SubscriptionOf(n, nil))
	if err != nil {
		t.Fatal(err)
	}
	return made{all}, in
}

// text renders all of it.
func (m made) text(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, url := range slices.Sorted(maps.Keys(m.Resources)) {
		for _, name := range slices.Sorted(maps.Keys(m.Resources[url])) {
			body, err := protojson.Marshal(m.Resources[url][name].Message)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, url, name, string(body))
		}
	}
	return b.String()
}

// differs tells what is another in o, "" if nothing is.
func (m made) differs(o made) string {
	for url, byName := range m.Resources {
		for name, r := range byName {
			if other := o.Resources[url][name]; other == nil || !proto.Equal(r.Message, other.Message) {
				return url + " " + name
			}
		}
		if len(byName) != len(o.Resources[url]) {
			return fmt.Sprintf("%s: %d and %d", url, len(byName), len(o.Resources[url]))
		}
	}
	return ""
}
