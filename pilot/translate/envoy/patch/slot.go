package patch

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Direction is the direction of the traffic that a slot's resources are for, as the workload sees it.
type Direction uint8

// The directions.
const (
	Outbound Direction = iota
	Inbound
)

// context returns the patches' word for what the proxy's resources of a direction are.
func (d Direction) context(c *view.Context) networking.EnvoyFilter_PatchContext {
	switch {
	case c.Type() == view.Router:
		return networking.EnvoyFilter_GATEWAY
	case d == Inbound:
		return networking.EnvoyFilter_SIDECAR_INBOUND
	}
	return networking.EnvoyFilter_SIDECAR_OUTBOUND
}

// addUnit is a resource that a patch adds.
type addUnit struct {
	object model.ObjectKey
	index  int
}

// String names the unit for people.
func (u addUnit) String() string { return (&patch{object: u.object, index: u.index}).String() }

// problemUnit is no resource: it reports what is wrong with patches whatever they match.
type problemUnit struct{}

// String names the unit for people.
func (problemUnit) String() string { return string(model.KindEnvoyFilter) + "s" }

// wrapper is a slot with patches of one group and context.
type wrapper struct {
	inner     *translate.Slot
	group     view.PatchGroup
	direction Direction
	// adds is what patches add as units, if anything.
	adds networking.EnvoyFilter_ApplyTo
	// reports are the groups whose lasting problems the slot reports.
	reports []view.PatchGroup
	patched func(c *view.Context, m *translate.Message) []*translate.Message
}

// Clusters returns a slot of clusters with patches applied, and with those added that patches add.
func Clusters(slot *translate.Slot, d Direction) *translate.Slot {
	w := &wrapper{inner: slot, group: view.ClusterPatches, direction: d, adds: networking.EnvoyFilter_CLUSTER, reports: []view.PatchGroup{view.ClusterPatches}}
	w.patched = func(c *view.Context, m *translate.Message) []*translate.Message {
		of := w.usable(c, func(p *patch) bool {
			return p.op != networking.EnvoyFilter_Patch_ADD && p.matchesCluster(m.Name, func(port uint32) []string { return servedHosts(c, port) })
		})
		return edited(m, of, editCluster, check)
	}
	return w.slot()
}

// Listeners returns a slot of listeners with patches applied, and with those added that patches add.
func Listeners(slot *translate.Slot, d Direction) *translate.Slot {
	w := &wrapper{
		inner: slot, group: view.ListenerPatches, direction: d, adds: networking.EnvoyFilter_LISTENER,
		reports: []view.PatchGroup{view.ListenerPatches, view.RoutePatches, view.ExtensionPatches},
	}
	return w.listeners()
}

// FurtherListeners is Listeners for a slot beside another of the same direction, which has the added ones already.
func FurtherListeners(slot *translate.Slot, d Direction) *translate.Slot {
	w := &wrapper{inner: slot, group: view.ListenerPatches, direction: d}
	return w.listeners()
}

func (w *wrapper) listeners() *translate.Slot {
	w.patched = func(c *view.Context, m *translate.Message) []*translate.Message {
		l, ok := m.Proto.(*listenerv3.Listener)
		if !ok {
			return []*translate.Message{m}
		}
		var problems []error
		if w.inline() {
			routes := slices.Clone(patchesFor(c, view.RoutePatches, w.direction.context(c)))
			routes = slices.DeleteFunc(routes, func(p *patch) bool { return p.err != nil })
			out, errs := apply(l, routes, editInlineRoutes, check)
			problems = errs
			if changed, ok := out.(*listenerv3.Listener); ok {
				l = changed
			}
		}
		of := w.usable(c, func(p *patch) bool {
			return p.matchesListener(l) && (p.applyTo != networking.EnvoyFilter_LISTENER || p.op != networking.EnvoyFilter_Patch_ADD)
		})
		out := edited(&translate.Message{Name: m.Name, Proto: l}, of, editListener, verdictFor(c))
		return append(out, problemMessage(problems)...)
	}
	return w.slot()
}

// Routes returns a slot of route configurations with patches applied. Those whose virtual hosts are sent apart are left
// as they are: proxies with patches of routes are not told of them.
func Routes(slot *translate.Slot, d Direction) *translate.Slot {
	w := &wrapper{inner: slot, group: view.RoutePatches, direction: d}
	w.patched = func(c *view.Context, m *translate.Message) []*translate.Message {
		if rc, ok := m.Proto.(*routev3.RouteConfiguration); !ok || rc.GetVhds() != nil {
			return []*translate.Message{m}
		}
		of := w.usable(c, func(p *patch) bool { return p.matchesConfiguration(m.Name) })
		if len(of) == 0 {
			return []*translate.Message{m}
		}
		body, err := translate.Encode(m)
		whole := &routev3.RouteConfiguration{}
		if err == nil {
			err = proto.Unmarshal(body.Flat(), whole)
		}
		if err != nil {
			return append([]*translate.Message{m}, problemMessage([]error{fmt.Errorf("patching %s: %w", m.Name, err)})...)
		}
		return edited(&translate.Message{Name: m.Name, Proto: whole}, of, editRoutes, check)
	}
	return w.slot()
}

func (w *wrapper) slot() *translate.Slot {
	out := *w.inner
	if w.inner.Units != nil {
		out.Units = w.units
	}
	out.Build = w.build
	return &out
}

// usable returns the patches of the wrapper's group that can be applied and are wanted.
func (w *wrapper) usable(c *view.Context, want func(*patch) bool) []*patch {
	context := w.direction.context(c)
	var out []*patch
	for _, p := range patchesFor(c, w.group, context) {
		if p.usable(context) && want(p) {
			out = append(out, p)
		}
	}
	return out
}

// units lists the inner slot's units, those that patches add, and one for problems if there are any. The inner slot
// decides whether the proxy has resources of this kind at all.
func (w *wrapper) units(c *view.Context) []any {
	units := w.inner.Units(c)
	if len(units) == 0 {
		return nil
	}
	for _, p := range w.usable(c, w.addsResource) {
		units = append(units[:len(units):len(units)], addUnit{p.object, p.index})
	}
	if len(w.problems(c)) > 0 {
		units = append(units[:len(units):len(units)], problemUnit{})
	}
	return units
}

// addsResource tells whether a patch adds a resource here: what is for any context is added once, to what is outbound.
func (w *wrapper) addsResource(p *patch) bool {
	return p.applyTo == w.adds && p.op == networking.EnvoyFilter_Patch_ADD &&
		(w.direction != Inbound || p.context != networking.EnvoyFilter_ANY)
}

// problems are those that patches have whatever they are applied to.
func (w *wrapper) problems(c *view.Context) []error {
	var out []error
	for _, g := range w.reports {
		for _, p := range patchesFor(c, g, w.direction.context(c)) {
			if w.direction == Inbound && p.context == networking.EnvoyFilter_ANY {
				continue // the outbound slot reports it
			}
			if p.err != nil {
				out = append(out, fmt.Errorf("%s: left out: %w", p, p.err))
			} else if p.warning != nil {
				out = append(out, fmt.Errorf("%s: %w", p, p.warning))
			}
		}
	}
	return out
}

func (w *wrapper) build(c *view.Context, unit any) ([]*translate.Message, error) {
	switch u := unit.(type) {
	case problemUnit:
		return problemMessage(w.problems(c)), nil
	case addUnit:
		for _, p := range w.usable(c, w.addsResource) {
			if n, ok := p.value.(interface{ GetName() string }); ok && p.object == u.object && p.index == u.index {
				return []*translate.Message{{Name: n.GetName(), Proto: p.value}}, nil
			}
		}
		return nil, nil
	}
	messages, err := w.inner.Build(c, unit)
	if err != nil || len(messages) == 0 || !w.concerned(c) {
		return messages, err //nolint:wrapcheck // it is the inner slot's to name its unit
	}
	out := make([]*translate.Message, 0, len(messages))
	for _, m := range messages {
		if m.Err != nil || m.Proto == nil {
			out = append(out, m)
			continue
		}
		out = append(out, w.patched(c, m)...)
	}
	return out, nil
}

// concerned tells whether there may be patches for the slot.
func (w *wrapper) concerned(c *view.Context) bool {
	if len(c.EnvoyFilterPatches(w.group)) > 0 {
		return true
	}
	return w.inline() && len(c.EnvoyFilterPatches(view.RoutePatches)) > 0
}

// inline tells whether the slot's resources hold route configurations.
func (w *wrapper) inline() bool { return w.group == view.ListenerPatches && w.direction == Inbound }

// edited returns a message with patches applied; none if they remove it.
func edited(m *translate.Message, patches []*patch, e edit, refuses verdict) []*translate.Message {
	if len(patches) == 0 {
		return []*translate.Message{m}
	}
	out, errs := apply(m.Proto, patches, e, func(out proto.Message) error {
		// The name is what a resource is known by: another would be a second resource with the same bytes.
		if named, ok := out.(interface{ GetName() string }); ok && named.GetName() != m.Name {
			return fmt.Errorf("it would be called %q", named.GetName())
		}
		return refuses(out)
	})
	problems := problemMessage(errs)
	if out == nil {
		return problems
	}
	return append([]*translate.Message{{Name: m.Name, Proto: out}}, problems...)
}

// servedHosts returns the hosts that the proxy's own port serves.
func servedHosts(c *view.Context, port uint32) []string {
	var out []string
	for _, t := range c.Targets() {
		if t.TargetPort == port {
			out = append(out, t.Service.Host)
		}
	}
	return out
}
