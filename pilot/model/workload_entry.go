package model

import (
	"maps"
	"strconv"
	"strings"

	meta "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

const (
	annotationAutoRegistrationGroup = "istio.io/autoRegistrationGroup"
	annotationHealthChecks          = "proxy.istio.io/health-checks-enabled"
	conditionHealthy                = "Healthy"
	unixPrefix                      = "unix://"
)

// entryWorkload returns the workload that a WorkloadEntry object is, or nil if it is not one.
func (w *discoveryWork) entryWorkload(o *Object) *Workload {
	spec, ok := o.Spec.(*networking.WorkloadEntry)
	if !ok {
		return nil
	}
	labels := spec.GetLabels()
	if len(o.Labels) > 0 {
		labels = maps.Clone(labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, o.Labels)
	}
	out := w.placed(spec, labels)
	out.Object, out.Namespace, out.Name = o.ObjectKey, o.Namespace, o.Name
	for _, n := range []string{o.Annotations[annotationAutoRegistrationGroup], labels[labelWorkloadName]} {
		if n != "" {
			out.Name = n
			break
		}
	}
	out.Ready = entryHealthy(o)
	out.canonicalName, out.canonicalRevision = canonical(labels, out.Name)
	return out
}

// placed returns a workload with what follows from a WorkloadEntry's spec alone; ServiceEntries hold such specs too.
func (w *discoveryWork) placed(spec *networking.WorkloadEntry, labels map[string]string) *Workload {
	out := &Workload{
		Cluster: w.next.settings.ClusterID, ServiceAccount: spec.GetServiceAccount(), Locality: spec.GetLocality(),
		Ready: true, labelled: len(labels) > 0, weight: spec.GetWeight(),
		// The endpoint's own network is only what the user states; the label is computed.
		network: spec.GetNetwork(),
	}
	if a := spec.GetAddress(); a != "" {
		out.IPs = []string{a}
	}
	if out.Locality == "" {
		out.Locality = labelledLocality(labels)
	}
	switch m := labels[labelTLSMode]; {
	case m != "":
		out.tlsMode = m
	case spec.GetServiceAccount() != "":
		out.tlsMode = tlsModeIstio
	default:
		out.tlsMode = tlsModeDisabled
	}
	network := spec.GetNetwork()
	if network == "" {
		network = w.network(labels, spec.GetAddress())
	}
	out.Labels = w.augment(labels, out.Locality, "", network)
	if len(spec.GetPorts()) > 0 {
		out.NamedPorts = make(map[string]uint32, len(spec.GetPorts()))
		for name, n := range spec.GetPorts() {
			out.NamedPorts[namedPort(name, "TCP")] = n
		}
	}
	return out
}

// entryHealthy tells whether the entry may be used: those with health checks only when they report to be healthy.
func entryHealthy(o *Object) bool {
	if on, err := strconv.ParseBool(o.Annotations[annotationHealthChecks]); err != nil || !on {
		return true
	}
	status, ok := o.Status.(*meta.IstioStatus)
	if !ok {
		return false
	}
	for _, c := range status.GetConditions() {
		if c.GetType() == conditionHealthy {
			return c.GetStatus() == "True"
		}
	}
	return false
}

func isUnix(address string) bool { return strings.HasPrefix(address, unixPrefix) }
