package differential

import (
	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func hosts() []string {
	return []string{
		"s1", "s2", "s3", "s1.a.svc.cluster.local", "s2.a.svc.cluster.local", "s1.b.svc.cluster.local", "ext.example", "api.ext.example",
	}
}

func drawVirtualService(t *rapid.T, key model.ObjectKey) tree {
	spec := tree{}
	put(spec, "exportTo", drawExportTo(t))
	if key.Name[0] == 'd' {
		spec["http"] = drawRoutes(t, false)
		return tree{"spec": spec}
	}
	spec["hosts"] = rapid.SliceOfNDistinct(rapid.SampledFrom(hosts()), 1, 2, rapid.ID[string]).Draw(t, "hosts")
	if seldom(t, "for a wildcard") {
		spec["hosts"] = []string{"*.ext.example"}
	}
	put(spec, "gateways", pick(t, "gateways", nil, nil, nil, []any{"mesh"}, []any{"mesh", "a/gw"}, []any{"a/gw"}))
	switch rapid.IntRange(0, 7).Draw(t, "protocol") {
	case 0:
		spec["tcp"] = []any{tree{"match": []any{tree{"port": pick(t, "port", 82, 83)}}, "route": drawTargets(t)}}
	case 1:
		spec["tls"] = []any{tree{"match": []any{tree{"port": 443, "sniHosts": spec["hosts"]}}, "route": drawTargets(t)}}
	default:
		spec["http"] = drawRoutes(t, true)
	}
	return tree{"spec": spec}
}

func drawRoutes(t *rapid.T, root bool) []any {
	var out []any
	for range rapid.IntRange(1, 3).Draw(t, "routes") {
		r := tree{}
		if n := pick(t, "name", "", "", "n1", "n2"); n != "" {
			r["name"] = n
		}
		put(r, "match", drawMatches(t))
		switch a := rapid.IntRange(0, 9).Draw(t, "action"); {
		case a == 0:
			r["redirect"] = pick(t, "redirect", tree{"uri": "/new"}, tree{"authority": "other.example", "redirectCode": 302})
		case a == 1:
			r["directResponse"] = tree{"status": 503, "body": tree{"string": pick(t, "body", "no", "later")}}
		case a < 5 && root:
			r["delegate"] = tree{"name": pick(t, "delegate", "d1", "d2"), "namespace": pick(t, "delegate's namespace", namespaces()...)}
		default:
			r["route"] = drawTargets(t)
			decorate(t, r)
		}
		out = append(out, r)
	}
	return out
}

func drawMatches(t *rapid.T) []any {
	var out []any
	for range rapid.IntRange(0, 2).Draw(t, "matches") {
		m := tree{}
		if often(t, "by path") {
			m["uri"] = pick(t, "uri", tree{"prefix": "/a"}, tree{"prefix": "/a/b"}, tree{"exact": "/c"}, tree{"regex": "/d[0-9]+"})
		}
		if seldom(t, "by header") {
			m["headers"] = tree{"x-user": pick(t, "header", tree{"exact": "me"}, tree{"prefix": "m"}, tree{"regex": "m.*"})}
		}
		if seldom(t, "by label") {
			m["sourceLabels"] = pick(t, "source", tree{"app": "one"}, tree{"app": "two"}, tree{"version": "v1"})
		}
		if seldom(t, "by namespace") {
			m["sourceNamespace"] = pick(t, "source namespace", namespaces()...)
		}
		if seldom(t, "by port") {
			m["port"] = pick(t, "port", 80, 81)
		}
		if seldom(t, "by query") {
			m["queryParams"] = tree{"q": tree{"exact": "1"}}
		}
		if len(m) == 0 {
			m["uri"] = tree{"prefix": "/z"}
		}
		out = append(out, m)
	}
	return out
}

func drawTarget(t *rapid.T) tree {
	d := tree{"host": pick(t, "host", hosts()...)}
	if often(t, "with a port") {
		d["port"] = tree{"number": pick(t, "port", 80, 80, 81, 82)}
	}
	if s := pick(t, "subset", "", "", "v1", "v2"); s != "" {
		d["subset"] = s
	}
	return d
}

func drawTargets(t *rapid.T) []any {
	if often(t, "single") {
		return []any{tree{"destination": drawTarget(t)}}
	}
	w := rapid.IntRange(1, 99).Draw(t, "weight")
	return []any{tree{"destination": drawTarget(t), "weight": w}, tree{"destination": drawTarget(t), "weight": 100 - w}}
}

// decorate adds what goes with a route to destinations.
func decorate(t *rapid.T, r tree) {
	for _, part := range []string{"timeout", "retries", "rewrite", "mirror", "fault", "headers", "corsPolicy"} {
		if rapid.IntRange(0, 7).Draw(t, part) > 0 {
			continue
		}
		switch part {
		case "timeout":
			r[part] = pick(t, part, "1s", "2s")
		case "retries":
			r[part] = pick(t, part, tree{"attempts": 0}, tree{"attempts": 2, "retryOn": "5xx"})
		case "rewrite":
			r[part] = pick(t, part, tree{"uri": "/r"}, tree{"authority": "r.example"})
		case "mirror":
			r[part] = drawTarget(t)
		case "fault":
			r[part] = tree{"abort": tree{"httpStatus": 418, "percentage": tree{"value": 10}}}
		case "headers":
			r[part] = tree{"request": tree{"set": tree{"x-via": pick(t, part, "1", "2")}}}
		case "corsPolicy":
			r[part] = tree{"allowOrigins": []any{tree{"exact": "https://o.example"}}, "allowMethods": []any{"GET"}}
		}
	}
}

func drawDestinationRule(t *rapid.T, _ model.ObjectKey) tree {
	spec := tree{"host": pick(t, "host", append(hosts(), "*.a.svc.cluster.local", "*.ext.example")...)}
	if often(t, "with a policy") {
		spec["trafficPolicy"] = drawPolicy(t, true)
	}
	if seldom(t, "for some workloads") {
		spec["workloadSelector"] = tree{"matchLabels": drawSelector(t)}
	} else {
		put(spec, "exportTo", drawExportTo(t))
	}
	var subsets []any
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"v1", "v2"}), 0, 2, rapid.ID[string]).Draw(t, "subsets") {
		s := tree{"name": n, "labels": tree{"version": pick(t, "version", "v1", "v2")}}
		if seldom(t, "with its own policy") {
			s["trafficPolicy"] = drawPolicy(t, false)
		}
		subsets = append(subsets, s)
	}
	put(spec, "subsets", subsets)
	return tree{"spec": spec}
}

func drawPolicy(t *rapid.T, ports bool) tree {
	p := tree{}
	for _, part := range policyParts() {
		if rapid.IntRange(0, 2).Draw(t, part.field) == 0 {
			p[part.field] = pick(t, part.field, part.values...)
		}
	}
	if ports && seldom(t, "by port") {
		p["portLevelSettings"] = []any{tree{"port": tree{"number": 80}, "loadBalancer": tree{"simple": "RANDOM"}}}
	}
	if len(p) == 0 {
		p["loadBalancer"] = tree{"simple": "RANDOM"}
	}
	return p
}

// choice is a field with what it may hold.
type choice struct {
	field  string
	values []tree
}

func policyParts() []choice {
	return []choice{
		{"loadBalancer", []tree{
			{"simple": "ROUND_ROBIN"},
			{"simple": "LEAST_REQUEST"},
			{"consistentHash": tree{"httpHeaderName": "x-user"}},
			{"simple": "RANDOM", "localityLbSetting": tree{"failoverPriority": []any{"version"}}},
		}},
		{"tls", []tree{{"mode": "ISTIO_MUTUAL"}, {"mode": "DISABLE"}, {"mode": "SIMPLE", "sni": "tls.example"}}},
		{"connectionPool", []tree{{"tcp": tree{"maxConnections": 7}}, {"http": tree{"http2MaxRequests": 9, "h2UpgradePolicy": "UPGRADE"}}}},
		{"outlierDetection", []tree{
			{"consecutive5xxErrors": 3, "interval": "5s"}, {"splitExternalLocalOriginErrors": true, "consecutiveGatewayErrors": 2},
		}},
	}
}
