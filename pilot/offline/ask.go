package offline

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Subscription is what a proxy asks for at first.
type Subscription struct {
	// Types are the type URLs that the proxy asks for at all.
	Types []string
	// Names are, by type URL, the names it asks for from the beginning. Clusters, listeners and name tables without any
	// are asked for as a whole.
	Names map[string][]string
	// Routed says that the proxy asks for the clusters that its routes name, as gRPC libraries do, and no others.
	Routed bool
	// Verified says that the client has proved its identity.
	Verified bool
}

// Resource is one resource as a proxy gets it.
type Resource struct {
	TypeURL, Name string
	Message       proto.Message
	// Objects are the users' objects that the resource was made from.
	Objects []model.ObjectKey
}

// Resources are what a proxy gets, by type URL and name.
type Resources map[string]map[string]*Resource

// rounds bounds how often a proxy asks again: listeners lead to routes, those to clusters, and those to endpoints.
const rounds = 4

// Ask returns what the proxy that states the node gets. Like an Envoy it goes on to ask for the endpoints of its clusters
// and for the routes and extensions of its listeners, as far as these are among the types. Errors are those of the node.
func (p *Plane) Ask(node *corev3.Node, s Subscription) (Resources, error) {
	proxy, err := view.ParseNode(node, view.NodeDefaults{})
	if err != nil {
		return nil, err
	}
	proxy.Verified = s.Verified
	a := &asker{plane: p, want: map[string]names{}}
	// Settled says when there is something to look at, so the engine need not.
	if a.client, err = p.engine.Attach(proxy, func() {}); err != nil {
		return nil, err
	}
	defer a.client.Close()
	for _, t := range s.Types {
		if whole(t) && len(s.Names[t]) == 0 && (!s.Routed || t != translate.ClusterType) {
			a.client.Use(t)
		} else {
			a.demand(t, s.Names[t])
		}
	}
	out := Resources{}
	for round := range rounds {
		<-p.engine.Settled()
		for _, t := range s.Types {
			if out[t], err = a.collect(t); err != nil {
				return nil, err
			}
		}
		if round == rounds-1 || !a.follow(s, out) {
			break
		}
	}
	p.attribute(out, a.origins)
	return out, nil
}

// whole tells whether proxies may ask for all of a type.
func whole(typeURL string) bool {
	switch typeURL {
	case translate.ClusterType, translate.ListenerType, translate.NameTableType:
		return true
	}
	return false
}

// names is a plain set for the engine.
type names map[string]struct{}

// All implements xds.Names.
func (n names) All() iter.Seq[string] { return maps.Keys(n) }

// Len implements xds.Names.
func (n names) Len() int { return len(n) }

// Has implements xds.Names.
func (n names) Has(s string) bool { _, ok := n[s]; return ok }

// asker is one proxy.
type asker struct {
	plane   *Plane
	client  *xds.Client
	want    map[string]names
	origins map[*Resource]func() model.Origin // of what was collected last
}

// demand asks for more names of a type and reports whether any is new.
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

func (a *asker) collect(url string) (map[string]*Resource, error) {
	out := map[string]*Resource{}
	if a.origins == nil {
		a.origins = map[*Resource]func() model.Origin{}
	}
	for _, st := range a.client.Published().Types[url] {
		for name, r := range st.Items.All() {
			if r == nil {
				continue
			}
			if w := a.want[url]; w != nil && !w.Has(name) {
				continue
			}
			m, err := decode(url, r.Body.Flat())
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			made := &Resource{TypeURL: url, Name: name, Message: m}
			out[name], a.origins[made] = made, r.Origin
		}
	}
	return out, nil
}

func decode(url string, body []byte) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return nil, err
	}
	m := t.New().Interface()
	return m, proto.Unmarshal(body, m)
}

// follow subscribes what the resources so far name, and reports whether there was anything new.
func (a *asker) follow(s Subscription, got Resources) bool {
	children := map[string][]string{}
	for _, byName := range got {
		for _, r := range byName {
			needs(r.Message, func(url, name string) { children[url] = append(children[url], name) })
		}
	}
	if !s.Routed {
		delete(children, translate.ClusterType)
	}
	more := false
	for url, list := range children {
		if slices.Contains(s.Types, url) {
			more = a.demand(url, list) || more
		}
	}
	return more
}

// attribute names the objects behind each resource.
func (p *Plane) attribute(all Resources, origins map[*Resource]func() model.Origin) {
	for _, byName := range all {
		for _, r := range byName {
			if origin := origins[r]; origin != nil {
				r.Objects = p.push.Makers(origin())
			}
		}
	}
}
