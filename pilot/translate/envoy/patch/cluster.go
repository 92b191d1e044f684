package patch

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"
)

// editCluster applies patches that match a cluster. Whether it stays is decided before it is changed.
func editCluster(m proto.Message, patches []*patch, fail func(*patch, error)) proto.Message {
	c, ok := m.(*clusterv3.Cluster)
	if !ok {
		return m
	}
	for _, p := range patches {
		if p.op == networking.EnvoyFilter_Patch_REMOVE {
			return nil
		}
	}
	for _, p := range patches {
		if !p.merges() {
			continue
		}
		if err := mergeCluster(c, p); err != nil {
			fail(p, err)
		}
	}
	return c
}

func mergeCluster(c *clusterv3.Cluster, p *patch) error {
	src, _ := cloned(p.value).(*clusterv3.Cluster)
	socket := src.GetTransportSocket()
	src.TransportSocket = nil
	if socket != nil {
		if err := mergeClusterSocket(c, socket); err != nil {
			return err
		}
	}
	merge(c, src, p.replacesLists())
	return nil
}

// mergeClusterSocket merges a transport socket. If the cluster chooses among several, it goes into those of its name.
func mergeClusterSocket(c *clusterv3.Cluster, socket *corev3.TransportSocket) error {
	if len(c.GetTransportSocketMatches()) == 0 {
		merged, err := mergeSocket(c.GetTransportSocket(), socket)
		if err == nil {
			c.TransportSocket = merged
		}
		return err
	}
	merged := map[int]*corev3.TransportSocket{}
	for i, m := range c.GetTransportSocketMatches() {
		if m.GetTransportSocket().GetName() != socket.GetName() {
			continue
		}
		s, err := mergeSocket(m.GetTransportSocket(), socket)
		if err != nil {
			return err
		}
		merged[i] = s
	}
	if len(merged) == 0 {
		return fmt.Errorf("none of the cluster's transport sockets is called %q", socket.GetName())
	}
	for i, s := range merged {
		c.TransportSocketMatches[i].TransportSocket = s
	}
	return nil
}
