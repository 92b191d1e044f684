package differential

import (
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// tree is an object, or a part of one, as manifests write it.
type tree = map[string]any

// edit is one step's change of one object; a nil manifest deletes it.
type edit struct {
	key      model.ObjectKey
	manifest tree
}

func namespaces() []string { return []string{"a", "b"} }

// names are few for each kind, so that histories meet the same objects again and again.
func names(kind model.Kind) []string {
	switch kind {
	case model.KindService:
		return []string{"s1", "s2", "s3"}
	case model.KindEndpointSlice:
		return []string{"s1-x", "s2-x", "s2-y"}
	case model.KindPod:
		return []string{"p1", "p2", "p3"}
	case model.KindNode:
		return []string{"n1", "n2"}
	case model.KindNamespace:
		return namespaces()
	case model.KindVirtualService:
		return []string{"v1", "v2", "d1", "d2"} // d are delegates
	case model.KindServiceEntry, model.KindWorkloadEntry:
		return []string{"e1", "e2"}
	}
	return []string{"x", "y"}
}

// weights say how often a kind is edited.
func weightedKinds() []model.Kind {
	var out []model.Kind
	for k, n := range map[model.Kind]int{
		model.KindService: 4, model.KindEndpointSlice: 4, model.KindPod: 4, model.KindVirtualService: 6, model.KindDestinationRule: 5,
		model.KindServiceEntry: 3, model.KindWorkloadEntry: 2, model.KindSidecar: 3, model.KindPeerAuthentication: 2,
		model.KindAuthorizationPolicy: 1, model.KindTelemetry: 1, model.KindNamespace: 1, model.KindNode: 1,
	} {
		for range n {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// often and seldom decide whether an optional part is there.
func often(t *rapid.T, label string) bool  { return rapid.IntRange(0, 3).Draw(t, label) > 0 }
func seldom(t *rapid.T, label string) bool { return rapid.IntRange(0, 4).Draw(t, label) == 0 }

// drawEdit draws a change of one object.
func drawEdit(t *rapid.T) edit {
	kind := rapid.SampledFrom(weightedKinds()).Draw(t, "kind")
	key := model.ObjectKey{Kind: kind, Name: pick(t, "name", names(kind)...)}
	if kind != model.KindNode && kind != model.KindNamespace {
		key.Namespace = pick(t, "namespace", namespaces()...)
	}
	if policyKind(kind) && seldom(t, "for the mesh") {
		key.Namespace = rootNamespace
	}
	if rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
		return edit{key: key}
	}
	return edit{key, drawObject(t, key)}
}

const rootNamespace = "istio-system"

func policyKind(k model.Kind) bool {
	return k == model.KindPeerAuthentication || k == model.KindAuthorizationPolicy || k == model.KindTelemetry || k == model.KindSidecar ||
		k == model.KindDestinationRule
}

// drawObject draws the manifest of the object called key.
func drawObject(t *rapid.T, key model.ObjectKey) tree {
	draw := map[model.Kind]func(*rapid.T, model.ObjectKey) tree{
		model.KindService: drawService, model.KindEndpointSlice: drawSlice, model.KindPod: drawPod, model.KindNode: drawNode,
		model.KindNamespace: drawNamespace, model.KindServiceEntry: drawServiceEntry, model.KindWorkloadEntry: drawWorkloadEntry,
		model.KindVirtualService: drawVirtualService, model.KindDestinationRule: drawDestinationRule, model.KindSidecar: drawSidecar,
		model.KindPeerAuthentication: drawPeerAuthentication, model.KindAuthorizationPolicy: drawAuthorization, model.KindTelemetry: drawTelemetry,
	}
	o := draw[key.Kind](t, key)
	md, _ := o["metadata"].(tree)
	if md == nil {
		md = tree{}
	}
	md["name"] = key.Name
	if key.Namespace != "" {
		md["namespace"] = key.Namespace
	}
	if md["creationTimestamp"] == nil {
		md["creationTimestamp"] = fmt.Sprintf("2026-01-01T00:00:0%dZ", rapid.IntRange(1, 3).Draw(t, "age"))
	}
	o["metadata"], o["kind"], o["apiVersion"] = md, string(key.Kind), apiVersion(key.Kind)
	return o
}

func apiVersion(k model.Kind) string {
	switch k {
	case model.KindService, model.KindPod, model.KindNode, model.KindNamespace:
		return "v1"
	case model.KindEndpointSlice:
		return "discovery.k8s.io/v1"
	case model.KindPeerAuthentication, model.KindAuthorizationPolicy:
		return "security.istio.io/v1"
	case model.KindTelemetry:
		return "telemetry.istio.io/v1"
	}
	return "networking.istio.io/v1"
}

// event decodes an edit as the directory source does.
func (e edit) event() (model.Event, error) {
	if e.manifest == nil {
		return model.Event{Key: e.key}, nil
	}
	text, err := json.Marshal(e.manifest)
	if err != nil {
		return model.Event{}, fmt.Errorf("%s: %w", e.key, err)
	}
	objects, problems := file.NewDecoder(0, validate.Object).Decode("drawn.yaml", text)
	switch {
	case len(problems) > 0:
		return model.Event{}, fmt.Errorf("%s is drawn wrong: %v\n%s", e.key, problems, text)
	case len(objects) == 0: // a pod that has ended, which no source delivers
		return model.Event{Key: e.key}, nil
	}
	return model.Event{Key: e.key, Object: objects[0]}, nil
}

// drawEdits draws the edits of one step; the last one of an object counts.
func drawEdits(t *rapid.T, least, most int) []edit {
	return rapid.SliceOfN(rapid.Custom(drawEdit), least, most).Draw(t, "edits")
}

// meshFragments are parts of a mesh configuration, each on top of those before.
func meshFragments() []string {
	return []string{
		"accessLogFile: /dev/stdout", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "trustDomain: other.example",
		"trustDomainAliases: [old.example]", "enableAutoMtls: false", "defaultServiceExportTo: ['.']",
		"defaultVirtualServiceExportTo: ['.']", "defaultDestinationRuleExportTo: ['.']",
		"localityLbSetting: {failover: [{from: eu, to: us}]}", "localityLbSetting: {failoverPriority: [app, version]}",
		"protocolDetectionTimeout: 3s", "connectTimeout: 4s", "tcpKeepalive: {time: 10s, interval: 5s}", "h2UpgradePolicy: UPGRADE",
		"outboundClusterStatName: '%SERVICE_FQDN%'", "dnsRefreshRate: 7s", "defaultConfig: {proxyMetadata: {A: b}}",
		"defaultConfig: {holdApplicationUntilProxyStarts: true, concurrency: 3}", "meshMTLS: {minProtocolVersion: TLSV1_3}",
		"defaultHttpRetryPolicy: {attempts: 1}", "proxyHttpPort: 15080", "inboundClusterStatName: 'in_%SERVICE%'",
	}
}

// drawMesh draws a mesh configuration as YAML texts.
func drawMesh(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(meshFragments()), 0, 4, rapid.ID[string]).Draw(t, "mesh")
}
