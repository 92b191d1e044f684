package patch

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Extensions returns the configurations that the proxy's EnvoyFilters add under EXTENSION_CONFIG, in order, the first of
// each name. All are valid; those that are not are reported by the slot of outbound listeners. The messages are shared:
// they must not be changed. Facts: translation-l7 §7.
func Extensions(c *view.Context) []*corev3.TypedExtensionConfig {
	if len(c.EnvoyFilterPatches(view.ExtensionPatches)) == 0 {
		return nil
	}
	s, _ := c.Cell(cell.ID{Kind: kindSet, Arg: setID{group: view.ExtensionPatches, everywhere: true}}).(*set)
	var out []*corev3.TypedExtensionConfig
	named := map[string]bool{}
	for _, p := range s.patches {
		m, ok := p.value.(*corev3.TypedExtensionConfig)
		if ok && p.err == nil && p.op == networking.EnvoyFilter_Patch_ADD && !named[m.GetName()] {
			named[m.GetName()] = true
			out = append(out, m)
		}
	}
	return out
}

// Extension returns the configuration of that name, if the proxy's EnvoyFilters add one.
func Extension(c *view.Context, name string) ([]*translate.Message, error) {
	for _, m := range Extensions(c) {
		if m.GetName() == name {
			return []*translate.Message{{Name: name, Proto: m}}, nil
		}
	}
	return nil, nil
}
