package meshconfig

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	mesh "istio.io/api/mesh/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustParse(t *testing.T, texts ...string) *mesh.MeshConfig {
	t.Helper()
	var all [][]byte
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	m, err := Parse(all...)
	if err != nil {
		t.Fatal(err)
	}
	return m.Config
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	if err := Validate(Defaults()); err != nil {
		t.Fatal(err)
	}
	m, err := Parse(nil, []byte("# nothing\n"))
	if err != nil || !proto.Equal(m.Config, Defaults()) {
		t.Fatalf("empty texts change the defaults: %v %v", m, err)
	}
	if m.DefaultServiceExportTo[0] != "*" || m.RootNamespace() != "istio-system" || m.TrustDomain() != "cluster.local" {
		t.Errorf("%+v", m)
	}
}

func TestReplacedFields(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
connectTimeout: 1m30s
trust_domain: td
localityLbSetting: {failover: [{from: a, to: b}]}
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
defaultServiceExportTo: ["."]
enableAutoMtls: false
`)
	if c.ConnectTimeout.AsDuration() != 90*time.Second || c.TrustDomain != "td" || c.EnableAutoMtls.Value {
		t.Errorf("%v", c)
	}
	if c.LocalityLbSetting.Enabled != nil {
		t.Error("a nested message was merged, not replaced")
	}
	if c.ProxyListenPort != 15001 {
		t.Error("a default is gone")
	}
}

func TestMergedFields(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
defaultConfig:
  proxyMetadata: {A: "1", B: "1"}
  proxyHeaders: {server: {value: x}}
  tracing: {sampling: 5}
defaultProviders: {metrics: [prometheus]}
extensionProviders:
- name: prometheus
  opentelemetry: {service: a.b, port: 1}
- name: mine
  zipkin: {service: a.b, port: 1}
trustDomainAliases: [b, a]
`, `
defaultConfig:
  proxyMetadata: {B: "2"}
  proxyHeaders: {requestId: {disabled: true}}
  tracingServiceName: APP_LABEL_AND_NAMESPACE
defaultProviders: {tracing: [mine]}
extensionProviders:
- name: mine
  zipkin: {service: c.d, port: 2}
trustDomainAliases: [c, a]
`)
	p := c.DefaultConfig
	if p.ProxyMetadata["A"] != "1" || p.ProxyMetadata["B"] != "2" || p.ProxyHeaders.Server.GetValue() != "x" ||
		!p.ProxyHeaders.RequestId.GetDisabled().GetValue() || p.Tracing.GetSampling() != 5 || p.StatusPort != 15020 {
		t.Errorf("defaultConfig: %v", p)
	}
	if p.GetServiceCluster() != "" || p.GetTracingServiceName() != mesh.ProxyConfig_APP_LABEL_AND_NAMESPACE {
		t.Errorf("the name of the cluster: %v", p.ClusterName)
	}
	if d := c.DefaultProviders; d.Metrics[0] != "prometheus" || d.Tracing[0] != "mine" {
		t.Errorf("defaultProviders: %v", d)
	}
	var names []string
	for _, e := range c.ExtensionProviders {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "prometheus stackdriver envoy mine" {
		t.Errorf("extensionProviders: %s", got)
	}
	if c.ExtensionProviders[0].GetOpentelemetry() == nil || c.ExtensionProviders[3].GetZipkin().GetPort() != 2 {
		t.Errorf("extensionProviders: %v", c.ExtensionProviders)
	}
	if got := strings.Join(c.TrustDomainAliases, " "); got != "a b c" {
		t.Errorf("trustDomainAliases: %s", got)
	}
	if Defaults().DefaultConfig.ProxyMetadata != nil {
		t.Error("the defaults were modified")
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"trustDomian: a":                               "trustDomian: unknown field",
		"defaultConfig: {concurency: 1}":               "defaultConfig.concurency: unknown field",
		"defaultConfig: 5":                             "defaultConfig: not an object",
		"extensionProviders: {}":                       "extensionProviders: an object is not a list",
		"connectTimeout: 2h":                           "connectTimeout: 2h0m0s is not between",
		"proxyListenPort: 70000":                       "proxyListenPort: 70000 is not a port",
		"trustDomain: ''":                              "trustDomain: must not be empty",
		"defaultConfig: {drainDuration: 1500ms}":       "defaultConfig.drainDuration: 1.5s is not a number of seconds",
		"defaultConfig: {discoveryAddress: istiod}":    `defaultConfig.discoveryAddress: "istiod" is not host:port`,
		"localityLbSetting: {distribute: [{from: a}]}": "localityLbSetting.distribute[0].to: the weights make 0",
		"defaultHttpRetryPolicy: {attempts: -1}":       "defaultHttpRetryPolicy.attempts: -1 is negative",
		"defaultTrafficPolicy: {connectionPool: {}}":   "defaultTrafficPolicy.connectionPool: tcp or http",
		"meshMTLS: {ecdhCurves: [P-256, P-256]}":       "meshMTLS.ecdhCurves[1]: P-256 is listed twice",
		"a: [":                                         "line 1",
		"- a":                                          "not an object",
		"defaultConfig: {serviceCluster: a, tracingServiceName: APP_LABEL_AND_NAMESPACE}": "only one of",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	n, err := ParseNetworks([]byte(`
networks:
  n1:
    endpoints: [{fromRegistry: c1}, {fromCidr: 10.0.0.0/8}]
    gateways: [{address: 1.2.3.4, port: 15443}, {registryServiceName: gw.istio-system.svc.cluster.local, port: 15443}]
`))
	if err != nil || len(n.Networks["n1"].Endpoints) != 2 {
		t.Fatal(n, err)
	}
	for text, want := range map[string]string{
		"networks: {n: {endpoints: [{fromCidr: x}]}}":             "networks[n].endpoints[0].fromCidr",
		"networks: {n: {gateways: [{address: a b, port: 1}]}}":    "networks[n].gateways[0].address",
		"networks: {n: {gateways: [{address: 1.2.3.4}]}}":         "networks[n].gateways[0].port",
		"networks: {n: {gateways: [{port: 1}], endpoints: [{}]}}": "networks[n].endpoints[0]: fromCidr or fromRegistry",
		"network: {}": "network: unknown field",
	} {
		if _, err := ParseNetworks([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
