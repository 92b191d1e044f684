package model

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
)

// The labels that discovery reads and adds.
const (
	labelNetwork      = "topology.istio.io/network"
	labelCluster      = "topology.istio.io/cluster"
	labelRegion       = "topology.kubernetes.io/region"
	labelZone         = "topology.kubernetes.io/zone"
	labelSubzone      = "topology.istio.io/subzone"
	labelHostname     = "kubernetes.io/hostname"
	labelTLSMode      = "security.istio.io/tlsMode"
	labelLocality     = "topology.istio.io/locality"
	labelOldLocality  = "istio-locality"
	labelWorkloadName = "service.istio.io/workload-name"
)

// deriveWorkloads recomputes the marked workloads and the index by address.
func (d *discovery) deriveWorkloads() {
	if len(d.workloads) == 0 {
		return
	}
	rows, ips := d.next.workloads.Txn(), d.next.workloadIPs.Txn()
	touched := map[string]struct{}{}
	for key := range d.workloads {
		row := d.settings.ClusterID + "/" + key.Row()
		if key.Kind == KindWorkloadEntry {
			row = d.settings.ClusterID + "/" + key.Namespace + "/entry:" + key.Name
		}
		old, _ := rows.Get(row)
		now := d.workload(key)
		if reflect.DeepEqual(old, now) {
			continue
		}
		d.touch(TableWorkload, row)
		if now == nil {
			rows.Delete(row)
		} else {
			rows.Set(row, now)
		}
		d.indexIPs(ips, old, now, touched)
	}
	for ip := range touched {
		d.touch(TableWorkload, "ip/"+ip)
	}
	d.next.workloads, d.next.workloadIPs = rows.Commit(), ips.Commit()
}

type ipTxn interface {
	Get(string) ([]*Workload, bool)
	Set(string, []*Workload) ([]*Workload, bool)
	Delete(string) ([]*Workload, bool)
}

func (d *discovery) indexIPs(ips ipTxn, old, now *Workload, touched map[string]struct{}) {
	edit := func(w *Workload, add *Workload) {
		if w == nil {
			return
		}
		for _, ip := range w.IPs {
			list, _ := ips.Get(ip)
			list = slices.DeleteFunc(slices.Clone(list), func(x *Workload) bool { return x.Object == w.Object })
			if add != nil {
				list = append(list, add)
				slices.SortFunc(list, func(a, b *Workload) int { return strings.Compare(a.Object.String(), b.Object.String()) })
			}
			if len(list) == 0 {
				ips.Delete(ip)
			} else {
				ips.Set(ip, list)
			}
			touched[ip] = struct{}{}
		}
	}
	edit(old, nil)
	edit(now, now)
}

func (d *discovery) workload(key ObjectKey) *Workload {
	o, ok := d.next.objects[key.Kind].Get(key.Row())
	if !ok {
		return nil
	}
	switch spec := o.Spec.(type) {
	case *corev1.Pod:
		return d.podWorkload(o, spec)
	case *networking.WorkloadEntry:
		return d.entryWorkload(o, spec)
	}
	return nil
}

func podIPs(p *corev1.Pod) []string {
	var out []string
	for _, ip := range p.Status.PodIPs {
		out = append(out, ip.IP)
	}
	if len(out) == 0 && p.Status.PodIP != "" {
		out = []string{p.Status.PodIP}
	}
	return out
}

func podReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (d *discovery) podWorkload(o *Object, p *corev1.Pod) *Workload {
	ips := podIPs(p)
	if len(ips) == 0 {
		return nil
	}
	locality := d.podLocality(o.Labels, p.Spec.NodeName)
	w := &Workload{
		Object: o.ObjectKey, Cluster: d.settings.ClusterID, Namespace: o.Namespace, IPs: ips, ServiceAccount: p.Spec.ServiceAccountName,
		Node: p.Spec.NodeName, Locality: locality, Ready: podReady(p), Name: podWorkloadName(o, p), NamedPorts: namedPorts(p),
	}
	w.Labels = d.topologyLabels(o.Labels, locality, p.Spec.NodeName, d.network(o.Labels[labelNetwork], ips[0]))
	return w
}

// topologyLabels returns labels with those that describe where the workload runs.
func (d *discovery) topologyLabels(labels map[string]string, locality, node, network string) map[string]string {
	out := make(map[string]string, len(labels)+5)
	maps.Copy(out, labels)
	parts := strings.SplitN(locality+"//", "/", 4)
	for i, k := range []string{labelRegion, labelZone, labelSubzone} {
		if parts[i] != "" {
			out[k] = parts[i]
		}
	}
	out[labelCluster] = d.settings.ClusterID
	if node != "" {
		out[labelHostname] = node
	}
	if network != "" && out[labelNetwork] == "" {
		out[labelNetwork] = network
	}
	return out
}

// labelledLocality returns the locality that labels state outright.
func labelledLocality(labels map[string]string) string {
	l := labels[labelLocality]
	if l == "" {
		l = labels[labelOldLocality]
	}
	if !strings.Contains(l, "/") {
		l = strings.ReplaceAll(l, ".", "/")
	}
	return l
}

func (d *discovery) podLocality(labels map[string]string, node string) string {
	if l := labelledLocality(labels); l != "" {
		return l
	}
	o, ok := d.next.objects[KindNode].Get("/" + node)
	if !ok {
		return ""
	}
	first := func(keys ...string) string {
		for _, k := range keys {
			if v := o.Labels[k]; v != "" {
				return v
			}
		}
		return ""
	}
	region := first(labelRegion, "failure-domain.beta.kubernetes.io/region")
	zone := first(labelZone, "failure-domain.beta.kubernetes.io/zone")
	subzone := first(labelSubzone)
	if region == "" && zone == "" && subzone == "" {
		return ""
	}
	return region + "/" + zone + "/" + subzone
}

// network returns the network of an address: its own label's, the system namespace's, or the mesh networks'.
func (d *discovery) network(own, ip string) string {
	if own != "" {
		return own
	}
	o, _ := d.next.objects[KindNamespace].Get("/" + d.settings.SystemNamespace)
	if n := networkLabel(o); n != "" {
		return n
	}
	return meshNetwork(d.next.mesh, d.settings.ClusterID, ip)
}

func namedPorts(p *corev1.Pod) map[string]uint32 {
	out := map[string]uint32{}
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			protocol := string(port.Protocol)
			if protocol == "" {
				protocol = "TCP"
			}
			k := port.Name + "/" + protocol
			if _, taken := out[k]; !taken && port.Name != "" {
				out[k] = uint32(port.ContainerPort) //nolint:gosec // the API allows 1 to 65535
			}
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return out
}

// podWorkloadName names what made the pod: a Deployment for its ReplicaSet's pods, and so on.
func podWorkloadName(o *Object, p *corev1.Pod) string {
	if n := o.Labels[labelWorkloadName]; n != "" {
		return n
	}
	if p.GenerateName == "" {
		return o.Name
	}
	for _, ref := range p.OwnerReferences {
		if ref.Controller == nil || !*ref.Controller {
			continue
		}
		return controllerName(ref.Kind, ref.Name, o.Labels)
	}
	return o.Name
}

func controllerName(kind, name string, labels map[string]string) string {
	switch kind {
	case "ReplicaSet":
		for _, k := range []string{"pod-template-hash", "rollouts-pod-template-hash"} {
			if h := labels[k]; h != "" && strings.HasSuffix(name, "-"+h) {
				return strings.TrimSuffix(name, "-"+h)
			}
		}
	case "ReplicationController":
		if dc := labels["deploymentconfig"]; dc != "" {
			return dc
		}
	case "Job":
		i := strings.LastIndexByte(name, '-')
		if digits := name[i+1:]; i > 0 && len(digits) >= 8 && len(digits) <= 10 && strings.Trim(digits, "0123456789") == "" {
			return name[:i]
		}
	}
	return name
}

// entryLabels are a WorkloadEntry's labels: those of the object win over those of the spec.
func entryLabels(o *Object) map[string]string {
	spec, _ := o.Spec.(*networking.WorkloadEntry)
	out := make(map[string]string, len(spec.GetLabels())+len(o.Labels))
	maps.Copy(out, spec.GetLabels())
	maps.Copy(out, o.Labels)
	return out
}

func (d *discovery) entryWorkload(o *Object, e *networking.WorkloadEntry) *Workload {
	labels := entryLabels(o)
	name := o.Annotations["istio.io/autoRegistrationGroup"]
	if name == "" {
		name = labels[labelWorkloadName]
	}
	if name == "" {
		name = o.Name
	}
	locality := e.GetLocality()
	if locality == "" {
		locality = labelledLocality(labels)
	}
	w := &Workload{
		Object: o.ObjectKey, Cluster: d.settings.ClusterID, Namespace: o.Namespace, ServiceAccount: e.GetServiceAccount(), Locality: locality,
		Ready: entryHealthy(o), Name: name, NamedPorts: e.GetPorts(),
	}
	if e.GetAddress() != "" {
		w.IPs = []string{e.GetAddress()}
	}
	if e.GetNetwork() != "" {
		labels[labelNetwork] = e.GetNetwork()
	}
	w.Labels = d.topologyLabels(labels, locality, "", d.network(labels[labelNetwork], e.GetAddress()))
	return w
}
