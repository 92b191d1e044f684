package model

import (
	"cmp"
	"strings"
	"time"
)

// Kind is the kind of an object, without its version.
type Kind string

// The kinds that the control plane reads. Values are the Kubernetes kinds; the two Gateways are told apart.
const (
	KindService               Kind = "Service"
	KindEndpointSlice         Kind = "EndpointSlice"
	KindPod                   Kind = "Pod"
	KindNode                  Kind = "Node"
	KindNamespace             Kind = "Namespace"
	KindSecret                Kind = "Secret"
	KindConfigMap             Kind = "ConfigMap"
	KindIngress               Kind = "Ingress"
	KindIngressClass          Kind = "IngressClass"
	KindVirtualService        Kind = "VirtualService"
	KindDestinationRule       Kind = "DestinationRule"
	KindGateway               Kind = "Gateway"
	KindServiceEntry          Kind = "ServiceEntry"
	KindWorkloadEntry         Kind = "WorkloadEntry"
	KindWorkloadGroup         Kind = "WorkloadGroup"
	KindSidecar               Kind = "Sidecar"
	KindEnvoyFilter           Kind = "EnvoyFilter"
	KindProxyConfig           Kind = "ProxyConfig"
	KindAuthorizationPolicy   Kind = "AuthorizationPolicy"
	KindPeerAuthentication    Kind = "PeerAuthentication"
	KindRequestAuthentication Kind = "RequestAuthentication"
	KindTelemetry             Kind = "Telemetry"
	KindWasmPlugin            Kind = "WasmPlugin"
	KindTrafficExtension      Kind = "TrafficExtension"
	KindKubernetesGateway     Kind = "KubernetesGateway"
	KindGatewayClass          Kind = "GatewayClass"
	KindHTTPRoute             Kind = "HTTPRoute"
	KindGRPCRoute             Kind = "GRPCRoute"
	KindTLSRoute              Kind = "TLSRoute"
	KindTCPRoute              Kind = "TCPRoute"
	KindUDPRoute              Kind = "UDPRoute"
	KindReferenceGrant        Kind = "ReferenceGrant"
	KindBackendTLSPolicy      Kind = "BackendTLSPolicy"
	KindListenerSet           Kind = "ListenerSet"
)

// ObjectKey names an object of one source world.
type ObjectKey struct {
	Kind      Kind
	Namespace string // empty for cluster-scoped kinds
	Name      string
}

// String returns Kind/namespace/name, the form used in logs, errors and debug output.
func (k ObjectKey) String() string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// Compare orders keys by kind, namespace and name.
func (k ObjectKey) Compare(o ObjectKey) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Row returns "namespace/name", the key of the object in its table.
func (k ObjectKey) Row() string { return k.Namespace + "/" + k.Name }

// Object is one user's object as a source delivered it. It and all it points to are immutable.
type Object struct {
	ObjectKey
	Labels          map[string]string
	Annotations     map[string]string
	Created         time.Time // zero if the source does not know
	Generation      int64
	ResourceVersion string
	// Origin says where the object came from, for people: "file.yaml:12" or a cluster's name.
	Origin string
	// Spec is the typed content, by kind: *networking.X, *security.X, *telemetry.X, *extensions.X of istio.io/api for
	// Istio kinds (the spec message alone); the whole stripped *corev1.Service, *corev1.Pod, *corev1.Node,
	// *corev1.Namespace, *corev1.Secret, *corev1.ConfigMap, *discoveryv1.EndpointSlice, *networkingv1.Ingress, ... and
	// the whole sigs.k8s.io/gateway-api object for the others.
	Spec any
	// Status is the Istio status message (*meta.IstioStatus, *networking.ServiceEntryStatus), or nil.
	Status any
}

// Older orders objects by creation: time, then name, then namespace.
func Older(a, b *Object) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Namespace, b.Namespace)
}

// Event is one change of an object: a nil Object means that the object is gone.
type Event struct {
	Key    ObjectKey
	Object *Object
}
