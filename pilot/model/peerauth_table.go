package model

import (
	security "istio.io/api/security/v1beta1"
)

// derivePeerAuthentications lists anew the policies of every namespace in which one changed.
func derivePeerAuthentications(c *commit) {
	namespaces := c.changedNamespaces(KindPeerAuthentication)
	if len(namespaces) == 0 {
		return
	}
	x := c.next.peerAuth.Txn()
	for _, ns := range namespaces {
		var list []*PeerAuthentication
		for _, o := range namespaceObjects(c.next.objects[KindPeerAuthentication], ns) {
			if spec, ok := o.Spec.(*security.PeerAuthentication); ok {
				list = append(list, &PeerAuthentication{Object: o, Spec: spec})
			}
		}
		setRows(x, ns, list)
		c.touch(TablePeerAuth, ns)
	}
	c.next.peerAuth = x.Commit()
}

// Mode returns the mode that the policy sets for a workload as a whole.
func (p *PeerAuthentication) Mode() MTLSMode {
	if p == nil {
		return MTLSUnset
	}
	return mtlsMode(p.Spec.GetMtls())
}

// Ports returns the modes that the policy sets for single workload ports; MTLSUnset entries inherit.
func (p *PeerAuthentication) Ports() map[uint32]MTLSMode {
	if p == nil || len(p.Spec.GetPortLevelMtls()) == 0 {
		return nil
	}
	out := make(map[uint32]MTLSMode, len(p.Spec.GetPortLevelMtls()))
	for port, m := range p.Spec.GetPortLevelMtls() {
		out[port] = mtlsMode(m)
	}
	return out
}

// Selector returns the labels that the policy's workloads have; empty means the whole namespace.
func (p *PeerAuthentication) Selector() map[string]string {
	return p.Spec.GetSelector().GetMatchLabels()
}

func mtlsMode(m *security.PeerAuthentication_MutualTLS) MTLSMode {
	switch m.GetMode() {
	case security.PeerAuthentication_MutualTLS_DISABLE:
		return MTLSDisable
	case security.PeerAuthentication_MutualTLS_PERMISSIVE:
		return MTLSPermissive
	case security.PeerAuthentication_MutualTLS_STRICT:
		return MTLSStrict
	}
	return MTLSUnset
}
