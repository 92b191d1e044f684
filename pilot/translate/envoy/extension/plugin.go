package extension

import (
	"math"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	apitype "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

const (
	// resourcePrefix begins the names of resources and filters; "<namespace>.<name>" follows.
	resourcePrefix = "extensions.istio.io/trafficextension/"
	// wasmSuffix marks the names of those that are WasmPlugin objects.
	wasmSuffix = "~istio-translated-wasmplugin"
)

// module is what both kinds say about WebAssembly.
type module interface {
	GetUrl() string
	GetSha256() string
	GetImagePullPolicy() extensions.PullPolicy
	GetImagePullSecret() string
	GetPluginName() string
	GetFailStrategy() extensions.FailStrategy
	GetVmConfig() *extensions.VmConfig
	GetType() extensions.PluginType
}

// selector is one entry of a plugin's match.
type selector interface {
	GetMode() apitype.WorkloadMode
	GetPorts() []*apitype.PortSelector
}

// plugin is one object of either kind.
type plugin struct {
	*model.Object
	phase    phase
	priority int64
	labels   map[string]string
	targeted bool // it is for gateways or services, not for workloads
	match    []selector
	wasm     module
	settings string // JSON, or empty
	lua      string
}

// phase is where a filter stands among a chain's own. The values are the API's.
type phase int32

const (
	phaseAuthn = phase(extensions.TrafficExtension_AUTHN)
	phaseAuthz = phase(extensions.TrafficExtension_AUTHZ)
	phaseStats = phase(extensions.TrafficExtension_STATS)
)

// pluginOf reads an object; it returns nil if there is nothing in it to run.
func pluginOf(o *model.Object) *plugin {
	switch s := o.Spec.(type) {
	case *extensions.WasmPlugin:
		p := &plugin{
			Object: o, phase: phase(s.GetPhase()), priority: math.MinInt64, labels: s.GetSelector().GetMatchLabels(),
			targeted: len(s.GetTargetRefs()) > 0 || s.GetTargetRef() != nil, wasm: s, settings: jsonText(s.GetPluginConfig()),
		}
		if s.GetPriority() != nil {
			p.priority = int64(s.GetPriority().GetValue())
		}
		for _, m := range s.GetMatch() {
			p.match = append(p.match, m)
		}
		return p
	case *extensions.TrafficExtension:
		p := &plugin{
			Object: o, phase: phase(s.GetPhase()), priority: math.MinInt64, labels: s.GetSelector().GetMatchLabels(),
			targeted: len(s.GetTargetRefs()) > 0, lua: s.GetLua().GetInlineCode(),
		}
		if w := s.GetWasm(); w != nil {
			p.wasm, p.settings = w, jsonText(w.GetPluginConfig())
		}
		if s.GetPriority() != nil {
			p.priority = int64(s.GetPriority().GetValue())
		}
		for _, m := range s.GetMatch() {
			p.match = append(p.match, m)
		}
		if p.wasm == nil && p.lua == "" {
			return nil
		}
		return p
	}
	return nil
}

// fullName is the plugin's name among those of both kinds: "namespace.name".
func (p *plugin) fullName() string {
	name := p.Namespace + "." + p.Name
	if p.Kind == model.KindWasmPlugin {
		name += wasmSuffix
	}
	return name
}

func (p *plugin) resource() string { return resourcePrefix + p.fullName() }

// keyOf returns the object behind a resource's name.
func keyOf(resource string) (model.ObjectKey, bool) {
	full, ok := strings.CutPrefix(resource, resourcePrefix)
	if !ok {
		return model.ObjectKey{}, false
	}
	namespace, name, ok := strings.Cut(full, ".") // a namespace's name has no dot
	if !ok {
		return model.ObjectKey{}, false
	}
	if short, ok := strings.CutSuffix(name, wasmSuffix); ok {
		return model.ObjectKey{Kind: model.KindWasmPlugin, Namespace: namespace, Name: short}, true
	}
	return model.ObjectKey{Kind: model.KindTrafficExtension, Namespace: namespace, Name: name}, true
}

// network tells whether the plugin is about connections rather than requests.
func (p *plugin) network() bool {
	return p.wasm != nil && p.wasm.GetType() == extensions.PluginType_NETWORK
}

// matches tells whether the plugin is for the chains of a listener port in that mode; without any match it is for all.
func (p *plugin) matches(mode apitype.WorkloadMode, port uint32) bool {
	for _, m := range p.match {
		if modeMatches(m.GetMode(), mode) && portMatches(m.GetPorts(), port) {
			return true
		}
	}
	return len(p.match) == 0
}

func modeMatches(want, mode apitype.WorkloadMode) bool {
	return want == mode || want == apitype.WorkloadMode_UNDEFINED || want == apitype.WorkloadMode_CLIENT_AND_SERVER
}

func portMatches(want []*apitype.PortSelector, port uint32) bool {
	for _, p := range want {
		if p.GetNumber() == port {
			return true
		}
	}
	return len(want) == 0
}
