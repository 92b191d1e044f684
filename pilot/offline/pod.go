package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Names of the sidecar's container and of what else tells that a pod has one.
const (
	proxyContainer  = "istio-proxy"
	statusNote      = "sidecar.istio.io/status"
	interceptNote   = "sidecar.istio.io/interceptionMode"
	proxyConfigNote = "proxy.istio.io/config"
	tlsModeLabel    = "security.istio.io/tlsMode"
	networkLabel    = "topology.istio.io/network"
	nameLabel       = "service.istio.io/canonical-name"
	revisionLabel   = "service.istio.io/canonical-revision"
	// metaPrefix is that of a proxy's environment variables that become metadata of its node.
	metaPrefix = "ISTIO_META_"
)

// Pod returns the pod that is meant by "pod", "pod.namespace" or "namespace/pod". A name alone must be unique.
func (p *Plane) Pod(name string) (*corev1.Pod, error) {
	namespace, rest, slashed := strings.Cut(name, "/")
	if !slashed {
		namespace, rest = "", name
	}
	var found []*corev1.Pod
	for _, o := range p.sorted(model.KindPod) {
		pod, ok := o.Spec.(*corev1.Pod)
		if !ok {
			continue
		}
		switch {
		case slashed && (o.Namespace != namespace || o.Name != rest):
		case slashed || o.Name == name || o.Name+"."+o.Namespace == name:
			found = append(found, pod)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("no pod %q among the manifests; %s", name, p.podsText())
	case len(found) > 1:
		return nil, fmt.Errorf("pod %q is in several namespaces (%s, %s): name one, as namespace/pod", name, found[0].Namespace, found[1].Namespace)
	}
	return found[0], nil
}

// podsText lists the pods there are, for who mistyped one.
func (p *Plane) podsText() string {
	var names []string
	for _, o := range p.sorted(model.KindPod) {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	if len(names) == 0 {
		return "there are no pods"
	}
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "there are " + strings.Join(names, ", ")
}

// sorted returns the objects of a kind by namespace and name.
func (p *Plane) sorted(k model.Kind) []*model.Object {
	var out []*model.Object
	for key, o := range p.objects {
		if key.Kind == k {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *model.Object) int { return a.Compare(b.ObjectKey) })
	return out
}

// HasSidecar tells whether a pod's manifest is one that an injector has given a sidecar. Gateways have a proxy of their
// own, which is none.
func HasSidecar(pod *corev1.Pod) bool {
	if isGateway(pod) {
		return false
	}
	is := func(c corev1.Container) bool { return c.Name == proxyContainer }
	return slices.ContainsFunc(pod.Spec.Containers, is) || slices.ContainsFunc(pod.Spec.InitContainers, is) ||
		pod.Annotations[statusNote] != "" || pod.Labels[tlsModeLabel] == "istio"
}

// isGateway tells whether a pod's proxy stands for itself: nothing else runs there.
func isGateway(pod *corev1.Pod) bool {
	return len(pod.Spec.Containers) == 1 && pod.Spec.Containers[0].Name == proxyContainer
}

// NodeOf returns the node that the sidecar of a pod states, as the injector and the agent write it.
func (p *Plane) NodeOf(pod *corev1.Pod) (*corev3.Node, error) {
	ips := addressesOf(pod)
	if len(ips) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no address: its status lacks podIP", pod.Namespace, pod.Name)
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	intercept := p.mesh.Config.GetDefaultConfig().GetInterceptionMode().String()
	if v := pod.Annotations[interceptNote]; v != "" {
		intercept = v
	}
	meta := map[string]any{
		"NAME": pod.Name, "NAMESPACE": pod.Namespace, "CLUSTER_ID": p.settings.ClusterID, "SERVICE_ACCOUNT": account,
		"INSTANCE_IPS": strings.Join(ips, ","), "LABELS": labelsOf(pod), "INTERCEPTION_MODE": intercept,
		"WORKLOAD_NAME": pod.Name, "MESH_ID": p.mesh.TrustDomain(), "NODE_NAME": pod.Spec.NodeName,
	}
	if n := pod.Labels[networkLabel]; n != "" {
		meta["NETWORK"] = n
	}
	if err := addPorts(meta, pod); err != nil {
		return nil, err
	}
	if err := p.addProxyMetadata(meta, pod); err != nil {
		return nil, err
	}
	fields, err := structpb.NewStruct(meta)
	if err != nil {
		return nil, fmt.Errorf("metadata of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	domain := pod.Namespace + ".svc." + p.settings.Domain
	return &corev3.Node{
		Id:      fmt.Sprintf("%s~%s~%s.%s~%s", view.Sidecar, ips[0], pod.Name, pod.Namespace, domain),
		Cluster: pod.Name + "." + pod.Namespace, Metadata: fields,
	}, nil
}

func addressesOf(pod *corev1.Pod) []string {
	var out []string
	for _, ip := range pod.Status.PodIPs {
		out = append(out, ip.IP)
	}
	if len(out) == 0 && pod.Status.PodIP != "" {
		out = []string{pod.Status.PodIP}
	}
	return out
}

// labelsOf returns the labels of an injected pod: its own and the canonical service.
func labelsOf(pod *corev1.Pod) map[string]any {
	out := map[string]any{}
	for k, v := range pod.Labels {
		out[k] = v
	}
	first := func(keys ...string) string {
		for _, k := range keys {
			if v := pod.Labels[k]; v != "" {
				return v
			}
		}
		return ""
	}
	name, revision := first(nameLabel, "app.kubernetes.io/name", "app"), first(revisionLabel, "app.kubernetes.io/version", "version")
	if name == "" {
		name = pod.Name
	}
	if revision == "" {
		revision = "latest"
	}
	out[nameLabel], out[revisionLabel] = name, revision
	return out
}

// addPorts tells the container ports by name.
func addPorts(meta map[string]any, pod *corev1.Pod) error {
	ports := []corev1.ContainerPort{}
	for _, c := range pod.Spec.Containers {
		if c.Name != proxyContainer {
			ports = append(ports, c.Ports...)
		}
	}
	if len(ports) == 0 {
		return nil
	}
	text, err := json.Marshal(ports)
	if err != nil {
		return fmt.Errorf("ports of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	meta["POD_PORTS"] = string(text)
	return nil
}

// addProxyMetadata adds what the mesh configuration and the pod's annotation give proxies as metadata.
func (p *Plane) addProxyMetadata(meta map[string]any, pod *corev1.Pod) error {
	var own struct {
		ProxyMetadata map[string]string `json:"proxyMetadata"`
	}
	if text := pod.Annotations[proxyConfigNote]; text != "" {
		if err := yaml.Unmarshal([]byte(text), &own); err != nil {
			return fmt.Errorf("annotation %s of pod %s/%s: %w", proxyConfigNote, pod.Namespace, pod.Name, err)
		}
	}
	for _, set := range []map[string]string{p.mesh.Config.GetDefaultConfig().GetProxyMetadata(), own.ProxyMetadata} {
		for k, v := range set {
			if name, ok := strings.CutPrefix(k, metaPrefix); ok {
				meta[name] = v
			}
		}
	}
	return nil
}

// identity returns the identity of a pod's service account.
func (p *Plane) identity(pod *corev1.Pod) string {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", p.mesh.TrustDomain(), pod.Namespace, account)
}

// podAt returns the pod with an address, nil if there is none.
func (p *Plane) podAt(ip string) *corev1.Pod {
	for _, o := range p.sorted(model.KindPod) {
		if pod, ok := o.Spec.(*corev1.Pod); ok && !pod.Spec.HostNetwork && slices.Contains(addressesOf(pod), ip) {
			return pod
		}
	}
	return nil
}
