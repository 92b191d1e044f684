package offline

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source/selection"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Plane is a control plane without transport. Its methods may be called from any goroutine.
type Plane struct {
	engine   *xds.Engine
	push     *model.PushContext
	settings *model.Settings
	mesh     *model.Mesh
	objects  map[model.ObjectKey]*model.Object
	stop     context.CancelFunc
}

// Start computes the objects' derived tables and starts an engine on them; those of other revisions, and of namespaces that
// the mesh configuration does not select, do not count. Whoever calls it calls Stop.
func Start(settings *model.Settings, mesh *model.Mesh, objects []*model.Object) (*Plane, error) {
	selectors, err := selection.Parse(mesh.Config.GetDiscoverySelectors())
	if err != nil {
		return nil, err
	}
	objects = selection.Objects(objects, settings.Revision, settings.SystemNamespace, selectors)
	p := &Plane{
		engine: server.NewEngine(slog.New(slog.DiscardHandler), nil), settings: settings, mesh: mesh,
		objects: make(map[model.ObjectKey]*model.Object, len(objects)),
	}
	events := make([]model.Event, len(objects))
	for i, o := range objects {
		events[i] = model.Event{Key: o.ObjectKey, Object: o}
		p.objects[o.ObjectKey] = o
	}
	push, keys := model.NewBuilder(settings, mesh).Apply(events, nil)
	p.push = push
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go p.engine.Run(ctx.Done())
	done := make(chan struct{})
	if err := p.engine.Commit(push, keys, "v", func() { close(done) }); err != nil {
		cancel()
		return nil, err
	}
	<-done
	return p, nil
}

// Stop ends the engine.
func (p *Plane) Stop() { p.stop() }

// Unbuilt returns the resources that could not be made for the proxies that asked so far, with the reason.
func (p *Plane) Unbuilt() map[string]string { return p.engine.Problems() }

// Services returns every service of the mesh, by the namespaces that hold them.
func (p *Plane) Services() []*model.Service {
	namespaces := map[string]struct{}{}
	for k := range p.objects {
		namespaces[k.Namespace] = struct{}{}
	}
	reader := model.NewReader(p.push, nil)
	var out []*model.Service
	for _, ns := range slices.Sorted(maps.Keys(namespaces)) {
		out = append(out, reader.NamespaceServices(ns)...)
	}
	return out
}
