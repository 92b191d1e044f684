package filter

import (
	"maps"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	api "istio.io/api/telemetry/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// telemetry holds the Telemetry objects that apply to the proxy, in order of precedence: the mesh's, the namespace's,
// the workload's.
type telemetry struct {
	specs []*api.Telemetry
	stats [2][]statsFilter
	known [2]bool
}

func (s *Set) telemetry() *telemetry {
	if s.telem == nil {
		s.telem = &telemetry{specs: s.applicable()}
	}
	return s.telem
}

// applicable returns the first object without selector of the root namespace, that of the proxy's namespace, and the
// objects of the proxy's namespace that select it. Nothing is asked of the proxy when there are none at all.
func (s *Set) applicable() []*api.Telemetry {
	if !s.c.HasObjects(model.KindTelemetry) {
		return nil
	}
	root, own := s.mesh.GetRootNamespace(), s.c.ProxyNamespace()
	var out []*api.Telemetry
	general, chosen := s.telemetryOf(root)
	if own != root {
		if general != nil {
			out = append(out, general)
		}
		general, chosen = s.telemetryOf(own)
	}
	if general != nil {
		out = append(out, general)
	}
	return append(out, chosen...)
}

// telemetryOf returns a namespace's first object without selector, and those whose selector matches the proxy.
func (s *Set) telemetryOf(namespace string) (general *api.Telemetry, chosen []*api.Telemetry) {
	if namespace == "" {
		return nil, nil
	}
	for _, o := range s.c.Objects(model.KindTelemetry, namespace) {
		spec, ok := o.Spec.(*api.Telemetry)
		if !ok || len(spec.GetTargetRefs()) > 0 || spec.GetTargetRef() != nil {
			continue
		}
		match := spec.GetSelector().GetMatchLabels()
		switch {
		case len(match) == 0 && general == nil:
			general = spec
		case len(match) > 0 && model.LabelsMatch(match, s.c.Labels()):
			chosen = append(chosen, spec)
		}
	}
	return general, chosen
}

// provider returns the extension provider of that name, built-in ones included, or nil.
func (s *Set) provider(name string) *meshconfig.MeshConfig_ExtensionProvider {
	for _, p := range s.mesh.GetExtensionProviders() {
		if strings.EqualFold(p.GetName(), name) {
			return p
		}
	}
	switch strings.ToLower(name) {
	case "prometheus":
		return &meshconfig.MeshConfig_ExtensionProvider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{}}
	case "envoy":
		return &meshconfig.MeshConfig_ExtensionProvider{
			Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
				EnvoyFileAccessLog: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
			},
		}
	}
	return nil
}

func providerNames(list []*api.ProviderRef) []string {
	out := make([]string, 0, len(list))
	for _, p := range list {
		out = append(out, p.GetName())
	}
	return out
}

// selects tells whether a workload mode covers the direction.
func selects(mode api.WorkloadMode, d Direction) bool {
	switch mode {
	case api.WorkloadMode_CLIENT:
		return d == Outbound
	case api.WorkloadMode_SERVER:
		return d == Inbound
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
