package differential

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func drawServiceEntry(t *rapid.T, _ model.ObjectKey) tree {
	ports := [][]any{
		{tree{"number": 80, "name": "http", "protocol": "HTTP"}},
		{tree{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}, tree{"number": 443, "name": "tls", "protocol": "TLS"}},
		{tree{"number": 82, "name": "tcp", "protocol": "TCP"}},
	}
	hosts := pick(t, "hosts", []any{"ext.example"}, []any{"api.ext.example"}, []any{"ext.example", "api.ext.example"}, []any{"*.ext.example"})
	if len(hosts) > 1 {
		ports = ports[:2] // of TCP nobody can tell which host is meant
	}
	spec := tree{"hosts": hosts, "ports": pick(t, "ports", ports...), "location": pick(t, "location", "MESH_EXTERNAL", "MESH_INTERNAL")}
	put(spec, "exportTo", drawExportTo(t))
	resolution := pick(t, "resolution", "NONE", "STATIC", "STATIC", "DNS", "DNS_ROUND_ROBIN")
	if hosts[0] == "*.ext.example" && resolution != "STATIC" {
		resolution = "NONE"
	}
	spec["resolution"] = resolution
	if often(t, "with addresses") {
		spec["addresses"] = pick(t, "addresses", []any{"203.0.113.1"}, []any{"203.0.113.2", "203.0.113.3"})
	}
	switch {
	case resolution == "NONE":
	case resolution == "DNS_ROUND_ROBIN":
		if often(t, "with an endpoint") {
			spec["endpoints"] = []any{tree{"address": "one.dns.example"}}
		}
	case resolution == "DNS":
		spec["endpoints"] = []any{tree{"address": "one.dns.example"}, tree{"address": "two.dns.example", "weight": 3}}
	case seldom(t, "with a selector"):
		spec["workloadSelector"] = tree{"labels": drawSelector(t)}
	default:
		spec["endpoints"] = []any{tree{"address": pick(t, "address", "192.0.2.1", "192.0.2.2"), "labels": tree{"version": "v1"}}}
	}
	return tree{"spec": spec}
}

func drawWorkloadEntry(t *rapid.T, key model.ObjectKey) tree {
	_, n := index(key)
	spec := tree{
		"address": fmt.Sprintf("10.2.0.%d", n+rapid.IntRange(0, 1).Draw(t, "address")), "labels": drawLabels(t),
		"serviceAccount": pick(t, "account", "sa1", "vm"),
	}
	if seldom(t, "with ports") {
		spec["ports"] = tree{"http": 7070}
	}
	if l := pick(t, "locality", "", "", "eu/eu-1", "us"); l != "" {
		spec["locality"] = l
	}
	if w := pick(t, "weight", 0, 0, 5); w > 0 {
		spec["weight"] = w
	}
	return tree{"spec": spec}
}

func drawSidecar(t *rapid.T, key model.ObjectKey) tree {
	spec := tree{}
	hosts := func() []any {
		return pick(
			t, "egress hosts", []any{"./*"}, []any{"*/*"}, []any{"a/*"}, []any{"~/*"}, []any{"./s1." + key.Namespace + ".svc.cluster.local", "b/*"},
			[]any{"*/ext.example"},
		)
	}
	var egress []any
	if seldom(t, "own listener") {
		egress = append(egress, tree{
			"port": tree{"number": pick(t, "egress port", 9080, 9081), "protocol": pick(t, "egress protocol", "HTTP", "TCP"), "name": "own"}, "hosts": hosts(),
		})
	}
	spec["egress"] = append(egress, tree{"hosts": hosts()})
	if m := pick(t, "outbound", "", "", "REGISTRY_ONLY", "ALLOW_ANY"); m != "" {
		spec["outboundTrafficPolicy"] = tree{"mode": m}
	}
	if key.Namespace == rootNamespace {
		return tree{"spec": spec}
	}
	if often(t, "for some workloads") {
		spec["workloadSelector"] = tree{"labels": drawSelector(t)}
		if seldom(t, "with ingress") {
			spec["ingress"] = []any{tree{
				"port":            tree{"number": pick(t, "ingress port", 8080, 9999), "protocol": pick(t, "ingress protocol", "HTTP", "TCP"), "name": "in"},
				"defaultEndpoint": "127.0.0.1:7777",
			}}
		}
	}
	return tree{"spec": spec}
}

func drawPeerAuthentication(t *rapid.T, key model.ObjectKey) tree {
	modes := []string{"STRICT", "PERMISSIVE", "DISABLE", "UNSET"}
	spec := tree{"mtls": tree{"mode": pick(t, "mode", modes...)}}
	if key.Namespace != rootNamespace && often(t, "for some workloads") {
		spec["selector"] = tree{"matchLabels": drawSelector(t)}
		if seldom(t, "by port") {
			spec["portLevelMtls"] = tree{"8080": tree{"mode": pick(t, "port mode", modes...)}}
		}
	}
	return tree{"spec": spec}
}

func drawAuthorization(t *rapid.T, _ model.ObjectKey) tree {
	spec := tree{"action": pick(t, "action", "ALLOW", "DENY")}
	if often(t, "for some workloads") {
		spec["selector"] = tree{"matchLabels": drawSelector(t)}
	}
	spec["rules"] = []any{tree{
		"from": []any{tree{"source": pick(t, "source", tree{"namespaces": []any{"a"}}, tree{"principals": []any{"cluster.local/ns/a/sa/sa1"}})}},
		"to":   []any{tree{"operation": pick(t, "operation", tree{"ports": []any{"8080"}}, tree{"methods": []any{"GET"}, "paths": []any{"/a*"}})}},
	}}
	return tree{"spec": spec}
}

func drawTelemetry(t *rapid.T, key model.ObjectKey) tree {
	spec := tree{"accessLogging": []any{tree{"providers": []any{tree{"name": "envoy"}}, "disabled": rapid.Bool().Draw(t, "disabled")}}}
	if key.Namespace != rootNamespace && often(t, "for some workloads") {
		spec["selector"] = tree{"matchLabels": drawSelector(t)}
	}
	return tree{"spec": spec}
}
