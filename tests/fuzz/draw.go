package fuzz

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
)

// depth bounds how deep messages nest; what is below stays empty.
const depth = 7

// drawn fills a message of the given type: any field may be there, with any value of its kind. The words for texts are
// those that mean something somewhere, right or wrong.
func drawn[M proto.Message](t *rapid.T, empty M) M {
	// Most objects are a user's who takes care: else hardly any would be right as a whole.
	d := drawing{t, rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "with care")}
	d.fill(empty.ProtoReflect(), depth)
	return empty
}

// drawing draws one object.
type drawing struct {
	*rapid.T
	care bool // no value is there that fits nothing
}

func (t drawing) fill(m protoreflect.Message, depth int) {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Duration":
		from := careful(t.care, [][2]int64{{1, 0}, {0, 5_000_000}, {30, 500_000_000}, {86400, 0}},
			[2]int64{0, 0}, [2]int64{0, 1}, [2]int64{315_576_000_000, 0}, [2]int64{-1, 0}, [2]int64{0, -1})
		d := rapid.SampledFrom(from).Draw(t.T, "duration")
		set(m, "seconds", protoreflect.ValueOfInt64(d[0]))
		set(m, "nanos", protoreflect.ValueOfInt32(int32(d[1])))
		return
	case "google.protobuf.Struct":
		t.patchValue(m)
		return
	}
	if depth == 0 {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// What makes an object select or match something has to be there often, or nothing comes of the rest.
		if !rapid.SampledFrom(presence(f)).Draw(t.T, string(f.Name())) {
			continue
		}
		t.fillField(m, f, depth)
	}
}

// patchValue draws what a patch of an EnvoyFilter adds or merges.
func (t drawing) patchValue(m protoreflect.Message) {
	into, ok := m.Interface().(*structpb.Struct)
	if !ok {
		return
	}
	text, err := yaml.YAMLToJSON([]byte(rapid.SampledFrom(fixture.PatchValues()).Draw(t.T, "value")))
	if err == nil {
		err = protojson.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func set(m protoreflect.Message, field protoreflect.Name, v protoreflect.Value) {
	m.Set(m.Descriptor().Fields().ByName(field), v)
}

func presence(f protoreflect.FieldDescriptor) []bool {
	switch f.Name() {
	case "host", "hosts", "http", "tcp", "tls", "route", "destination", "ports", "number", "protocol", "addresses", "endpoints", "address", "rules", "traffic_policy",
		"config_patches", "apply_to", "patch", "operation", "value":
		return []bool{true, true, true, true, false}
	}
	return []bool{true, false, false}
}

func (t drawing) fillField(m protoreflect.Message, f protoreflect.FieldDescriptor, depth int) {
	switch {
	case f.IsMap():
		values := m.Mutable(f).Map()
		for range rapid.IntRange(1, 2).Draw(t.T, "entries") {
			key := t.scalar(f.MapKey()).MapKey()
			if f.MapValue().Kind() != protoreflect.MessageKind {
				values.Set(key, t.scalar(f.MapValue()))
				continue
			}
			t.fill(values.Mutable(key).Message(), depth-1)
		}
	case f.IsList():
		list := m.Mutable(f).List()
		for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t.T, "elements") {
			if f.Kind() != protoreflect.MessageKind {
				list.Append(t.scalar(f))
				continue
			}
			t.fill(list.AppendMutable().Message(), depth-1)
		}
	case f.Kind() == protoreflect.MessageKind:
		t.fill(m.Mutable(f).Message(), depth-1)
	default:
		m.Set(f, t.scalar(f))
	}
}

// scalar draws a value; the kinds are those that Istio's types use.
func (t drawing) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t.T, "bool"))
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(rapid.IntRange(0, values.Len()-1).Draw(t.T, "enum")).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.SampledFrom(careful(t.care, fitting(string(f.Name()), string(f.Parent().Name())), odd()...)).Draw(t.T, "text"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(rapid.SampledFrom(careful(t.care, fitting(string(f.Name()), string(f.Parent().Name())), odd()...)).Draw(t.T, "bytes")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.SampledFrom(careful(t.care, []float64{0, 1, 50, 100, 0.0001, 33.3}, -1, 101, 1e300)).Draw(t.T, "number"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(rapid.SampledFrom(careful(t.care, []float32{0, 1, 50, 100, 0.0001}, -1, 1e30)).Draw(t.T, "number"))
	}
	n := rapid.SampledFrom(careful(t.care, numbers(f), 80, 0, 100, 65535, 65536, -1, 1<<31-1)).Draw(t.T, "number")
	switch f.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	default:
		return protoreflect.ValueOfInt64(n)
	}
}

// careful returns the values that fit, and for who takes no care also those that fit nowhere or at the edge.
func careful[V any](care bool, fit []V, odd ...V) []V {
	if care {
		return fit
	}
	return append(fit, odd...)
}

func odd() []string {
	return []string{"", "*", "a b", "ü", "%", "%REQ(x)%", "\x00", "\n", "((", "a{1000}", "/", "-1", "cart.shop.svc.cluster.local"}
}

func numbers(f protoreflect.FieldDescriptor) []int64 {
	switch f.Name() {
	case "weight":
		return []int64{1, 50, 100, 0}
	case "status", "http_status":
		return []int64{200, 503, 418}
	case "redirect_code":
		return []int64{301, 302, 307}
	case "port", "number", "target_port":
		return []int64{80, 9000, 7070, 8080}
	}
	return []int64{1, 2, 5, 100, 1024}
}

// fitting are words for a field.
func fitting(field, message string) []string {
	if message == "LabelsEntry" || message == "MatchLabelsEntry" || message == "SourceLabelsEntry" {
		return []string{"app", "version", "cart", "v1", "v2", "front", "topology.kubernetes.io/region", "r1"}
	}
	if message == "FilterMatch" || message == "SubFilterMatch" {
		return []string{"envoy.filters.network.http_connection_manager", "envoy.filters.network.tcp_proxy", "envoy.filters.http.router", "envoy.filters.http.fault"}
	}
	switch field {
	case "host", "hosts", "authority", "sni_hosts", "sni", "server_names", "value_host":
		return []string{"cart.shop.svc.cluster.local", "cart", "pay.shop.svc.cluster.local", "drawn.example.com", "*.example.com", "deep.drawn.example.com", "missing.shop"}
	case "proxy_version", "sni_match", "service":
		return []string{"", "cart.shop.svc.cluster.local", "^1\\..*"}
	case "vhost", "filter_chain", "application_protocols", "transport_protocol", "listener_filter":
		return []string{"tls", "raw_buffer", "istio-peer-exchange", "envoy.filters.listener.tls_inspector"}
	case "subset":
		return []string{"v1", "v2", "none"}
	case "gateways":
		return []string{"mesh", "shop/gw"}
	case "namespace", "namespaces", "source_namespace", "export_to", "not_namespaces":
		return []string{".", "shop", "quiet"}
	case "protocol":
		return []string{"HTTP", "TCP", "TLS", "GRPC", "HTTP2", "HTTPS", "MONGO", "UDP"}
	case "address", "addresses", "ip_blocks", "remote_ip_blocks", "destination_subnets", "not_ip_blocks":
		return []string{"10.1.1.1", "10.2.0.0/16", "240.240.1.1", "fd00::1", "10.0.0.1", "::/0", "unix:///run/s", "drawn.example.com"}
	case "prefix", "exact", "uri", "path", "paths", "not_paths":
		return []string{"/", "/a", "/a/b", "/a/*", "*/z", "/{*}", "/{**}/x", "x"}
	case "regex", "uri_regex_rewrite", "rewrite", "match":
		return []string{"/.*", "a|b", "[0-9]+", "^x$", `\1`, `(a)(b)`}
	case "key", "name", "header_name", "http_header_name", "http_query_parameter_name":
		return []string{"x-key", "version", "request.headers[x]", "request.auth.claims[iss]", "source.ip", "destination.port", "connection.sni", "http", "tcp-a", ":path", "source.principal"}
	case "methods", "not_methods", "allow_methods":
		return []string{"GET", "POST", "get"}
	case "ports", "not_ports", "values", "not_values":
		return []string{"80", "9000", "x", "10.0.0.0/8", "v*", "*v"}
	case "principals", "service_accounts", "request_principals", "not_principals":
		return []string{"cluster.local/ns/shop/sa/front", "shop/front", "front", "*", "iss/sub", "iss/*", "*/sub"}
	case "from", "to":
		return []string{"r1", "r1/*", "r1/z1/*", "r2", "r2/z1/*"}
	case "retry_on":
		return []string{"5xx,reset", "503", "connect-failure,refused-stream,unavailable", "200-600"}
	case "credential_name", "client_certificate", "private_key", "ca_certificates", "ca_crl":
		return []string{"cred", "/etc/c.pem", "configmap://a/b"}
	case "provider", "tunnel_protocol", "hash", "cookie":
		return []string{"ext", "CONNECT", "POST", "missing"}
	}
	return []string{"x", "v1", "shop", "cart"}
}
