package endpoint

import (
	"math"
	"net/netip"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// wanted tells whether the cluster has e (translation-l4 §3.1, §3.2). The proxy is looked at last, and only where some
// endpoint could be left out because of it.
func (b *builder) wanted(e *model.Endpoint) bool {
	return e.PortName == b.q.Port.Name && model.LabelsMatch(b.labels, e.Labels) && b.usable(e) && b.healthy(e) && b.visible(e)
}

// usable tells whether an address of e can be sent. Names are, only in clusters that resolve them.
func (b *builder) usable(e *model.Endpoint) bool {
	if len(e.Addresses) == 0 {
		return len(b.remote(e)) > 0 // known by its network only
	}
	if path, ok := strings.CutPrefix(e.Addresses[0], translate.UnixPrefix); ok {
		return e.Port == 0 && translate.UsablePath(path)
	}
	if e.Port > math.MaxUint16 {
		return false
	}
	if b.q.DNS {
		return e.Addresses[0] != ""
	}
	return isAddress(e.Addresses[0])
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func (b *builder) healthy(e *model.Endpoint) bool {
	switch b.health(e) {
	case model.Terminating:
		return false
	case model.Draining:
		return b.q.Service.SessionCookie != ""
	case model.Unhealthy:
		return b.sendSick
	}
	return true
}

// health returns e's state, where a label can say that it drains.
func (b *builder) health(e *model.Endpoint) model.Health {
	if l := b.c.Settings().DrainingLabel; l != "" && e.Health != model.Terminating && e.Labels[l] != "" {
		return model.Draining
	}
	return e.Health
}

func (b *builder) visible(e *model.Endpoint) bool {
	s := b.q.Service
	if s.NodeLocal && (e.Node != b.c.NodeName() || e.Cluster != b.c.ClusterID()) {
		return false
	}
	if b.ownCluster && e.Cluster != "" && e.Cluster != b.c.ClusterID() {
		return false
	}
	if e.Network == "" {
		return true
	}
	networks := b.c.NetworkView()
	if networks == nil {
		return true
	}
	for _, n := range networks {
		if n == e.Network {
			return true
		}
	}
	return false
}

// clusterLocal tells whether callers reach the host's endpoints of their own cluster only: the hosts that the mesh
// configuration names, the most specific entry deciding, else those of Kubernetes itself.
func clusterLocal(host, domain string, mesh *meshconfig.MeshConfig) bool {
	best, local := "", host == "kubernetes.default.svc."+domain || strings.HasSuffix(host, ".kube-system.svc."+domain)
	for _, s := range mesh.GetServiceSettings() {
		for _, h := range s.GetHosts() {
			if model.HostSubsetOf(host, h) && (best == "" || model.MoreSpecific(h, best) < 0) {
				best, local = h, s.GetSettings().GetClusterLocal()
			}
		}
	}
	return local
}
