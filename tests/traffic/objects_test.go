package traffic

import (
	"fmt"
	"strings"
)

// object is a manifest in the scenarios' namespace; spec is YAML, indented by two.
func object(version, kind, name, spec string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec:\n%s\n", version, kind, name, namespace, spec)
}

// networking is an object of the API group networking.istio.io.
func networking(kind, name, spec string) string {
	return object("networking.istio.io/v1", kind, name, spec)
}

// security is an object of the API group security.istio.io.
func security(kind, name, spec string) string {
	return object("security.istio.io/v1", kind, name, spec)
}

// at is an endpoint: a backend, labelled with its name as version, and more fields.
func at(backend string, more ...string) string {
	return fmt.Sprintf("{%s}", strings.Join(append([]string{
		"address: 127.0.0.1", fmt.Sprintf("ports: {http: ${%s}}", backend), fmt.Sprintf("labels: {version: %s}", backend),
	}, more...), ", "))
}

// service is a ServiceEntry of a host with these endpoints.
func service(host string, endpoints ...string) string {
	name := strings.ReplaceAll(host, "*", "any")
	return networking("ServiceEntry", name, fmt.Sprintf("  hosts: ['%s']\n  resolution: STATIC\n"+
		"  ports: [{number: ${http}, name: http, protocol: HTTP}]\n  endpoints: [%s]", host, strings.Join(endpoints, ", ")))
}

// own is the service of the scenario's host with backends as endpoints.
func own(backends ...string) string {
	var endpoints []string
	for _, b := range backends {
		endpoints = append(endpoints, at(b))
	}
	return service("${host}", endpoints...)
}

// routed is a VirtualService of the scenario's host; http is the YAML of its routes, indented by two.
func routed(http string) string {
	return networking("VirtualService", "${name}", "  hosts: ['${host}']\n  http:\n"+http)
}

// rule is a DestinationRule of the scenario's host.
func rule(policy string) string {
	return networking("DestinationRule", "${name}", "  host: '${host}'\n  trafficPolicy:\n"+policy)
}

// subsets is a DestinationRule that makes each backend of the scenario's host a subset.
func subsets(names ...string) string {
	spec := "  host: '${host}'\n  subsets:\n"
	for _, n := range names {
		spec += fmt.Sprintf("  - {name: %[1]s, labels: {version: %[1]s}}\n", n)
	}
	return networking("DestinationRule", "${name}", spec)
}

// to is the route destination of a subset of the scenario's host, with more fields beside.
func to(subset string, more ...string) string {
	return "{" + strings.Join(append([]string{"destination: {host: '${host}', subset: " + subset + "}"}, more...), ", ") + "}"
}
