package extension

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// TestBadPlugins wants of every plugin that Envoy or an agent could do nothing with that its filter does what its
// strategy says, and that there is a resource for the listener that waits for one.
func TestBadPlugins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c, _ := w.context(nil)
	for name, spec := range map[string]*extensions.WasmPlugin{
		"no URL":          {},
		"not a URL":       {Url: "://"},
		"unknown scheme":  {Url: "ftp://a.example/x"},
		"port, no scheme": {Url: "localhost:5000/x"},
		"no host":         {Url: "https:///x"},
		"no file":         {Url: "file://"},
		"short sum":       {Url: "oci://a.example/x", Sha256: "ab"},
		"not hexadecimal": {Url: "oci://a.example/x", Sha256: strings.Repeat("x", 64)},
	} {
		for _, kind := range []extensions.PluginType{extensions.PluginType_HTTP, extensions.PluginType_NETWORK} {
			for _, strategy := range []extensions.FailStrategy{
				extensions.FailStrategy_FAIL_OPEN, extensions.FailStrategy_FAIL_CLOSE, extensions.FailStrategy_FAIL_RELOAD,
			} {
				spec.Type, spec.FailStrategy = kind, strategy
				p := pluginOf(&model.Object{ObjectKey: model.ObjectKey{Kind: model.KindWasmPlugin, Namespace: "shop", Name: "x"}, Spec: spec})
				m, err := p.config(c).GetTypedConfig().UnmarshalNew()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				r := m.ProtoReflect()
				if got := string(r.Descriptor().FullName()); !strings.HasSuffix(got, ".RBAC") {
					t.Errorf("%s: a %s", name, got)
					continue
				}
				// rules without a policy let nobody through, no rules let everybody
				if closed := r.Has(r.Descriptor().Fields().ByName("rules")); closed != (strategy != extensions.FailStrategy_FAIL_OPEN) {
					t.Errorf("%s: %s is closed: %v", name, strategy, closed)
				}
			}
		}
	}
}

// TestNothingToRun wants no filter where no resource could be.
func TestNothingToRun(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]any{
		"another kind": &structpb.Struct{},
		"empty":        &extensions.TrafficExtension{},
		"empty script": &extensions.TrafficExtension{FilterConfig: &extensions.TrafficExtension_Lua{Lua: &extensions.LuaConfig{}}},
	} {
		if p := pluginOf(&model.Object{Spec: spec}); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
