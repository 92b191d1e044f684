package filter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"istio.io/api/envoy/extensions/stats"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	api "istio.io/api/telemetry/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// fixture is a proxy of namespace shop, labelled app=api.
type fixture struct {
	mesh  string // YAML
	meta  map[string]any
	stock bool
	links []string // extensions of the stock Envoy
	// telemetry maps "namespace/name" to a Telemetry spec in YAML, in order of the names.
	telemetry map[string]string
}

// set returns the fixture's filters and the recorder of what they read.
func (f fixture) set(t testing.TB) (*Set, *cell.Recorder) {
	t.Helper()
	mesh := &meshconfig.MeshConfig{RootNamespace: "istio-system", EnableTracing: true, DefaultConfig: &meshconfig.ProxyConfig{}}
	text, err := yaml.YAMLToJSON([]byte(f.mesh))
	if err != nil {
		t.Fatal(err)
	}
	if f.mesh != "" {
		own := &meshconfig.MeshConfig{}
		if err := protojson.Unmarshal(text, own); err != nil {
			t.Fatal(err)
		}
		own.RootNamespace, own.EnableTracing = mesh.RootNamespace, true
		mesh = own
	}
	b := model.NewBuilder(model.DefaultSettings(), &model.Mesh{Config: mesh})
	var events []model.Event
	for row, spec := range f.telemetry {
		into := &api.Telemetry{}
		if err := yaml.Unmarshal([]byte(spec), into); err != nil {
			t.Fatal(err)
		}
		ns, name, _ := strings.Cut(row, "/")
		k := model.ObjectKey{Kind: model.KindTelemetry, Namespace: ns, Name: name}
		events = append(events, model.Event{Key: k, Object: &model.Object{ObjectKey: k, Created: time.Unix(1, 0), Spec: into}})
	}
	events = append(events, providerServices())
	pc, _ := b.Apply(events, nil)
	meta := map[string]any{"NAMESPACE": "shop", "CLUSTER_ID": "c1", "LABELS": map[string]any{"app": "api"}}
	for k, v := range f.meta {
		meta[k] = v
	}
	m, err := structpb.NewStruct(meta)
	if err != nil {
		t.Fatal(err)
	}
	n := &corev3.Node{Id: "sidecar~10.0.0.1~api-1.shop~shop.svc.cluster.local", Metadata: m}
	if f.stock {
		n.Extensions = []*corev3.Extension{{Name: "envoy.filters.http.router"}}
		for _, name := range f.links {
			n.Extensions = append(n.Extensions, &corev3.Extension{Name: name})
		}
	}
	p, err := view.ParseNode(n, view.NodeDefaults{})
	if err != nil {
		t.Fatal(err)
	}
	g := cell.New()
	Define(g, func() *model.PushContext { return pc })
	rec := &cell.Recorder{}
	return New(view.NewContext(pc, rec, g, view.Of(model.NewReader(pc, nil), p))), rec
}

// providerServices are where the providers of the tests are found.
func providerServices() model.Event {
	k := model.ObjectKey{Kind: model.KindServiceEntry, Namespace: "shop", Name: "providers"}
	return model.Event{Key: k, Object: &model.Object{ObjectKey: k, Created: time.Unix(1, 0), Spec: &networking.ServiceEntry{
		Hosts: []string{"z.example", "logs.example", "o.example"}, Resolution: networking.ServiceEntry_DNS,
		Ports: []*networking.ServicePort{{Number: 9411, Name: "http", Protocol: "HTTP"}, {Number: 9000, Name: "grpc", Protocol: "GRPC"}},
	}}}
}

func last(list []*listenerv3.Filter) *listenerv3.Filter { return list[len(list)-1] }

func manager(t testing.TB, f *listenerv3.Filter) *hcmv3.HttpConnectionManager {
	t.Helper()
	out := &hcmv3.HttpConnectionManager{}
	if err := f.GetTypedConfig().UnmarshalTo(out); err != nil {
		t.Fatal(err)
	}
	if err := out.ValidateAll(); err != nil {
		t.Error(err)
	}
	return out
}

func httpNames(m *hcmv3.HttpConnectionManager) string {
	var out []string
	for _, f := range m.HttpFilters {
		out = append(out, strings.TrimPrefix(f.Name, "envoy.filters.http."))
	}
	return strings.Join(out, " ")
}

const prometheus = "defaultProviders: {metrics: [prometheus]}"

// TestFilterOrder checks the order of HTTP filters, and that a stock Envoy gets none of Istio's own.
func TestFilterOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stock    bool
		d        Direction
		protocol model.Protocol
		want     string
	}{
		{false, Outbound, model.HTTP, "istio.metadata_exchange grpc_stats istio.alpn fault cors istio.stats router"},
		{false, Inbound, model.GRPCWeb, "istio.metadata_exchange grpc_web grpc_stats fault cors istio.stats router"},
		{true, Outbound, model.HTTP, "grpc_stats fault cors router"},
		{true, Inbound, model.HTTP, "grpc_stats fault cors router"},
	} {
		s, _ := fixture{mesh: prometheus, stock: c.stock}.set(t)
		m := manager(t, last(s.Requests(HTTP{Direction: c.d, StatPrefix: "x;", RouteName: "80", Protocol: c.protocol})))
		if got := httpNames(m); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		if stockTraces := c.stock && m.Tracing != nil; stockTraces {
			t.Error("a stock Envoy without a tracer is told to trace")
		}
		if err := translate.Check(m); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingAskedOfTheProxy checks that a plain connection's filters depend on the proxy's profile and settings alone,
// so that all proxies share them.
func TestNothingAskedOfTheProxy(t *testing.T) {
	t.Parallel()
	s, rec := fixture{mesh: prometheus + "\naccessLogFile: /dev/stdout"}.set(t)
	s.Connection(TCP{Direction: Outbound, StatPrefix: "a", Cluster: "a", Protocol: model.TCP})
	if extra := rec.Mask() &^ (1<<view.PropProfile | 1<<view.PropSettings); extra != 0 {
		t.Errorf("other properties were read: %b", extra)
	}
	s, rec = fixture{mesh: prometheus, telemetry: map[string]string{"other/t": "{}"}}.set(t)
	s.Connection(TCP{Direction: Outbound, StatPrefix: "a", Cluster: "a", Protocol: model.TCP})
	if !rec.Mask().Has(view.PropNamespace) {
		t.Error("with Telemetry objects the namespace counts, but was not read")
	}
}

// TestProxyHeaders checks what a proxy's own configuration changes.
func TestProxyHeaders(t *testing.T) {
	t.Parallel()
	s, _ := fixture{meta: map[string]any{"HTTP10": "1", "IDLE_TIMEOUT": "77s", "PROXY_CONFIG": map[string]any{
		"concurrency": 2, "unknownField": true,
		"proxyHeaders": map[string]any{
			"server": map[string]any{"disabled": true}, "requestId": map[string]any{"disabled": true},
			"forwardedClientCert": "SANITIZE", "preserveHttp1HeaderCase": true,
		},
	}}}.set(t)
	m := manager(t, last(s.Requests(HTTP{Direction: Inbound, StatPrefix: "x;", RouteName: "r", Protocol: model.HTTP})))
	if m.ServerName != "" || m.ServerHeaderTransformation != hcmv3.HttpConnectionManager_PASS_THROUGH {
		t.Error("the server header is not left alone")
	}
	if m.GenerateRequestId.GetValue() || m.GenerateRequestId == nil {
		t.Error("request ids are still made")
	}
	if m.ForwardClientCertDetails != hcmv3.HttpConnectionManager_SANITIZE {
		t.Error(m.ForwardClientCertDetails)
	}
	if !m.HttpProtocolOptions.GetAcceptHttp_10() || m.HttpProtocolOptions.GetHeaderKeyFormat() == nil {
		t.Error(m.HttpProtocolOptions)
	}
	if d := m.CommonHttpProtocolOptions.GetIdleTimeout().AsDuration(); d != 77*time.Second {
		t.Error(d)
	}
}

// metrics gives the statistics configurations of a direction as text.
func metrics(s *Set, d Direction) string {
	var out []string
	for _, c := range s.stats(d) {
		for _, m := range c.Metrics {
			out = append(out, metricText(m))
		}
		out = append(out, "interval="+c.TcpReportingDuration.AsDuration().String())
	}
	return strings.Join(out, " ")
}

func metricText(m *stats.MetricConfig) string {
	var tags []string
	for _, k := range sortedKeys(m.Dimensions) {
		tags = append(tags, k+"="+m.Dimensions[k])
	}
	for _, k := range m.TagsToRemove {
		tags = append(tags, "-"+k)
	}
	text := m.Name + "{" + strings.Join(tags, ",") + "}"
	if m.Drop {
		text += "!"
	}
	return text
}

// TestMetricOverrides checks how Telemetry objects of the mesh, the namespace and the workload add up.
func TestMetricOverrides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		telemetry         map[string]string
		outbound, inbound string
	}{
		{"none", nil, "interval=0s", "interval=0s"},
		{
			"all client metrics off",
			map[string]string{"shop/t": `{metrics: [{overrides: [{match: {mode: CLIENT}, disabled: true}]}]}`},
			"", "interval=0s",
		},
		{
			"off for the mesh, one on for the workload",
			map[string]string{
				"istio-system/t": `{metrics: [{overrides: [{disabled: true}]}]}`,
				"shop/t":         `{selector: {matchLabels: {app: api}}, metrics: [{overrides: [{match: {metric: REQUEST_COUNT}, disabled: false}]}]}`,
			},
			"requests_total{} interval=0s", "requests_total{} interval=0s",
		},
		{
			"tags of two layers",
			map[string]string{
				"istio-system/t": `{metrics: [{reportingInterval: 7s, overrides: [{match: {metric: REQUEST_COUNT}, tagOverrides: {a: {value: x}, b: {operation: REMOVE}}}]}]}`,
				"shop/t":         `{metrics: [{overrides: [{match: {metric: REQUEST_COUNT, mode: SERVER}, disabled: true, tagOverrides: {c: {value: z}}}]}]}`,
				"shop/web":       `{selector: {matchLabels: {app: web}}, metrics: [{overrides: [{disabled: true}]}]}`,
				"other/t":        `{metrics: [{overrides: [{disabled: true}]}]}`,
			},
			"requests_total{a=x,-b} interval=7s", "requests_total{a=x,c=z,-b}! interval=7s",
		},
		{
			"another provider instead",
			map[string]string{"shop/t": `{metrics: [{providers: [{name: unknown}]}]}`},
			"", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _ := fixture{mesh: prometheus, telemetry: c.telemetry}.set(t)
			if got := metrics(s, Outbound); got != c.outbound {
				t.Errorf("outbound: %q, want %q", got, c.outbound)
			}
			if got := metrics(s, Inbound); got != c.inbound {
				t.Errorf("inbound: %q, want %q", got, c.inbound)
			}
		})
	}
}

const logProviders = `
accessLogFile: /dev/stdout
extensionProviders:
- {name: file, envoyFileAccessLog: {path: /a.log, logFormat: {text: "%START_TIME%"}}}
- {name: als, envoyHttpAls: {service: shop/logs.example, port: 9000}}
`

func logNames(s *Set, d Direction) string {
	var out []string
	for _, l := range s.accessLog(d, false) {
		name := l.Name
		if l.Filter != nil {
			name += "?"
		}
		out = append(out, strings.TrimPrefix(name, "envoy.access_loggers."))
	}
	return strings.Join(out, " ")
}

// TestAccessLogs checks which loggers are in force.
func TestAccessLogs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		telemetry         map[string]string
		outbound, inbound string
	}{
		{"the mesh's own file", nil, "file", "file"},
		{"metrics alone change nothing", map[string]string{"shop/t": "{metrics: [{}]}"}, "file", "file"},
		{
			"providers by name, one filtered, one off for clients",
			map[string]string{"shop/t": `{accessLogging: [{providers: [{name: file}, {name: als}], filter: {expression: "true"}}, {match: {mode: CLIENT}, providers: [{name: file}], disabled: true}]}`},
			"http_grpc?", "http_grpc? file?",
		},
		{
			"off for all",
			map[string]string{"shop/t": `{accessLogging: [{providers: [{name: file}], disabled: true}]}`},
			"", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _ := fixture{mesh: logProviders, telemetry: c.telemetry}.set(t)
			if got := logNames(s, Outbound); got != c.outbound {
				t.Errorf("outbound: %q, want %q", got, c.outbound)
			}
			if got := logNames(s, Inbound); got != c.inbound {
				t.Errorf("inbound: %q, want %q", got, c.inbound)
			}
			for _, l := range s.ListenerLog(Inbound) {
				if l.Filter == nil {
					t.Errorf("%s logs every connection of the listener", l.Name)
				}
			}
		})
	}
}

// TestTracing checks sampling, tags and who traces at all.
func TestTracing(t *testing.T) {
	t.Parallel()
	const mesh = "{defaultProviders: {tracing: [zip]}, extensionProviders: [{name: zip, zipkin: {service: z.example, port: 9411}}]}"
	text := func(s *Set, d Direction) string {
		tr, byID := s.tracing(d)
		if tr == nil {
			return fmt.Sprint("none ", byID)
		}
		var tags []string
		for _, tag := range tr.CustomTags {
			if !strings.HasPrefix(tag.Tag, "istio.") {
				tags = append(tags, tag.Tag)
			}
		}
		return fmt.Sprint(tr.GetProvider().GetName(), " ", tr.RandomSampling.Value, " ", len(tr.CustomTags), tags, byID)
	}
	for _, c := range []struct {
		name, mesh, telemetry string
		stock                 bool
		want                  [2]string
	}{
		{"the bootstrap's tracer", "", "", false, [2]string{" 1 9 [] true", " 1 9 [] true"}},
		{"no tracer in a stock Envoy", "", "", true, [2]string{"none true", "none true"}},
		{"a provider", mesh, "", true, [2]string{"envoy.tracers.zipkin 1 9 [] true", "envoy.tracers.zipkin 1 9 [] true"}},
		{
			"own tags and sampling", mesh, `{tracing: [{randomSamplingPercentage: 12.5, enableIstioTags: false, useRequestIdForTraceSampling: false, customTags: {b: {literal: {value: v}}, a: {header: {name: h}}}}]}`,
			false,
			[2]string{"envoy.tracers.zipkin 12.5 2 [a b] false", "envoy.tracers.zipkin 12.5 2 [a b] false"},
		},
		{
			"servers report nothing", mesh, `{tracing: [{match: {mode: SERVER}, disableSpanReporting: true}]}`,
			false,
			[2]string{"envoy.tracers.zipkin 1 9 [] true", "none true"},
		},
	} {
		f := fixture{mesh: c.mesh, stock: c.stock}
		if c.telemetry != "" {
			f.telemetry = map[string]string{"shop/t": c.telemetry}
		}
		s, _ := f.set(t)
		if got := [2]string{text(s, Outbound), text(s, Inbound)}; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTextFormatsEndTheirLine checks that each entry of a log stands on its own line.
func TestTextFormatsEndTheirLine(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "%PROTOCOL%", "%PROTOCOL%\\n"} {
		s, _ := fixture{mesh: fmt.Sprintf("{accessLogFile: /dev/stdout, accessLogFormat: %q}", strings.ReplaceAll(format, `\n`, "\n"))}.set(t)
		text := s.meshFormat().GetTextFormatSource().GetInlineString()
		if !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") {
			t.Errorf("format %q becomes %q", format, text)
		}
	}
	s, _ := fixture{mesh: `{accessLogFile: /dev/stdout, accessLogEncoding: JSON, accessLogFormat: "no JSON"}`}.set(t)
	keys := sortedKeys(s.meshFormat().GetJsonFormat().GetFields())
	if !slices.Contains(keys, "response_code") {
		t.Errorf("a format that is no JSON is not replaced: %v", keys)
	}
}
