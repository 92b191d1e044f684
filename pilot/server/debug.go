package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

func (s *Server) writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		s.log.Debug("debug output was not delivered", "error", err)
	}
}

type syncResource struct {
	Sent      string `json:"sent,omitempty"`
	Acked     string `json:"acked,omitempty"`
	SentTime  string `json:"sentTime,omitempty"`
	LastError string `json:"lastError,omitempty"`
	Status    string `json:"status"`
}

// serveSyncz lists the connected proxies with the nonces sent and acknowledged for each type.
func (s *Server) serveSyncz(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	out := []map[string]any{}
	for _, c := range s.sortedConnections() {
		if namespace != "" && c.Proxy.Namespace != namespace {
			continue
		}
		row := map[string]any{
			"cluster_id": c.Proxy.ClusterID, "proxy": c.Proxy.ID, "proxy_type": string(c.Proxy.Type),
			"istio_version": c.Proxy.Metadata.GetFields()["ISTIO_VERSION"].GetStringValue(),
		}
		resources := map[string]syncResource{}
		for _, t := range c.Status() {
			resources[t.TypeURL] = syncResource{Sent: t.Sent, Acked: t.Acked, SentTime: stamp(t.SentAt), LastError: t.Error, Status: t.Status}
			if p := synczPrefix(t.TypeURL); p != "" {
				row[p+"_sent"], row[p+"_acked"] = t.Sent, t.Acked
			}
		}
		row["resources"] = resources
		out = append(out, row)
	}
	s.writeJSON(w, out)
}

func synczPrefix(typeURL string) string {
	switch typeURL {
	case translate.ClusterType:
		return "cluster"
	case translate.ListenerType:
		return "listener"
	case translate.RouteType:
		return "route"
	case translate.EndpointType:
		return "endpoint"
	case translate.ExtensionType:
		return "extensionconfig"
	}
	return ""
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func (s *Server) sortedConnections() []*xds.Connection {
	list := s.ads.Connections()
	slices.SortFunc(list, func(a, b *xds.Connection) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// serveConfigz lists the objects of the sources in the shape users wrote them.
func (s *Server) serveConfigz(w http.ResponseWriter, _ *http.Request) {
	out := []map[string]any{}
	if pc := s.loop.Current(); pc != nil {
		for o := range pc.AllObjects() {
			spec := o.Spec
			if m, ok := spec.(proto.Message); ok {
				b, err := protojson.Marshal(m)
				if err != nil {
					continue
				}
				spec = json.RawMessage(b)
			}
			if o.Kind == model.KindSecret {
				spec = "redacted"
			}
			out = append(out, map[string]any{
				"kind": string(o.Kind), "origin": o.Origin, "spec": spec,
				"metadata": map[string]any{"name": o.Name, "namespace": o.Namespace, "labels": o.Labels, "annotations": o.Annotations},
			})
		}
	}
	s.writeJSON(w, out)
}

// serveEndpointz lists endpoints by service host, namespace and shard.
func (s *Server) serveEndpointz(w http.ResponseWriter, _ *http.Request) {
	type namespaced struct {
		Shards          map[string][]*model.Endpoint
		ServiceAccounts []string
	}
	out := map[string]map[string]namespaced{}
	if pc := s.loop.Current(); pc != nil {
		for e := range pc.AllEndpoints() {
			n := namespaced{Shards: map[string][]*model.Endpoint{}, ServiceAccounts: e.ServiceAccounts}
			for _, ep := range e.All {
				provider := model.Kubernetes
				if ep.Source.Kind == model.KindServiceEntry {
					provider = model.External
				}
				shard := string(provider) + "/" + ep.Cluster
				n.Shards[shard] = append(n.Shards[shard], ep)
			}
			if out[e.Service.Host] == nil {
				out[e.Service.Host] = map[string]namespaced{}
			}
			out[e.Service.Host][e.Service.Namespace] = n
		}
	}
	s.writeJSON(w, out)
}

// serveConfigDump shows what one proxy holds, in the shape of Envoy's own dump; ?types=cds,lds gives bare resources.
func (s *Server) serveConfigDump(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("proxyID")
	if id == "" {
		http.Error(w, "the query needs proxyID", http.StatusBadRequest)
		return
	}
	for _, c := range s.sortedConnections() {
		if !strings.Contains(c.ID, id) {
			continue
		}
		dump, err := dumpOf(c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		b, err := protojson.MarshalOptions{Multiline: true}.Marshal(dump)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
		return
	}
	http.Error(w, fmt.Sprintf("no connected proxy matches %q", id), http.StatusNotFound)
}

func dumpOf(c *xds.Connection) (*adminv3.ConfigDump, error) {
	clusters, listeners, routes, endpoints := &adminv3.ClustersConfigDump{}, &adminv3.ListenersConfigDump{}, &adminv3.RoutesConfigDump{}, &adminv3.EndpointsConfigDump{}
	each(c, translate.ClusterType, func(a *anypb.Any, r *xds.Resource) {
		clusters.DynamicActiveClusters = append(clusters.DynamicActiveClusters, &adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: r.Version, Cluster: a})
	})
	each(c, translate.ListenerType, func(a *anypb.Any, r *xds.Resource) {
		listeners.DynamicListeners = append(listeners.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{
			Name: r.Name, ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: r.Version, Listener: a},
		})
	})
	apart := c.Resources(translate.VirtualHostType)
	each(c, translate.RouteType, func(a *anypb.Any, r *xds.Resource) {
		a.Value = join(a.Value, r.Name, apart)
		routes.DynamicRouteConfigs = append(routes.DynamicRouteConfigs, &adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: r.Version, RouteConfig: a})
	})
	each(c, translate.EndpointType, func(a *anypb.Any, r *xds.Resource) {
		endpoints.DynamicEndpointConfigs = append(endpoints.DynamicEndpointConfigs, &adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: r.Version, EndpointConfig: a})
	})
	out := &adminv3.ConfigDump{}
	for _, m := range []proto.Message{&adminv3.BootstrapConfigDump{}, clusters, listeners, &adminv3.ScopedRoutesConfigDump{}, routes, endpoints} {
		a, err := anypb.New(m)
		if err != nil {
			return nil, fmt.Errorf("dump %s: %w", c.ID, err)
		}
		out.Configs = append(out.Configs, a)
	}
	return out, nil
}

// join puts the virtual hosts that were sent apart from a route configuration into it, as Envoy's own dump has them.
func join(body []byte, route string, hosts map[string]*xds.Resource) []byte {
	const virtualHosts = 2 // the field of RouteConfiguration; repeated fields may come in pieces
	for _, n := range slices.Sorted(maps.Keys(hosts)) {
		if i := strings.LastIndexByte(n, '/'); i >= 0 && n[:i] == route {
			body = protowire.AppendTag(body[:len(body):len(body)], virtualHosts, protowire.BytesType)
			body = protowire.AppendBytes(body, hosts[n].Body.Flat())
		}
	}
	return body
}

func each(c *xds.Connection, typeURL string, f func(*anypb.Any, *xds.Resource)) {
	resources := c.Resources(typeURL)
	for _, n := range slices.Sorted(maps.Keys(resources)) {
		r := resources[n]
		f(&anypb.Any{TypeUrl: typeURL, Value: r.Body.Flat()}, r)
	}
}

// servePushStatus lists the resources that cannot be made, and those that proxies rejected.
func (s *Server) servePushStatus(w http.ResponseWriter, _ *http.Request) {
	rejected := map[string][]map[string]any{}
	for _, c := range s.sortedConnections() {
		for _, r := range c.Rejections() {
			rejected[c.ID] = append(rejected[c.ID], map[string]any{
				"type": r.TypeURL, "resource": r.Resource, "message": r.Message, "objects": s.makersOf(r),
			})
		}
	}
	s.writeJSON(w, map[string]any{"unbuilt": s.engine.Problems(), "rejected": rejected})
}

// makersOf names the objects that a rejected resource is made from.
func (s *Server) makersOf(r xds.Rejection) []string {
	pc := s.loop.Current()
	if pc == nil || r.Origin == nil {
		return nil
	}
	var out []string
	for _, k := range pc.Makers(r.Origin()) {
		out = append(out, k.String())
	}
	return out
}

// serveProblemz lists the mistakes in the sources' input.
func (s *Server) serveProblemz(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, s.loop.AllProblems())
}
