package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The label keys that a view reads of its workload whether or not a selector tests them.
const (
	labelLocality       = "topology.istio.io/locality"
	labelLocalityLegacy = "istio-locality"
	labelRegion         = "topology.kubernetes.io/region"
	labelZone           = "topology.kubernetes.io/zone"
	labelSubzone        = "topology.istio.io/subzone"
	labelCluster        = "topology.istio.io/cluster"
	labelNetwork        = "topology.istio.io/network"
	labelHostname       = "kubernetes.io/hostname"
	labelTestVM         = "istio.io/test-vm"
	labelTLSMode        = "security.istio.io/tlsMode"

	labelCanonicalName     = "service.istio.io/canonical-name"
	labelCanonicalRevision = "service.istio.io/canonical-revision"
)

// Of returns the view of a proxy: what its workload, its node and the rows say about it.
func Of(r *model.Reader, p *Proxy) *View {
	v := &View{proxy: p, nodeName: p.NodeName, locality: p.Locality}
	name, _, _ := strings.Cut(p.ID, ".")
	w := r.Workload(p.ClusterID, p.Namespace, name)
	labels := v.workloadLabels(p, w)
	v.setLocality(p, w, labels)
	v.family = familyOf(p.IPs)
	v.telemetry = pick(labels, telemetryLabels())
	v.certified = p.Profile != StockProfile && p.Generator != GRPC || labels[labelTLSMode] == "istio"
	tested := r.TestedLabels()
	v.labels = make(map[string]string, len(tested))
	for k := range tested {
		if val, ok := labels[k]; ok {
			v.labels[k] = val
		}
	}
	if p.Type == Sidecar {
		v.sidecar = SelectSidecar(r, p.Namespace, v.labels, p.Type)
	}
	v.targets = r.ServiceTargets(model.TargetQuery{
		Cluster: p.ClusterID, Namespace: p.Namespace, ProxyName: name, IPs: p.IPs, Labels: labels, PodPorts: p.PodPorts,
	})
	v.patches = patchesOf(r, p, v.labels)
	v.setProps()
	return v
}

func telemetryLabels() []string {
	return []string{
		"app", "version", labelCanonicalName, labelCanonicalRevision,
		"app.kubernetes.io/name", "app.kubernetes.io/version",
	}
}

func pick(from map[string]string, keys []string) map[string]string {
	out := map[string]string{}
	for _, k := range keys {
		if v, ok := from[k]; ok {
			out[k] = v
		}
	}
	return out
}

// workloadLabels gives the workload's own labels over the static ones; the metadata's when the workload is not known.
func (v *View) workloadLabels(p *Proxy, w *model.Workload) map[string]string {
	labels := maps.Clone(p.StaticLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	own := p.Labels
	if _, vm := p.Labels[labelTestVM]; !vm && w != nil {
		own = w.Labels
		if v.nodeName == "" {
			v.nodeName = w.Node
		}
	}
	maps.Copy(labels, own)
	return labels
}

func (v *View) setLocality(p *Proxy, w *model.Workload, labels map[string]string) {
	region, zone, subzone := labels[labelRegion], labels[labelZone], labels[labelSubzone]
	switch {
	case region != "" || zone != "" || subzone != "":
		v.locality = region + "/" + zone + "/" + subzone
	case labels[labelLocality] != "":
		v.locality = labels[labelLocality]
	case labels[labelLocalityLegacy] != "":
		v.locality = labels[labelLocalityLegacy]
		if !strings.Contains(v.locality, "/") {
			v.locality = strings.ReplaceAll(v.locality, ".", "/")
		}
	case w != nil && w.Locality != "":
		v.locality = w.Locality
	}
	parts := strings.SplitN(v.locality+"//", "/", 4)
	for i, k := range []string{labelRegion, labelZone, labelSubzone} {
		if parts[i] != "" {
			labels[k] = parts[i]
		}
	}
	for k, val := range map[string]string{labelCluster: p.ClusterID, labelHostname: v.nodeName} {
		if val != "" {
			labels[k] = val
		}
	}
	if labels[labelNetwork] == "" && p.Network != "" {
		labels[labelNetwork] = p.Network
	}
}

func familyOf(ips []string) Family {
	var four, six bool
	for _, s := range ips {
		if a, err := netip.ParseAddr(s); err == nil {
			four, six = four || a.Is4() || a.Is4In6(), six || a.Is6() && !a.Is4In6()
		}
	}
	switch {
	case four && six:
		return DualStack
	case six:
		return IPv6
	}
	return IPv4
}

func (v *View) setProps() {
	p := v.proxy
	set := func(k cell.Prop, val string) { v.props[k] = val }
	set(PropType, string(p.Type))
	set(PropNamespace, p.Namespace)
	set(PropClusterID, p.ClusterID)
	set(PropNetwork, p.Network)
	set(PropNetworkView, strings.Join(p.NetworkView, ","))
	set(PropNodeName, v.nodeName)
	set(PropServiceAccount, p.ServiceAccount)
	set(PropLocality, v.locality)
	set(PropFamily, fmt.Sprint(v.family))
	set(PropIPs, strings.Join(p.IPs, ","))
	set(PropLabels, canonical(v.labels))
	set(PropTelemetryLabels, canonical(v.telemetry))
	if v.sidecar != nil {
		set(PropSidecar, fmt.Sprintf("%s@%p", v.sidecar.Row(), v.sidecar))
	}
	set(PropTargets, targetsText(v.targets))
	set(PropProfile, string(p.Profile))
	set(PropVersion, fmt.Sprint(p.Version))
	set(PropDNSDomain, p.DNSDomain)
	set(PropGenerator, p.Generator)
	mode := metaString(p.Metadata, "INTERCEPTION_MODE")
	if mode != string(TProxy) && mode != string(None) {
		mode = string(Redirect)
	}
	set(PropInterception, mode)
	set(PropDNSCapture, metaString(p.Metadata, "DNS_CAPTURE"))
	for _, k := range [...]cell.Prop{PropMeta, PropOwnMeta, PropSettings} {
		set(k, metaText(p, k))
	}
	set(PropDelta, strconv.FormatBool(p.Delta))
	set(PropVerified, strconv.FormatBool(p.Verified))
	set(PropLinks, strconv.Itoa(int(p.Links)))
	set(PropCertificate, strconv.FormatBool(v.certified))
	set(PropProxyConfig, metaString(p.Metadata, proxyConfigKey))
	set(PropHeaderCase, headerCase(p.Metadata))
	for g := range numPatchGroups {
		set(PropClusterPatches+cell.Prop(g), patchesText(v.patches[g]))
	}
	set(PropCanonical, v.telemetry[labelCanonicalName]+"/"+v.telemetry[labelCanonicalRevision])
}

// ownMeta tells whether a metadata key names the single proxy or its workload, or is carried by another property.
func ownMeta(key string) bool {
	switch key {
	case "NAME", "INSTANCE_IPS", "LABELS", "NAMESPACE", "CLUSTER_ID", "NETWORK", "NODE_NAME", "SERVICE_ACCOUNT",
		"POD_PORTS", "ANNOTATIONS", "INTERCEPTION_MODE", "DNS_CAPTURE", "WORKLOAD_NAME", "OWNER":
		return true
	}
	return false
}

const proxyConfigKey = "PROXY_CONFIG"

// headerCase returns what the proxy's own configuration says about the case of header names, "" if it has none.
func headerCase(meta *structpb.Struct) string {
	own, given := meta.GetFields()[proxyConfigKey]
	if !given {
		return ""
	}
	headers := own.GetStructValue().GetFields()["proxyHeaders"].GetStructValue()
	return strconv.FormatBool(headers.GetFields()["preserveHttp1HeaderCase"].GetBoolValue())
}

// settingMeta tells whether a metadata key says how the proxy's listeners and clusters are to work. Few proxies give
// any, so that asking for one does not split classes.
func settingMeta(key string) bool {
	switch key {
	case "IDLE_TIMEOUT", "HTTP10", "INBOUND_LISTENER_EXACT_BALANCE", "OUTBOUND_LISTENER_EXACT_BALANCE", "HTTP_PROXY_PORT",
		"UNPRIVILEGED_POD", "ENVOY_STATUS_PORT", "ENVOY_PROMETHEUS_PORT", "ENVOY_METRICS_TLS_PORT", "MESH_ID",
		"ENABLE_HBONE", "DISABLE_HBONE_SEND", "DNS_AUTO_ALLOCATE", "DNS_PROXY_ADDR", "credential", "file-credential",
		"TLS_SERVER_CERT_CHAIN", "TLS_SERVER_KEY", "TLS_SERVER_ROOT_CERT",
		"TLS_CLIENT_CERT_CHAIN", "TLS_CLIENT_KEY", "TLS_CLIENT_ROOT_CERT":
		return true
	}
	return false
}

// metaProp returns the property that carries a metadata key.
func metaProp(key string) cell.Prop {
	switch {
	case key == proxyConfigKey:
		return PropProxyConfig
	case settingMeta(key):
		return PropSettings
	case ownMeta(key):
		return PropOwnMeta
	}
	return PropMeta
}

// metaText is the metadata that property prop carries, as canonical text.
func metaText(p *Proxy, prop cell.Prop) string {
	part := map[string]any{}
	for k, val := range p.Metadata.GetFields() {
		if metaProp(k) == prop {
			part[k] = val.AsInterface()
		}
	}
	b, err := json.Marshal(part)
	if err != nil {
		return ""
	}
	return string(b)
}

func canonical(m map[string]string) string {
	keys := slices.Sorted(maps.Keys(m))
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%q=%q,", k, m[k])
	}
	return b.String()
}

// targetsText tells target lists apart by the very rows they hold, so that a changed service makes a new text.
func targetsText(targets []model.ServiceTarget) string {
	var b strings.Builder
	for _, t := range targets {
		fmt.Fprintf(&b, "%s@%p:%d>%d,", t.Service.ServiceKey, t.Service, t.Port.Number, t.TargetPort)
	}
	return b.String()
}

// Same tells whether two views of one proxy agree on every property.
func (v *View) Same(w *View) bool {
	return v == w || v.props == w.props && (v.proxy == w.proxy || proto.Equal(v.proxy.Metadata, w.proxy.Metadata))
}
