package filter

import (
	"strings"

	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
)

// unknown is what a label says whose value is not known.
const unknown = "unknown"

// The label that says what is known of the peer's identity.
const (
	mutualTLS = "mutual_tls"
	noTLS     = "none"
)

// workloadFields are the parts of a workload's name in metrics, in the order in which they travel in headers.
func workloadFields() []string {
	return []string{"workload", "namespace", "app", "version", "service", "revision", "cluster"}
}

// labelOf is a workload's label in metrics without its side.
func labelOf(field string) string {
	switch field {
	case "namespace":
		return "workload_namespace"
	case "service", "revision":
		return "canonical_" + field
	}
	return field
}

// cel writes a substitution by an expression.
func cel(expression string) string { return "%CEL(" + expression + ")%" }

// orElse is the value of a field if it is there, and else another expression.
func orElse(field, other string) string { return "has(" + field + ") ? " + field + " : " + other }

const nodeMetadata = "xds.node.metadata"

// ownField is an expression for a part of the proxy's own workload's name, from the node of its bootstrap: what a
// listener says of it must be the same for all proxies that share the listener.
func ownField(field string) string {
	const none = "'" + unknown + "'"
	name := orElse(nodeMetadata+".WORKLOAD_NAME", none)
	switch field {
	case "workload":
		return name
	case "namespace":
		return orElse(nodeMetadata+".NAMESPACE", none)
	case "cluster":
		return orElse(nodeMetadata+".CLUSTER_ID", none)
	case "app", "version":
		return nodeLabel(none, field)
	case "service":
		return nodeLabel(name, "service.istio.io/canonical-name", "app.kubernetes.io/name", "app")
	}
	return nodeLabel("'latest'", "service.istio.io/canonical-revision", "app.kubernetes.io/version", "version")
}

// nodeLabel is the first of the workload's labels that is there.
func nodeLabel(other string, keys ...string) string {
	const labels = nodeMetadata + ".LABELS"
	var b strings.Builder
	for _, k := range keys {
		b.WriteString("has(" + labels + ") && '" + k + "' in " + labels + " ? " + labels + "['" + k + "'] : ")
	}
	return b.String() + other
}

// standardTags are the labels of standard metrics (translation-l7 §10.2).
func standardTags(id metricsID) []*statsv3.Config_Tag {
	var out []*statsv3.Config_Tag
	add := func(name, value string) { out = append(out, &statsv3.Config_Tag{Name: name, ValueFormat: value}) }
	reporter, source, destination := "source", ownTag, peerTag(id)
	if id.d == Inbound {
		reporter, source, destination = "destination", destination, source
	}
	add("reporter", reporter)
	for _, f := range workloadFields() {
		add("source_"+labelOf(f), source(f))
	}
	for _, f := range workloadFields() {
		add("destination_"+labelOf(f), destination(f))
	}
	from, to := principals(id)
	add("source_principal", from)
	add("destination_principal", to)
	addService(add, id)
	if id.tcp {
		add("request_protocol", "tcp")
	} else {
		add("request_protocol", cel("'content-type' in request.headers && request.headers['content-type'].startsWith('application/grpc') ? 'grpc' : 'http'"))
		add("response_code", "%RESPONSE_CODE%")
		add("grpc_response_status", "%GRPC_STATUS_NUMBER%")
	}
	add("response_flags", "%RESPONSE_FLAGS%")
	add("connection_security_policy", security(id))
	return out
}

// addService adds the labels of the service, which the cluster's metadata names: where there is none, connections go
// where their callers wanted.
func addService(add func(name, value string), id metricsID) {
	const metadata = "xds.cluster_metadata.filter_metadata"
	service := func(field, other string) string {
		return cel("has(" + metadata + ".istio) && has(" + metadata + ".istio.services) ? " + metadata + ".istio.services[0]." + field + " : " + other)
	}
	host := "'" + unknown + "'"
	if id.d == Outbound && !id.tcp {
		host = "request.host"
	}
	add("destination_service", service("host", host))
	add("destination_service_name", service("name", orElse("xds.cluster_name", "'"+unknown+"'")))
	add("destination_service_namespace", service("namespace", "'"+unknown+"'"))
}

func security(id metricsID) string {
	switch {
	case id.d == Outbound:
		return unknown
	case id.peer == PeerUnknown:
		return cel("connection.mtls ? '" + mutualTLS + "' : '" + noTLS + "'")
	}
	return mutualTLS
}

// principals are the identities of the two ends.
func principals(id metricsID) (from, to string) {
	const none = "'" + unknown + "'"
	switch {
	case id.d == Outbound:
		return cel(orElse("upstream.uri_san_local_certificate", none)), cel(orElse("upstream.uri_san_peer_certificate", none))
	case id.peer == PeerTunnel:
		return "%FILTER_STATE(" + statePeerPrincipal + ":PLAIN)%", "%FILTER_STATE(" + stateLocalPrincipal + ":PLAIN)%"
	}
	return cel(orElse("connection.uri_san_peer_certificate", none)), cel(orElse("connection.uri_san_local_certificate", none))
}

func ownTag(field string) string { return ownState(field) }

// peerTag returns how the parts of the peer's workload's name are had: of requests from what was noted about their peer,
// of connections from the endpoint, or the peer's identity.
func peerTag(id metricsID) func(field string) string {
	switch {
	case !id.tcp && (id.d == Outbound || id.peer != PeerUnknown):
		return func(field string) string { return "%DYNAMIC_METADATA(" + peerNamespace + ":" + field + ")%" }
	case id.d == Outbound:
		return func(field string) string {
			if pattern := endpointPattern(field); pattern != "" {
				return cel("has(" + endpointMetadata + ".istio) ? re.extract(" + endpointWorkload + ", '" + pattern + "', '\\\\1') : '" + unknown + "'")
			}
			return unknown
		}
	}
	return func(field string) string {
		if field == "namespace" && id.peer == PeerMutual {
			const san = "connection.uri_san_peer_certificate"
			return cel("has(" + san + ") && " + san + ".matches('^spiffe://[^/]*/ns/') ? re.extract(" + san + ", '^spiffe://[^/]*/ns/([^/]*)', '\\\\1') : '" + unknown + "'")
		}
		return unknown
	}
}

const (
	endpointMetadata = "xds.upstream_host_metadata.filter_metadata"
	endpointWorkload = endpointMetadata + ".istio.workload"
)

// endpointPattern finds a part in the endpoint's name of its workload (package endpoint), "" for what it does not say.
func endpointPattern(field string) string {
	const part = "[^;]*;"
	switch field {
	case "workload":
		return "^([^;]*)"
	case "namespace":
		return "^" + part + "([^;]*)"
	case "service":
		return "^" + part + part + "([^;]*)"
	case "revision":
		return "^" + part + part + part + "([^;]*)"
	case "cluster":
		return "([^;]*)$"
	}
	return ""
}
