package model

import (
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// MeshGateway is the reserved gateway name for all sidecars.
const MeshGateway = "mesh"

// VirtualService is a routing rule ready for use: hosts and destinations are full names, gateways are "mesh" or
// "namespace/name", delegates are merged in.
type VirtualService struct {
	*Object
	// Spec is a resolved copy of the object's spec.
	Spec     *networking.VirtualService
	Hosts    []string
	Gateways []string
	ExportTo Visibility
	// FromGatewayAPI is set for rules made from Gateway API routes.
	FromGatewayAPI bool
	// Delegates are the objects that were merged in.
	Delegates []ObjectKey
}

// Bound tells whether the rule applies at gateway (MeshGateway or "namespace/name").
func (v *VirtualService) Bound(gateway string) bool {
	for _, g := range v.Gateways {
		if g == gateway {
			return true
		}
	}
	return false
}

// DestinationRule is one rule, or several of the same host and namespace merged.
type DestinationRule struct {
	Namespace string
	Host      string
	// From are the objects merged into it, in order; the first gives the metadata.
	From     []*Object
	Spec     *networking.DestinationRule
	ExportTo Visibility
	// Private is set when the rule is exported to its own namespace only.
	Private bool
	// Selector is the workload selector, nil if there is none.
	Selector map[string]string
	// Pools says in which lookups the rule takes part.
	Pools RulePool
}

// Sidecar is a Sidecar object.
type Sidecar struct {
	*Object
	Spec *networking.Sidecar
	// Selector is nil when the object has no workloadSelector.
	Selector map[string]string
}

// MTLSMode is the mutual TLS mode that a server accepts.
type MTLSMode uint8

// The modes, as PeerAuthentication names them.
const (
	MTLSUnset MTLSMode = iota
	MTLSDisable
	MTLSPermissive
	MTLSStrict
)

// PeerAuthentication is a policy about the clients of a workload.
type PeerAuthentication struct {
	*Object
	Spec *security.PeerAuthentication
}

// Subset returns the subset called name, or nil.
func (d *DestinationRule) Subset(name string) *networking.Subset {
	if d == nil {
		return nil
	}
	for _, s := range d.Spec.GetSubsets() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}
