package extension

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"

	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// The types that a filter's configuration may have: RBAC stands in for WebAssembly that cannot be had.
const (
	httpWasmType    = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
	httpRBACType    = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"
	networkWasmType = "type.googleapis.com/envoy.extensions.filters.network.wasm.v3.Wasm"
	networkRBACType = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC"
	luaType         = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"
)

const (
	runtime = "envoy.wasm.runtime.v8"
	// fetchTimeout is what Envoy would give a download; the agent that does it in Envoy's place has its own.
	fetchTimeout = 30 * time.Second
	// noCluster is no cluster's name: the agent replaces what is remote by a file.
	noCluster = "_"
	// noSum stands for a checksum that is not given.
	noSum = "nil"
	// Variables of the virtual machine that tell the agent how to fetch. It takes them away.
	envPullSecret = "ISTIO_META_WASM_IMAGE_PULL_SECRET" //nolint:gosec // a name
	envPullPolicy = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	envVersion    = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
	// The statistics of what stands in for WebAssembly; the agent uses the same.
	statAllow, statDeny = "wasm-default-allow", "wasm-default-deny"
)

func (p *plugin) httpTypes() []string {
	if p.wasm == nil {
		return []string{luaType}
	}
	return []string{httpWasmType, httpRBACType}
}

// config returns the plugin's resource. There is always one: listeners wait for it.
func (p *plugin) config(c *view.Context) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: p.resource(), TypedConfig: p.typedConfig(c)}
}

func (p *plugin) typedConfig(c *view.Context) *anypb.Any {
	if p.wasm == nil {
		return translate.Pack(&luav3.Lua{DefaultSourceCode: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: p.lua},
		}})
	}
	code := p.code(c.Stock())
	if code == nil {
		return p.substitute()
	}
	made := &wasmv3.PluginConfig{
		Name: p.fullName(), RootId: p.wasm.GetPluginName(), FailurePolicy: p.failurePolicy(),
		Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
			Runtime: runtime, Code: code, EnvironmentVariables: p.environment(c),
		}},
	}
	if p.settings != "" {
		made.Configuration = translate.Pack(wrapperspb.String(p.settings))
	}
	var m proto.Message = &httpwasmv3.Wasm{Config: made}
	if p.network() {
		m = &tcpwasmv3.Wasm{Config: made}
	}
	if translate.Check(m) != nil {
		return p.substitute()
	}
	if !c.Stock() {
		leaveOpen(made)
	}
	out := &anypb.Any{}
	if anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}) != nil {
		return p.substitute()
	}
	return out
}

// leaveOpen leaves empty what agents are used to find empty, although Envoy's rules for the message forbid it: an agent
// replaces the code before Envoy sees it.
func leaveOpen(made *wasmv3.PluginConfig) {
	if remote := made.GetVmConfig().GetCode().GetRemote(); remote.GetSha256() == noSum {
		remote.Sha256 = ""
	}
	if made.Configuration == nil {
		made.Configuration = &anypb.Any{}
	}
}

// code returns where the module is, nil if it cannot be had: the URL or the checksum is none, or the proxy has no agent
// that would fetch it.
func (p *plugin) code(stock bool) *corev3.AsyncDataSource {
	text := p.wasm.GetUrl()
	u, err := url.Parse(text)
	if err != nil || text == "" || !validSum(p.wasm.GetSha256()) {
		return nil
	}
	switch u.Scheme {
	case "file":
		path := strings.TrimPrefix(text, "file://")
		if path == "" {
			return nil
		}
		return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: &corev3.DataSource{
			Specifier: &corev3.DataSource_Filename{Filename: path},
		}}}
	case "":
		text = "oci://" + text
	case "oci", "http", "https":
		if u.Host == "" {
			return nil
		}
	default:
		return nil
	}
	if stock {
		return nil
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{
		HttpUri: &corev3.HttpUri{
			Uri: text, Timeout: durationpb.New(fetchTimeout), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: noCluster},
		},
		Sha256: cmp.Or(p.wasm.GetSha256(), noSum),
	}}}
}

// validSum tells whether a checksum is one, or none is given.
func validSum(sum string) bool {
	const size = 32
	b, err := hex.DecodeString(sum)
	return sum == "" || err == nil && len(b) == size
}

func (p *plugin) failurePolicy() wasmv3.FailurePolicy {
	switch p.wasm.GetFailStrategy() {
	case extensions.FailStrategy_FAIL_OPEN:
		return wasmv3.FailurePolicy_FAIL_OPEN
	case extensions.FailStrategy_FAIL_RELOAD:
		return wasmv3.FailurePolicy_FAIL_RELOAD
	}
	return wasmv3.FailurePolicy_FAIL_CLOSED
}

// substitute does what the plugin's strategy says about a module that cannot be had: everything or nothing passes.
func (p *plugin) substitute() *anypb.Any {
	stat, none := statAllow, (*rbacv3.RBAC)(nil)
	if p.failurePolicy() != wasmv3.FailurePolicy_FAIL_OPEN {
		stat, none = statDeny, &rbacv3.RBAC{} // nobody is allowed
	}
	if p.network() {
		return translate.Pack(&tcprbacv3.RBAC{Rules: none, StatPrefix: stat})
	}
	return translate.Pack(&httprbacv3.RBAC{Rules: none, RulesStatPrefix: stat})
}

// environment returns the virtual machine's variables. Envoy takes no name twice: a value that is given wins over one
// of the host.
func (p *plugin) environment(c *view.Context) *wasmv3.EnvironmentVariables {
	values, host := map[string]string{}, map[string]struct{}{}
	for _, e := range p.wasm.GetVmConfig().GetEnv() {
		switch {
		case e.GetName() == "":
		case e.GetValueFrom() == extensions.EnvValueSource_HOST:
			host[e.GetName()] = struct{}{}
		default:
			values[e.GetName()] = e.GetValue()
		}
	}
	if !c.Stock() {
		p.forAgent(c, values)
	}
	for k := range values {
		delete(host, k)
	}
	if len(values) == 0 && len(host) == 0 {
		return nil
	}
	return &wasmv3.EnvironmentVariables{KeyValues: values, HostEnvKeys: slices.Sorted(maps.Keys(host))}
}

// forAgent adds what the agent is told about fetching.
func (p *plugin) forAgent(c *view.Context, values map[string]string) {
	values[envVersion] = p.ResourceVersion
	if policy := p.wasm.GetImagePullPolicy(); policy != extensions.PullPolicy_UNSPECIFIED_POLICY {
		values[envPullPolicy] = policy.String()
	}
	if name := p.wasm.GetImagePullSecret(); name != "" {
		values[envPullSecret] = p.pullSecret(c, name)
	}
}

// pullSecret returns the credentials for a registry, from a secret of the plugin's own namespace. They are empty, which
// the agent takes as a failure to fetch, if there is none or the proxy has not proved who it is.
func (p *plugin) pullSecret(c *view.Context, name string) string {
	if !c.Verified() {
		return ""
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	o := c.Object(model.ObjectKey{Kind: model.KindSecret, Namespace: p.Namespace, Name: name})
	if o == nil {
		return ""
	}
	s, ok := o.Spec.(*corev1.Secret)
	if !ok || s.Type != corev1.SecretTypeDockerConfigJson {
		return ""
	}
	return string(s.Data[corev1.DockerConfigJsonKey])
}

// jsonText returns settings as compact JSON with sorted keys, "" for none.
func jsonText(s *structpb.Struct) string {
	if s == nil {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s.AsMap()) != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
