package model

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	labelTLSMode           = "security.istio.io/tlsMode"
	labelWorkloadName      = "service.istio.io/workload-name"
	labelCanonicalName     = "service.istio.io/canonical-name"
	labelCanonicalRevision = "service.istio.io/canonical-revision"
	labelLocality          = "topology.istio.io/locality"
	labelLegacyLocality    = "istio-locality"
	labelRegion            = "topology.kubernetes.io/region"
	labelZone              = "topology.kubernetes.io/zone"
	labelSubzone           = "topology.istio.io/subzone"
	labelBetaRegion        = "failure-domain.beta.kubernetes.io/region"
	labelBetaZone          = "failure-domain.beta.kubernetes.io/zone"
	labelCluster           = "topology.istio.io/cluster"
	labelHostname          = "kubernetes.io/hostname"
	labelTunnel            = "networking.istio.io/tunnel"
	annotationRedirection  = "ambient.istio.io/redirection"

	tlsModeDisabled = "disabled"
	tlsModeIstio    = "istio"
)

// podWorkload returns the workload that a Pod object is, or nil if it is not one.
func (w *discoveryWork) podWorkload(o *Object) *Workload {
	p, ok := o.Spec.(*corev1.Pod)
	if !ok {
		return nil
	}
	out := &Workload{
		Object: o.ObjectKey, Cluster: w.next.settings.ClusterID, Namespace: o.Namespace, IPs: podIPs(p),
		ServiceAccount: p.Spec.ServiceAccountName, Node: p.Spec.NodeName, Name: podWorkloadName(o, p),
		NamedPorts: podPorts(p), labelled: len(o.Labels) > 0, tlsMode: tlsModeDisabled,
	}
	out.hbone = w.next.settings.EnableAmbient && o.Annotations[annotationRedirection] == "enabled"
	out.Ready = len(out.IPs) > 0 && podReady(p)
	if m := o.Labels[labelTLSMode]; m != "" {
		out.tlsMode = m
	}
	if out.Locality = labelledLocality(o.Labels); out.Locality == "" {
		node, _ := w.next.objects[KindNode].Get("/" + p.Spec.NodeName)
		out.Locality = nodeLocality(node)
	}
	if p.Spec.Subdomain != "" {
		if out.subdomain, out.hostname = p.Spec.Subdomain, p.Spec.Hostname; out.hostname == "" {
			out.hostname = o.Name
		}
	}
	out.network = w.network(o.Labels, out.address())
	out.Labels = w.augment(o.Labels, out.Locality, out.Node, out.network)
	out.canonicalName, out.canonicalRevision = canonical(o.Labels, out.Name)
	return out
}

// podIPs returns the pod's addresses, none once it has ended: they may be another's by then.
func podIPs(p *corev1.Pod) []string {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	var out []string
	for _, ip := range p.Status.PodIPs {
		if ip.IP != "" {
			out = append(out, ip.IP)
		}
	}
	if len(out) == 0 && p.Status.PodIP != "" {
		out = []string{p.Status.PodIP}
	}
	return out
}

func podReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podPorts returns the named ports of the containers that run side by side: containers in order, then restartable init
// containers; the first of a name and protocol wins.
func podPorts(p *corev1.Pod) map[string]uint32 {
	var out map[string]uint32
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.Name == "" {
				continue
			}
			protocol := port.Protocol
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			name := namedPort(port.Name, string(protocol))
			if _, dup := out[name]; dup {
				continue
			}
			if out == nil {
				out = map[string]uint32{}
			}
			out[name] = uint32(port.ContainerPort) //nolint:gosec // the API server bounds it
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

// namedPort is a key of Workload.NamedPorts.
func namedPort(name, protocol string) string { return name + "/" + protocol }

// podWorkloadName returns the name of what the pod is a replica of.
func podWorkloadName(o *Object, p *corev1.Pod) string {
	if n := o.Labels[labelWorkloadName]; n != "" {
		return n
	}
	if p.GenerateName == "" {
		return o.Name
	}
	for _, ref := range p.OwnerReferences {
		if ref.Controller != nil && *ref.Controller {
			return controllerName(ref.Kind, ref.Name, o.Labels)
		}
	}
	return o.Name
}

func controllerName(kind, name string, labels map[string]string) string {
	switch kind {
	case "ReplicaSet":
		for _, l := range []string{"pod-template-hash", "rollouts-pod-template-hash"} {
			if hash := labels[l]; hash != "" {
				if owner, ok := strings.CutSuffix(name, "-"+hash); ok {
					return owner
				}
			}
		}
	case "ReplicationController":
		if config := labels["deploymentconfig"]; config != "" {
			return config
		}
	case "Job":
		return cronJobName(name)
	}
	return name
}

// cronJobName takes the scheduled minute, 8 to 10 digits, off the name of a Job that a CronJob made.
func cronJobName(job string) string {
	i := strings.LastIndexByte(job, '-')
	digits := job[i+1:]
	if i <= 0 || len(digits) < 8 || len(digits) > 10 || strings.Trim(digits, "0123456789") != "" {
		return job
	}
	return job[:i]
}

// labelledLocality returns the locality that labels state, "region/zone/subzone". Label values cannot hold slashes, so
// that dots stand for them.
func labelledLocality(labels map[string]string) string {
	l := labels[labelLocality]
	if l == "" {
		l = labels[labelLegacyLocality]
	}
	if strings.Contains(l, "/") {
		return l
	}
	return strings.ReplaceAll(l, ".", "/")
}

// nodeLocality returns "region/zone/subzone" of a node, whose later parts may be empty, or "" if it has none.
func nodeLocality(o *Object) string {
	labels := labelsOf(o)
	first := func(a, b string) string {
		if v := labels[a]; v != "" {
			return v
		}
		return labels[b]
	}
	region, zone, subzone := first(labelRegion, labelBetaRegion), first(labelZone, labelBetaZone), labels[labelSubzone]
	if region == "" && zone == "" && subzone == "" {
		return ""
	}
	return region + "/" + zone + "/" + subzone
}

// canonical returns the canonical service and revision that labels state.
func canonical(labels map[string]string, workload string) (name, revision string) {
	name, revision = workload, "latest"
	for _, l := range []string{labelCanonicalName, "app.kubernetes.io/name", "app"} {
		if v := labels[l]; v != "" {
			name = v
			break
		}
	}
	for _, l := range []string{labelCanonicalRevision, "app.kubernetes.io/version", "version"} {
		if v := labels[l]; v != "" {
			revision = v
			break
		}
	}
	return name, revision
}

// augment returns labels with those that say where the workload is.
func (w *discoveryWork) augment(labels map[string]string, locality, node, network string) map[string]string {
	out := make(map[string]string, len(labels)+6)
	for k, v := range labels {
		out[k] = v
	}
	region, rest, _ := strings.Cut(locality, "/")
	zone, subzone, _ := strings.Cut(rest, "/")
	set := func(k, v string) {
		if v != "" {
			out[k] = v
		}
	}
	set(labelRegion, region)
	set(labelZone, zone)
	set(labelSubzone, subzone)
	set(labelCluster, w.next.settings.ClusterID)
	set(labelHostname, node)
	if out[labelNetwork] == "" {
		set(labelNetwork, network)
	}
	return out
}
