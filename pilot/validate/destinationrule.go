package validate

import (
	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) destinationRule(d *networking.DestinationRule) {
	c.failIf("spec.host", wildcardDomain(d.Host))
	c.trafficPolicy("spec.trafficPolicy", d.TrafficPolicy)
	seen := map[string]bool{}
	for i, s := range d.Subsets {
		at := index("spec.subsets", i)
		switch {
		case s == nil:
			c.fail(at, "missing")
			continue
		case s.Name == "":
			c.fail(at+".name", "must not be empty")
		case !dnsLabel(s.Name):
			c.fail(at+".name", "%q is not the name of a subset", s.Name)
		case seen[s.Name]:
			c.fail(at+".name", "%q is the name of another subset, too", s.Name)
		}
		seen[s.Name] = true
		c.labelMap(at+".labels", s.Labels)
		c.trafficPolicy(at+".trafficPolicy", s.TrafficPolicy)
	}
	c.exportTo(d.ExportTo, false)
	if d.WorkloadSelector == nil {
		return
	}
	c.labelMap("spec.workloadSelector.matchLabels", d.WorkloadSelector.GetMatchLabels())
	for i, e := range d.ExportTo {
		if e != "." && e != c.object.Namespace {
			c.fail(index("spec.exportTo", i), "a rule with a workloadSelector is for its own namespace only")
		}
	}
}
