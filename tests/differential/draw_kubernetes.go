package differential

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// index is an object's number among those of its kind, and its namespace's, for addresses that no other has.
func index(key model.ObjectKey) (namespace, name int) {
	return slices.Index(namespaces(), key.Namespace) + 1, slices.Index(names(key.Kind), key.Name) + 1
}

func podIP(key model.ObjectKey) string {
	ns, n := index(key)
	return fmt.Sprintf("10.1.%d.%d", ns, n)
}

func drawExportTo(t *rapid.T) []any {
	return pick(t, "exportTo", nil, nil, nil, []any{"."}, []any{"*"}, []any{"a"}, []any{"b"})
}

// put sets a field if the value is there.
func put[T any](into tree, field string, list []T) {
	if len(list) > 0 {
		into[field] = list
	}
}

func drawSelector(t *rapid.T) tree {
	return pick(t, "selector", tree{"app": "one"}, tree{"app": "one"}, tree{"app": "two"}, tree{"app": "one", "version": "v1"})
}

func drawService(t *rapid.T, key model.ObjectKey) tree {
	ns, n := index(key)
	annotations := tree{}
	if e := pick(t, "exportTo", "", "", "", ".", "~", "a", "b"); e != "" {
		annotations["networking.istio.io/exportTo"] = e
	}
	if d := pick(t, "distribution", "", "", "PreferClose"); d != "" {
		annotations["networking.istio.io/traffic-distribution"] = d
	}
	spec := tree{"selector": drawSelector(t), "ports": drawServicePorts(t), "clusterIP": fmt.Sprintf("10.96.%d.%d", ns, n)}
	switch rapid.IntRange(0, 7).Draw(t, "type") {
	case 0:
		spec["clusterIP"] = "None"
	case 1:
		spec = tree{"type": "ExternalName", "externalName": pick(t, "external", "s1.b.svc.cluster.local", "www.example.com"), "ports": drawServicePorts(t)}
	}
	return tree{"metadata": tree{"annotations": annotations}, "spec": spec}
}

func drawServicePorts(t *rapid.T) []any {
	pool := []tree{
		{"name": "http", "port": 80, "targetPort": 8080},
		{"name": "http", "port": 80, "targetPort": "web"},
		{"name": "grpc-x", "port": 81, "targetPort": 8081},
		{"name": "tcp-y", "port": 82, "targetPort": 8082},
		{"name": "auto", "port": 83, "targetPort": 8083},
		{"name": "https", "port": 443, "targetPort": 8443},
		{"name": "odd", "port": 84, "targetPort": 8080, "appProtocol": "http"},
	}
	drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 1, 3, func(p tree) string { return p["name"].(string) }).Draw(t, "ports")
	out := make([]any, len(drawn))
	for i, p := range drawn {
		port := tree{"protocol": "TCP"}
		for k, v := range p {
			port[k] = v
		}
		out[i] = port
	}
	return out
}

func drawSlice(t *rapid.T, key model.ObjectKey) tree {
	var endpoints []any
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(names(model.KindPod)), 0, 3, rapid.ID[string]).Draw(t, "pods") {
		pod := model.ObjectKey{Kind: model.KindPod, Namespace: key.Namespace, Name: p}
		e := tree{"addresses": []any{podIP(pod)}, "conditions": pick(
			t, "conditions", tree{"ready": true}, tree{"ready": true}, tree{"ready": false},
			tree{"ready": false, "serving": true, "terminating": true}, tree{},
		)}
		if often(t, "has a pod") {
			e["targetRef"] = tree{"kind": "Pod", "name": p, "namespace": key.Namespace}
		}
		if n := pick(t, "node", "", "", "n1", "n2"); n != "" {
			e["nodeName"] = n
		}
		if seldom(t, "has a hostname") {
			e["hostname"] = p
		}
		endpoints = append(endpoints, e)
	}
	out := tree{
		"metadata":    tree{"labels": tree{"kubernetes.io/service-name": key.Name[:2]}},
		"addressType": "IPv4", "endpoints": endpoints,
		"ports": []any{
			tree{"name": "http", "port": 8080, "protocol": "TCP"},
			tree{"name": "grpc-x", "port": 8081, "protocol": "TCP"},
			tree{"name": "tcp-y", "port": 8082, "protocol": "TCP"},
			tree{"name": "auto", "port": 8083, "protocol": "TCP"},
		}[:rapid.IntRange(1, 4).Draw(t, "ports")],
	}
	if endpoints == nil {
		out["endpoints"] = []any{}
	}
	return out
}

func drawLabels(t *rapid.T) tree {
	out := tree{"app": pick(t, "app", "one", "one", "two")}
	for _, l := range [][]string{
		{"version", "", "v1", "v2"},
		{"pod-template-hash", "", "h1", "h2"},
		{"security.istio.io/tlsMode", "istio", "istio", ""},
		{"topology.istio.io/subzone", "", "", "s"},
		{"service.istio.io/canonical-name", "", "", "canon"},
	} {
		if v := pick(t, l[0], l[1:]...); v != "" {
			out[l[0]] = v
		}
	}
	return out
}

func drawPod(t *rapid.T, key model.ObjectKey) tree {
	ready := pick(t, "ready", "True", "True", "True", "False")
	spec := tree{
		"serviceAccountName": pick(t, "account", "sa1", "sa2"),
		"containers":         []any{tree{"name": "app", "image": "app:1", "ports": []any{tree{"name": "web", "containerPort": pick(t, "web", 8080, 9090)}}}},
	}
	if n := pick(t, "node", "", "n1", "n1", "n2"); n != "" {
		spec["nodeName"] = n
	}
	status := tree{"phase": pick(t, "phase", "Running", "Running", "Running", "Failed", "Pending")}
	if often(t, "has an address") {
		status["podIP"], status["podIPs"] = podIP(key), []any{tree{"ip": podIP(key)}}
	}
	status["conditions"] = []any{tree{"type": "Ready", "status": ready}}
	return tree{"metadata": tree{"labels": drawLabels(t)}, "spec": spec, "status": status}
}

func drawNode(t *rapid.T, _ model.ObjectKey) tree {
	labels := tree{}
	if r := pick(t, "region", "", "eu", "us"); r != "" {
		labels["topology.kubernetes.io/region"] = r
		labels["topology.kubernetes.io/zone"] = r + "-" + pick(t, "zone", "1", "2")
	}
	return tree{"metadata": tree{"labels": labels}}
}

func drawNamespace(t *rapid.T, _ model.ObjectKey) tree {
	labels := tree{}
	if n := pick(t, "network", "", "", "", "net1"); n != "" {
		labels["topology.istio.io/network"] = n
	}
	if seldom(t, "labelled") {
		labels["team"] = "t"
	}
	annotations := tree{}
	if d := pick(t, "distribution", "", "", "", "PreferClose"); d != "" {
		annotations["networking.istio.io/traffic-distribution"] = d
	}
	return tree{"metadata": tree{"labels": labels, "annotations": annotations}}
}
