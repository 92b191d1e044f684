package simulate

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// objects returns the objects behind a resource that say something about all of it.
func (w *walker) objects(s Stage, name string) []string {
	return w.objectsOf(s, name, "Sidecar", "EnvoyFilter", "Gateway")
}

// objectsOf returns the objects of the kinds behind a resource.
func (w *walker) objectsOf(s Stage, name string, kinds ...string) []string {
	if w.r.Objects == nil {
		return nil
	}
	var out []string
	for _, o := range w.r.Objects(s, name) {
		if kind, _, _ := strings.Cut(o, "/"); slices.Contains(kinds, kind) {
			out = append(out, o)
		}
	}
	return out
}

// configKey is the key, in metadata of "istio", of the object that a part of a resource was made from.
const configKey = "config"

// configObject reads "/apis/<group>/<version>/namespaces/<namespace>/<kind>/<name>".
func configObject(m *corev3.Metadata) []string {
	parts := strings.Split(m.GetFilterMetadata()["istio"].GetFields()[configKey].GetStringValue(), "/")
	if len(parts) != 8 {
		return nil
	}
	kind := map[string]string{
		"virtual-service": "VirtualService", "destination-rule": "DestinationRule", "service-entry": "ServiceEntry",
	}[parts[6]]
	if kind == "" {
		kind = parts[6]
	}
	return []string{kind + "/" + parts[5] + "/" + parts[7]}
}

func routeObjects(r *routev3.Route) []string { return configObject(r.GetMetadata()) }

// chainObjects names what decided a filter chain: the rule that it was made from, for inbound ones the policies about
// TLS.
func (w *walker) chainObjects(c *listenerv3.FilterChain) []string {
	out := configObject(c.GetMetadata())
	if w.q.Inbound {
		out = append(out, w.objectsOf(StageListener, w.listener.GetName(), "PeerAuthentication")...)
	}
	return out
}

// hostObjects names the services of a virtual host: of the route configuration's those that its domains begin with.
func (w *walker) hostObjects(config string, v *routev3.VirtualHost) []string {
	var out []string
	for _, o := range w.objectsOf(StageRoute, config, "Service") {
		parts := strings.Split(o, "/")
		if len(parts) == 3 && slices.ContainsFunc(v.GetDomains(), func(d string) bool { return strings.HasPrefix(d, parts[2]+"."+parts[1]+".svc") }) {
			out = append(out, o)
		}
	}
	return out
}

// extensionObject names the object of a filter that is delivered apart.
func extensionObject(filter string) []string {
	rest, ok := strings.CutPrefix(filter, "extensions.istio.io/trafficextension/")
	if !ok {
		return nil
	}
	kind := "TrafficExtension"
	if name, wasm := strings.CutSuffix(rest, "~istio-translated-wasmplugin"); wasm {
		kind, rest = "WasmPlugin", name
	}
	return []string{kind + "/" + strings.Replace(rest, ".", "/", 1)}
}

// clusterObjects names what made a cluster.
func (w *walker) clusterObjects(name string, m *corev3.Metadata) []string {
	out := w.objectsOf(StageCluster, name, "Service", "ServiceEntry", "DestinationRule", "EnvoyFilter")
	for _, o := range configObject(m) {
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}
