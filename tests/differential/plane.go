package differential

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
)

// plane is a control plane without sources and transport: builder and engine.
type plane struct {
	engine  *xds.Engine
	builder *model.Builder
	version int
	stop    context.CancelFunc
}

func newPlane(settings *model.Settings, mesh *model.Mesh) *plane {
	ctx, cancel := context.WithCancel(context.Background())
	p := &plane{engine: server.NewEngine(slog.New(slog.DiscardHandler), nil), builder: model.NewBuilder(settings, mesh), stop: cancel}
	go p.engine.Run(ctx.Done())
	return p
}

// apply commits events and waits until every class holds the result.
func (p *plane) apply(events []model.Event, mesh *model.Mesh) error {
	pc, keys := p.builder.Apply(events, mesh)
	p.version++
	done := make(chan struct{})
	if err := p.engine.Commit(pc, keys, fmt.Sprint("v", p.version), func() { close(done) }); err != nil {
		return err
	}
	<-done
	return nil
}

// nameSet is a plain set for the engine.
type nameSet map[string]struct{}

func (n nameSet) All() iter.Seq[string] { return maps.Keys(n) }
func (n nameSet) Len() int              { return len(n) }
func (n nameSet) Has(s string) bool     { _, ok := n[s]; return ok }

// member is one proxy of the drawn mesh.
type member struct {
	name string
	node *corev3.Node
	// routes are set for gRPC clients without a proxy.
	routes []string
}

// members are proxies of all kinds: in several namespaces, known as pods or not, stock and Istio's, with and without
// redirection, and a gRPC client.
func members() []member {
	stock := []*corev3.Extension{{Name: "envoy.filters.http.router", Category: "envoy.filters.http"}}
	return []member{
		{name: "p1.a", node: node("p1", "a", "10.1.1.1", nil, nil)},
		{name: "p2.a", node: node("p2", "a", "10.1.1.2", nil, stock)},
		{name: "p3.a", node: node("p3", "a", "10.1.1.3", map[string]any{"DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "true"}, nil)},
		{name: "p1.b", node: node("p1", "b", "10.1.2.1", map[string]any{"NETWORK": "net1", "ISTIO_VERSION": "1.30.1"}, nil)},
		{name: "p2.b", node: node("p2", "b", "10.1.2.2", map[string]any{"INTERCEPTION_MODE": "NONE"}, stock)},
		{name: "vm.b", node: node("vm", "b", "10.2.0.1", map[string]any{"LABELS": map[string]any{"app": "one", "version": "v2"}}, nil)},
		{name: "out.c", node: node("out", "c", "10.9.9.9", map[string]any{"LABELS": map[string]any{"app": "three"}}, nil)},
		{name: "grpc.a", node: node("grpc", "a", "10.9.9.8", map[string]any{"GENERATOR": "grpc"}, nil), routes: []string{
			"outbound|80||s1.a.svc.cluster.local", "outbound|80||s2.a.svc.cluster.local", "outbound|80||ext.example", "outbound|81||s1.b.svc.cluster.local",
		}},
	}
}

func node(name, namespace, ip string, more map[string]any, extensions []*corev3.Extension) *corev3.Node {
	fields := map[string]any{
		"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.32.0", "INSTANCE_IPS": ip, "NAME": name, "SERVICE_ACCOUNT": "sa1",
	}
	maps.Copy(fields, more)
	md, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err) // the table above is wrong
	}
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.cluster.local", ip, name, namespace, namespace), Metadata: md, Extensions: extensions,
	}
}

// asker takes from an engine all that one proxy is to be sent, without a session.
type asker struct {
	member
	delta  bool
	client *xds.Client
	reader *proxy.Reader
	want   map[string]nameSet
}

func (p *plane) asker(m member, delta bool, reader *proxy.Reader) (*asker, error) {
	parsed, err := view.ParseNode(m.node, view.NodeDefaults{})
	if err != nil {
		return nil, err
	}
	parsed.Delta = delta
	a := &asker{member: m, delta: delta, reader: reader, want: map[string]nameSet{}}
	if a.client, err = p.engine.Attach(parsed, func() {}); err != nil {
		return nil, err
	}
	if m.routes != nil {
		a.demand(translate.RouteType, slices.Values(m.routes))
		return a, nil
	}
	for _, url := range []string{translate.ClusterType, translate.ListenerType, translate.NameTableType} {
		a.client.Use(url)
	}
	return a, nil
}

// demand makes names what the proxy wants, and tells whether that differs from before.
func (a *asker) demand(url string, list iter.Seq[string]) bool {
	set := nameSet{}
	for n := range list {
		set[n] = struct{}{}
	}
	if maps.Equal(set, a.want[url]) {
		return false
	}
	a.want[url] = set
	if url == translate.ClusterType {
		a.client.Use(url) // the engine knows clusters as a whole; sessions choose
	} else {
		a.client.Demand(url, &set) // the engine compares sets, which maps cannot be
	}
	return true
}

// content is what one proxy is to hold: the versions by slot and name, and the bodies by type and name.
type content struct {
	slots  map[string]map[string]string
	bodies map[string]map[string]string
}

// settle asks for what the resources lead to until nothing new comes, and returns the content.
func (a *asker) settle(p *plane) (content, error) {
	for range 6 {
		<-p.engine.Settled()
		c := a.look()
		more, err := a.follow(c)
		if err != nil || !more {
			return c, err
		}
	}
	return content{}, fmt.Errorf("%s: asks for ever more", a.name)
}

func (a *asker) look() content {
	c := content{slots: map[string]map[string]string{}, bodies: map[string]map[string]string{}}
	for url, states := range a.client.Published().Types {
		c.bodies[url] = map[string]string{}
		for _, st := range states {
			slot := map[string]string{}
			for name, r := range st.Items.All() {
				if w := a.want[url]; w != nil && !w.Has(name) && (url != translate.VirtualHostType || !w.Has(routeOf(name))) {
					continue
				}
				if r == nil {
					continue // asked for, and there is none
				}
				slot[name] = r.Version
				if _, taken := c.bodies[url][name]; !taken {
					c.bodies[url][name] = string(r.Body.Flat())
				}
			}
			c.slots[st.Slot.Name] = slot
		}
	}
	return c
}

func routeOf(host string) string { return host[:max(strings.LastIndexByte(host, '/'), 0)] }

// follow asks for endpoints of clusters, routes of listeners, and so on, and tells whether there was anything new.
func (a *asker) follow(c content) (more bool, err error) {
	chain := [][2]string{{translate.ClusterType, translate.EndpointType}, {translate.ListenerType, translate.RouteType}}
	if a.routes != nil {
		chain = [][2]string{{translate.RouteType, translate.ClusterType}, {translate.ClusterType, translate.EndpointType}}
	}
	for _, step := range chain {
		found := map[string]struct{}{}
		for _, body := range c.bodies[step[0]] {
			needs, err := a.reader.Of(step[0], body)
			if err != nil {
				return false, err
			}
			for _, n := range needs.Names {
				found[n] = struct{}{}
			}
		}
		if len(found) > 0 || a.want[step[1]] != nil {
			more = a.demand(step[1], maps.Keys(found)) || more
		}
	}
	if w := a.want[translate.RouteType]; w != nil && a.routes == nil {
		more = a.demand(translate.VirtualHostType, w.All()) || more
	}
	return more, nil
}
