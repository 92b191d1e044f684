package model

// discoveryState is what the builder keeps to derive services, endpoints and workloads key by key.
type discoveryState struct{}

func (s *discoveryState) start() {}

// deriveDiscovery brings services, hosts, visibility, endpoints, aliases and workloads up to date with c.changes.
func (b *Builder) deriveDiscovery(c *commit) {}

func (pc *PushContext) serviceAccounts(k ServiceKey) []string { return nil }

// TargetQuery says which workload's services are asked for.
type TargetQuery struct {
	Cluster, Namespace, ProxyName string
	IPs                           []string
	Labels                        map[string]string
	PodPorts                      map[string]uint32
}

// ServiceTargets returns the service ports that a workload serves, the oldest service first.
func (r *Reader) ServiceTargets(q TargetQuery) []ServiceTarget { return nil }
