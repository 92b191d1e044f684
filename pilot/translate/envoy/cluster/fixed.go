package cluster

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

// passthroughIdle is how long connections to addresses nobody described stay open unused.
const passthroughIdle = 5 * time.Minute

func (j *job) fixed(u fixedUnit) ([]*translate.Message, error) {
	var cl *clusterv3.Cluster
	switch string(u) {
	case traffic.BlackHole:
		cl = j.bare(traffic.BlackHole, traffic.BlackHole)
		discover(cl, clusterv3.Cluster_STATIC)
	case traffic.Passthrough:
		cl = j.passthrough(traffic.Passthrough)
		cl.Filters = j.exchangeFilters()
	case traffic.InboundPassthrough:
		cl = j.passthrough(traffic.InboundPassthrough)
		cl.UpstreamBindConfig = bindConfig(j.c.Family(), true)
	case traffic.DynamicDNS:
		cl = j.dynamicDNS()
	case traffic.ConnectOriginate:
		cl = j.originate()
	case traffic.MainInternal:
		cl = j.internal(traffic.MainInternal)
	default:
		return nil, fmt.Errorf("fixed clusters: no cluster is called %s", u)
	}
	return []*translate.Message{j.message(cl)}, nil
}

// passthrough sends to wherever the connection was going. The inbound one has the other's name in statistics: users
// count on it.
func (j *job) passthrough(name string) *clusterv3.Cluster {
	cl := j.bare(name, traffic.Passthrough)
	discover(cl, clusterv3.Cluster_ORIGINAL_DST)
	cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	o := httpOptions{kind: asDownstream}
	j.pool(cl, &o, &traffic.Policy{Pool: j.mesh.Config.GetDefaultTrafficPolicy().GetConnectionPool()})
	if o.common == nil {
		o.common = &corev3.HttpProtocolOptions{}
	}
	o.common.IdleTimeout = durationpb.New(passthroughIdle)
	j.setOptions(cl, &o)
	return cl
}
