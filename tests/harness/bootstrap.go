package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"
)

// XDSCluster is the name of the bootstrap cluster that leads to the control plane, as in Istio's bootstrap.
const XDSCluster = "xds-grpc"

// XDSProtocol is the variant of the ADS protocol that an Envoy speaks.
type XDSProtocol string

// The two variants, as the bootstrap names them.
const (
	DeltaXDS XDSProtocol = "DELTA_GRPC" // incremental
	SotWXDS  XDSProtocol = "GRPC"       // state of the world
)

// bootstrap makes an Envoy's bootstrap out of the options.
func bootstrap(opts EnvoyOptions) ([]byte, error) {
	node := map[string]any{"id": opts.NodeID, "cluster": opts.NodeCluster}
	if len(opts.Metadata) > 0 {
		node["metadata"] = opts.Metadata
	}
	b := map[string]any{
		"node": node,
		// The kernel chooses the port; Envoy writes it into the file of --admin-address-path.
		"admin": map[string]any{"address": socketAddress("127.0.0.1", 0)},
	}
	// Envoy's own limit of 100 refuses ordinary regular expressions, and with one all routes of its port.
	b["layered_runtime"] = map[string]any{"layers": []any{map[string]any{
		"name": "static", "static_layer": map[string]any{"re2.max_program_size.error_level": 32768},
	}}}
	if opts.XDSAddress != "" {
		xds, err := dynamicResources(opts)
		if err != nil {
			return nil, err
		}
		b = merge(b, xds)
	}
	if opts.Bootstrap != "" {
		var extra map[string]any
		if err := yaml.UnmarshalStrict([]byte(opts.Bootstrap), &extra); err != nil {
			return nil, fmt.Errorf("reading the extra bootstrap: %w", err)
		}
		b = merge(b, extra)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap: %w", err)
	}
	return text, nil
}

// dynamicResources is the part of the bootstrap that leads to the control plane: clusters and listeners over ADS.
func dynamicResources(opts EnvoyOptions) (map[string]any, error) {
	host, portText, err := net.SplitHostPort(opts.XDSAddress)
	if err != nil {
		return nil, fmt.Errorf("reading the xDS address: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("reading the port of the xDS address %s: %w", opts.XDSAddress, err)
	}
	service := map[string]any{"envoy_grpc": map[string]any{"cluster_name": XDSCluster}}
	var headers []any
	for _, name := range slices.Sorted(maps.Keys(opts.XDSHeaders)) {
		headers = append(headers, map[string]any{"key": name, "value": opts.XDSHeaders[name]})
	}
	if headers != nil {
		service["initial_metadata"] = headers
	}
	ads := map[string]any{"ads": map[string]any{}, "resource_api_version": "V3"}
	return map[string]any{
		"dynamic_resources": map[string]any{
			"ads_config": map[string]any{
				"api_type": string(opts.XDSProtocol), "transport_api_version": "V3",
				"set_node_on_first_message_only": true, "grpc_services": []any{service},
			},
			"cds_config": ads, "lds_config": ads,
		},
		"static_resources": map[string]any{"clusters": []any{xdsCluster(host, port)}},
	}, nil
}

// xdsCluster is the control plane's cluster: HTTP/2 without TLS, with keepalives, so that a dead peer is noticed.
func xdsCluster(host string, port uint64) map[string]any {
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	http2 := map[string]any{"connection_keepalive": map[string]any{"interval": "30s", "timeout": "5s"}}
	return map[string]any{
		"name": XDSCluster, "type": "STATIC", "connect_timeout": "1s",
		"typed_extension_protocol_options": map[string]any{options: map[string]any{
			"@type":                "type.googleapis.com/" + options,
			"explicit_http_config": map[string]any{"http2_protocol_options": http2},
		}},
		"load_assignment": map[string]any{"cluster_name": XDSCluster, "endpoints": []any{map[string]any{
			"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": socketAddress(host, port)}}},
		}}},
	}
}

// socketAddress is an Envoy address.
func socketAddress(host string, port uint64) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": host, "port_value": port}}
}

// merge returns a with b merged in: objects key by key, lists appended, anything else replaced.
func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for key, value := range b {
		switch v := value.(type) {
		case map[string]any:
			if old, ok := out[key].(map[string]any); ok {
				value = merge(old, v)
			}
		case []any:
			if old, ok := out[key].([]any); ok {
				value = slices.Concat(old, v)
			}
		}
		out[key] = value
	}
	return out
}
