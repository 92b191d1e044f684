package model

// discoveryState is what the builder keeps to derive services, endpoints and workloads key by key.
type discoveryState struct{}

func (s *discoveryState) start() {}

// deriveDiscovery brings services, hosts, visibility, endpoints, aliases and workloads up to date with c.changes.
func (b *Builder) deriveDiscovery(c *commit) {}

func (pc *PushContext) serviceAccounts(k ServiceKey) []string { return nil }
