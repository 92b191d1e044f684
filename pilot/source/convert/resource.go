package convert

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	meta "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingbeta "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// The API groups of the kinds that are read.
const (
	GroupCore         = ""
	GroupDiscovery    = "discovery.k8s.io"
	GroupNetworking   = "networking.k8s.io"
	GroupGatewayAPI   = "gateway.networking.k8s.io"
	GroupIstioNetwork = "networking.istio.io"
	GroupIstioSec     = "security.istio.io"
	GroupIstioTele    = "telemetry.istio.io"
	GroupIstioExt     = "extensions.istio.io"
)

// Resource describes one kind that is read. It is immutable.
type Resource struct {
	Kind  model.Kind
	Group string
	// Name is the kind as manifests spell it: "Gateway" for both Gateways.
	Name string
	// Versions are the versions that are accepted in manifests; the first is the one watched in a cluster.
	Versions   []string
	Plural     string
	Namespaced bool
	// UserWritten says that people write the kind: unknown fields of its spec are mistakes, not news.
	UserWritten bool

	newSpec   func() proto.Message // Istio kinds
	newStatus func() proto.Message // Istio kinds
	newTyped  func() typed         // all others
}

// Istio says whether the kind is one of Istio's, whose spec is a protobuf message.
func (r *Resource) Istio() bool { return r.newSpec != nil }

// CustomResource says whether the kind comes from a CustomResourceDefinition, which a cluster may lack.
func (r *Resource) CustomResource() bool { return r.Istio() || r.Group == GroupGatewayAPI }

// Watched returns the version of the kind that is read from clusters.
func (r *Resource) Watched() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Versions[0], Resource: r.Plural}
}

// CRD returns the name of the kind's CustomResourceDefinition.
func (r *Resource) CRD() string { return r.Plural + "." + r.Group }

// Catalog is the set of kinds that are read. It is immutable.
type Catalog struct {
	all    []*Resource
	byKind map[model.Kind]*Resource
	byName map[[2]string]*Resource // group, name
	groups map[string]bool
}

// NewCatalog returns the catalog of all kinds.
func NewCatalog() *Catalog {
	c := &Catalog{
		all:    slices.Concat(kubernetesResources(), gatewayResources(), istioResources()),
		byKind: map[model.Kind]*Resource{}, byName: map[[2]string]*Resource{}, groups: map[string]bool{},
	}
	for _, r := range c.all {
		c.byKind[r.Kind] = r
		c.byName[[2]string{r.Group, r.Name}] = r
		c.groups[r.Group] = true
	}
	return c
}

// All returns every kind, in a fixed order.
func (c *Catalog) All() []*Resource { return c.all }

// Kind returns the resource of a kind, or nil.
func (c *Catalog) Kind(k model.Kind) *Resource { return c.byKind[k] }

// Match says what an apiVersion and kind of a manifest mean.
type Match int

// The matches: a kind that is not ours is to be ignored, the two mistakes are to be reported.
const (
	Foreign Match = iota
	Known
	UnknownKind
	UnknownVersion
)

// Lookup finds the resource of a manifest's apiVersion and kind.
func (c *Catalog) Lookup(apiVersion, kind string) (*Resource, Match) {
	group, version := "", apiVersion
	if i := strings.LastIndexByte(apiVersion, '/'); i >= 0 {
		group, version = apiVersion[:i], apiVersion[i+1:]
	}
	r := c.byName[[2]string{group, kind}]
	switch {
	case r != nil && slices.Contains(r.Versions, version):
		return r, Known
	case r != nil:
		return nil, UnknownVersion
	case strings.HasSuffix(group, ".istio.io") && c.groups[group]:
		return nil, UnknownKind
	}
	return nil, Foreign
}

func kubernetesResources() []*Resource {
	core := func(k model.Kind, plural string, namespaced, user bool, mk func() typed) *Resource {
		return &Resource{
			Kind: k, Group: GroupCore, Name: string(k), Versions: []string{"v1"}, Plural: plural,
			Namespaced: namespaced, UserWritten: user, newTyped: mk,
		}
	}
	out := []*Resource{
		core(model.KindNamespace, "namespaces", false, false, func() typed { return &corev1.Namespace{} }),
		core(model.KindNode, "nodes", false, false, func() typed { return &corev1.Node{} }),
		core(model.KindService, "services", true, true, func() typed { return &corev1.Service{} }),
		core(model.KindPod, "pods", true, false, func() typed { return &corev1.Pod{} }),
		core(model.KindSecret, "secrets", true, false, func() typed { return &corev1.Secret{} }),
		core(model.KindConfigMap, "configmaps", true, false, func() typed { return &corev1.ConfigMap{} }),
	}
	slice := core(model.KindEndpointSlice, "endpointslices", true, false, func() typed { return &discoveryv1.EndpointSlice{} })
	slice.Group = GroupDiscovery
	ingress := core(model.KindIngress, "ingresses", true, true, func() typed { return &networkingv1.Ingress{} })
	ingress.Group = GroupNetworking
	class := core(model.KindIngressClass, "ingressclasses", false, true, func() typed { return &networkingv1.IngressClass{} })
	class.Group = GroupNetworking
	return append(out, slice, ingress, class)
}

// gatewayResources lists the Gateway API kinds. Older versions have the same schema as v1 as far as v1 knows it; all
// are decoded into the v1 types.
func gatewayResources() []*Resource {
	const v1, alpha2, alpha3, beta1 = "v1", "v1alpha2", "v1alpha3", "v1beta1"
	gw := func(k model.Kind, plural string, namespaced bool, mk func() typed, versions ...string) *Resource {
		return &Resource{
			Kind: k, Group: GroupGatewayAPI, Name: string(k), Versions: versions, Plural: plural,
			Namespaced: namespaced, UserWritten: true, newTyped: mk,
		}
	}
	gateway := gw(model.KindKubernetesGateway, "gateways", true, func() typed { return &gatewayv1.Gateway{} }, v1, beta1)
	gateway.Name = "Gateway"
	return []*Resource{
		gw(model.KindGatewayClass, "gatewayclasses", false, func() typed { return &gatewayv1.GatewayClass{} }, v1, beta1),
		gateway,
		gw(model.KindHTTPRoute, "httproutes", true, func() typed { return &gatewayv1.HTTPRoute{} }, v1, beta1),
		gw(model.KindGRPCRoute, "grpcroutes", true, func() typed { return &gatewayv1.GRPCRoute{} }, v1, alpha2),
		gw(model.KindTLSRoute, "tlsroutes", true, func() typed { return &gatewayv1.TLSRoute{} }, v1, alpha3, alpha2),
		gw(model.KindTCPRoute, "tcproutes", true, func() typed { return &gatewayv1.TCPRoute{} }, v1, alpha2),
		gw(model.KindUDPRoute, "udproutes", true, func() typed { return &gatewayv1.UDPRoute{} }, v1, alpha2),
		gw(model.KindReferenceGrant, "referencegrants", true,
			func() typed { return &gatewayv1.ReferenceGrant{} }, beta1, v1, alpha2),
		gw(model.KindBackendTLSPolicy, "backendtlspolicies", true,
			func() typed { return &gatewayv1.BackendTLSPolicy{} }, v1, alpha3),
		gw(model.KindListenerSet, "listenersets", true, func() typed { return &gatewayv1.ListenerSet{} }, v1),
	}
}

func istioResources() []*Resource {
	status := func() proto.Message { return &meta.IstioStatus{} }
	is := func(k model.Kind, group, plural string, mk func() proto.Message, versions ...string) *Resource {
		return &Resource{
			Kind: k, Group: group, Name: string(k), Versions: versions, Plural: plural,
			Namespaced: true, UserWritten: true, newSpec: mk, newStatus: status,
		}
	}
	net := func(k model.Kind, plural string, mk func() proto.Message) *Resource {
		return is(k, GroupIstioNetwork, plural, mk, "v1", "v1beta1", "v1alpha3")
	}
	entry := net(model.KindServiceEntry, "serviceentries", func() proto.Message { return &networking.ServiceEntry{} })
	entry.newStatus = func() proto.Message { return &networking.ServiceEntryStatus{} }
	return []*Resource{
		net(model.KindVirtualService, "virtualservices", func() proto.Message { return &networking.VirtualService{} }),
		net(model.KindDestinationRule, "destinationrules", func() proto.Message { return &networking.DestinationRule{} }),
		net(model.KindGateway, "gateways", func() proto.Message { return &networking.Gateway{} }),
		entry,
		net(model.KindWorkloadEntry, "workloadentries", func() proto.Message { return &networking.WorkloadEntry{} }),
		net(model.KindWorkloadGroup, "workloadgroups", func() proto.Message { return &networking.WorkloadGroup{} }),
		net(model.KindSidecar, "sidecars", func() proto.Message { return &networking.Sidecar{} }),
		is(model.KindEnvoyFilter, GroupIstioNetwork, "envoyfilters",
			func() proto.Message { return &networking.EnvoyFilter{} }, "v1alpha3"),
		is(model.KindProxyConfig, GroupIstioNetwork, "proxyconfigs",
			func() proto.Message { return &networkingbeta.ProxyConfig{} }, "v1beta1"),
		is(model.KindAuthorizationPolicy, GroupIstioSec, "authorizationpolicies",
			func() proto.Message { return &security.AuthorizationPolicy{} }, "v1", "v1beta1"),
		is(model.KindPeerAuthentication, GroupIstioSec, "peerauthentications",
			func() proto.Message { return &security.PeerAuthentication{} }, "v1", "v1beta1"),
		is(model.KindRequestAuthentication, GroupIstioSec, "requestauthentications",
			func() proto.Message { return &security.RequestAuthentication{} }, "v1", "v1beta1"),
		is(model.KindTelemetry, GroupIstioTele, "telemetries",
			func() proto.Message { return &telemetry.Telemetry{} }, "v1", "v1alpha1"),
		is(model.KindWasmPlugin, GroupIstioExt, "wasmplugins",
			func() proto.Message { return &extensions.WasmPlugin{} }, "v1alpha1"),
		is(model.KindTrafficExtension, GroupIstioExt, "trafficextensions",
			func() proto.Message { return &extensions.TrafficExtension{} }, "v1alpha1"),
	}
}
