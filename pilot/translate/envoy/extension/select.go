package extension

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	apitype "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Set is the plugins that may apply to a proxy. It belongs to one computation.
type Set struct {
	c     *view.Context
	known bool
	list  []*plugin // in the order in which they run, whatever their phase
}

// New returns the plugins of the context's proxy. Nothing is looked at before a chain is asked for.
func New(c *view.Context) *Set { return &Set{c: c} }

// Phases are a chain's filters by where they stand among its own.
type Phases[F any] struct {
	// Authn stand before the JWT filter, Authz before authorization, and Stats and Rest behind it.
	Authn, Authz, Stats, Rest []F
}

// All returns the filters of all phases, in order.
func (p Phases[F]) All() []F { return slices.Concat(p.Authn, p.Authz, p.Stats, p.Rest) }

// HTTP returns the HTTP filters for a chain of a listener port. Mode is CLIENT or SERVER.
func (s *Set) HTTP(mode apitype.WorkloadMode, port uint32) Phases[*hcmv3.HttpFilter] {
	return phases(s.chosen(mode, port, false), func(p *plugin) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{
			Name: p.resource(), ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: discovery(p.httpTypes())},
		}
	})
}

// Network returns the network filters for a chain of a listener port. Mode is CLIENT or SERVER.
func (s *Set) Network(mode apitype.WorkloadMode, port uint32) Phases[*listenerv3.Filter] {
	return phases(s.chosen(mode, port, true), func(p *plugin) *listenerv3.Filter {
		return &listenerv3.Filter{
			Name:       p.resource(),
			ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: discovery([]string{networkWasmType, networkRBACType})},
		}
	})
}

func phases[F any](list []*plugin, filter func(*plugin) F) Phases[F] {
	var out Phases[F]
	for _, p := range list {
		into := &out.Rest
		switch p.phase {
		case phaseAuthn:
			into = &out.Authn
		case phaseAuthz:
			into = &out.Authz
		case phaseStats:
			into = &out.Stats
		}
		*into = append(*into, filter(p))
	}
	return out
}

// discovery says that a filter's configuration is a resource of its name, for which the listener waits.
func discovery(types []string) *corev3.ExtensionConfigSource {
	return &corev3.ExtensionConfigSource{
		ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(0),
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
		TypeUrls: types,
	}
}

// chosen returns the plugins that apply to a chain. The proxy's labels are asked for only if they decide something.
func (s *Set) chosen(mode apitype.WorkloadMode, port uint32, network bool) []*plugin {
	if !s.known {
		s.list, s.known = s.plugins(), true
	}
	var out []*plugin
	for _, p := range s.list {
		if p.network() == network && p.matches(mode, port) && (len(p.labels) == 0 || model.LabelsMatch(p.labels, s.c.Labels())) {
			out = append(out, p)
		}
	}
	return out
}

// plugins returns the plugins of the proxy's namespace and the root namespace by priority, those of equal priority in
// that order and by age. Nothing is asked of the proxy if there are none.
func (s *Set) plugins() []*plugin {
	wasm, traffic := s.c.HasObjects(model.KindWasmPlugin), s.c.HasObjects(model.KindTrafficExtension)
	if !wasm && !traffic {
		return nil
	}
	root, own := s.c.Mesh().RootNamespace(), s.c.ProxyNamespace()
	var out []*plugin
	for _, ns := range slices.Compact([]string{own, root}) {
		if ns == "" {
			continue
		}
		var objects []*model.Object
		if wasm {
			objects = append(objects, s.c.Objects(model.KindWasmPlugin, ns)...)
		}
		if traffic {
			objects = append(objects, s.c.Objects(model.KindTrafficExtension, ns)...)
		}
		slices.SortStableFunc(objects, model.Older)
		for _, o := range objects {
			if p := pluginOf(o); p != nil && !p.targeted {
				out = append(out, p)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *plugin) int { return cmp.Compare(b.priority, a.priority) })
	return out
}
