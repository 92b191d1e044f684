package parity

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

func typeURLs() map[string]string {
	return map[string]string{
		"cds": translate.ClusterType, "eds": translate.EndpointType, "lds": translate.ListenerType, "rds": translate.RouteType,
		"nds": translate.NameTableType, "ecds": translate.ExtensionType, "sds": translate.SecretType,
	}
}

// names is a plain set for the engine.
type names map[string]struct{}

func (n names) All() iter.Seq[string] { return maps.Keys(n) }
func (n names) Len() int              { return len(n) }
func (n names) Has(s string) bool     { _, ok := n[s]; return ok }

// plane is a control plane without transport: builder and engine on a scenario's objects.
type plane struct {
	engine *xds.Engine
	stop   context.CancelFunc
}

func startPlane(s *scenario) (*plane, error) {
	log := slog.New(slog.DiscardHandler)
	e := server.NewEngine(log, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go e.Run(ctx.Done())
	b := model.NewBuilder(s.settings, s.mesh)
	events := make([]model.Event, len(s.objects))
	for i, o := range s.objects {
		events[i] = model.Event{Key: o.ObjectKey, Object: o}
	}
	pc, keys := b.Apply(events, nil)
	done := make(chan struct{})
	if err := e.Commit(pc, keys, "v", func() { close(done) }); err != nil {
		cancel()
		return nil, err
	}
	<-done
	return &plane{e, cancel}, nil
}

// asker is one proxy that subscribes as an Envoy does: endpoints for clusters, routes for listeners.
type asker struct {
	client *xds.Client
	notify chan struct{}
	want   map[string]names
}

func (p *plane) ask(spec *proxySpec) (recording, error) {
	proxy, err := view.ParseNode(spec.node, view.NodeDefaults{})
	if err != nil {
		return nil, err
	}
	proxy.Verified = spec.Token != ""
	a := &asker{notify: make(chan struct{}, 1), want: map[string]names{}}
	a.client, err = p.engine.Attach(proxy, func() {
		select {
		case a.notify <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer a.client.Close()
	urls := typeURLs()
	for _, t := range spec.Types {
		switch t {
		case "cds", "lds", "nds":
			if len(spec.Names[t]) == 0 {
				a.client.Use(urls[t])
			} else {
				a.demand(urls[t], spec.Names[t])
			}
		default:
			a.demand(urls[t], spec.Names[t])
		}
	}
	a.await(p)
	rec := recording{}
	for round := range 3 {
		for _, t := range spec.Types {
			rec[t] = a.collect(urls[t])
		}
		if round == 2 || !a.follow(spec, rec) {
			break
		}
		a.await(p)
	}
	return rec, nil
}

// await waits until everything asked for so far is published.
func (a *asker) await(p *plane) { <-p.engine.Settled() }

func (a *asker) demand(url string, more []string) bool {
	set := names{}
	maps.Copy(set, a.want[url])
	before := len(set)
	for _, n := range more {
		set[n] = struct{}{}
	}
	a.want[url] = set
	a.client.Demand(url, &set) // the engine compares sets, which maps cannot be
	return len(set) > before
}

func (a *asker) collect(url string) map[string]any {
	out := map[string]any{}
	for _, st := range a.client.Published().Types[url] {
		for name, r := range st.Items.All() {
			if r == nil {
				continue
			}
			if w := a.want[url]; w != nil && !w.Has(name) {
				continue
			}
			out[name] = renderBytes(url, r.Body.Flat())
		}
	}
	return out
}

func renderBytes(url string, body []byte) any {
	mt, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return err.Error()
	}
	m := mt.New().Interface()
	if err := proto.Unmarshal(body, m); err != nil {
		return err.Error()
	}
	v := render(m.ProtoReflect())
	if o, ok := v.(map[string]any); ok {
		o["@type"] = url
	}
	return v
}

// follow subscribes what the resources so far name, and reports whether there was anything new.
func (a *asker) follow(spec *proxySpec, rec recording) bool {
	urls, children := typeURLs(), map[string][]string{}
	for name, c := range rec["cds"] {
		if o, ok := c.(map[string]any); ok && o["type"] == "EDS" {
			if e, ok := o["eds_cluster_config"].(map[string]any); ok {
				if s, ok := e["service_name"].(string); ok {
					name = s
				}
			}
			children["eds"] = append(children["eds"], name)
		}
	}
	for _, l := range rec["lds"] {
		walk(l, func(o map[string]any) {
			if rds, ok := o["rds"].(map[string]any); ok {
				children["rds"] = append(children["rds"], fmt.Sprint(rds["route_config_name"]))
			}
			if _, ok := o["config_discovery"].(map[string]any); ok {
				children["ecds"] = append(children["ecds"], fmt.Sprint(o["name"]))
			}
		})
	}
	more := false
	for t, list := range children {
		if slices.Contains(spec.Types, t) {
			more = a.demand(urls[t], list) || more
		}
	}
	return more
}

func walk(v any, f func(map[string]any)) {
	switch x := v.(type) {
	case map[string]any:
		f(x)
		for _, c := range x {
			walk(c, f)
		}
	case []any:
		for _, c := range x {
			walk(c, f)
		}
	}
}

// skipped tells which types a recording holds that are judged elsewhere, and why.
func skipped(t string) string {
	if t == "sds" {
		return "needs authenticated proxies"
	}
	if strings.HasPrefix(t, "wds") || t == "wads" || t == "workload" || t == "pcds" {
		return "ztunnel's types are not served yet"
	}
	return ""
}
