package cluster

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	forwardv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/forward"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/tls"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

// forwardProxy makes the cluster that resolves a wildcard host's names when they are asked for. It has no subsets.
func (j *job) forwardProxy(t *target) []*translate.Message {
	if !forward.Serves(t.service, t.port.Protocol) {
		return nil
	}
	name := t.name.String()
	cl := j.bare(name, traffic.StatName(j.mesh.Config.GetOutboundClusterStatName(), name, t.service, t.port, "", 0))
	o := j.protocol(t.port.Protocol, t.policy.Pool, true)
	j.pool(cl, &o, &t.policy)
	cl.OutlierDetection = outlier(t.policy.Outlier)
	cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	s := j.security(t)
	config := &forwardv3.ClusterConfig{ClusterImplementationSpecifier: cacheSpec(forward.ServiceCache(j.c, t.service))}
	if s.client != nil {
		given := t.policy.TLS.GetSni() != ""
		if !given {
			s.client.SNI = ""
		}
		autoNames(s.client, t, &o)
		config.AllowInsecureClusterOptions = given || s.client.InsecureSkipVerify || !o.upstream.GetAutoSanValidation()
		s.auto = false
	} else {
		// Without TLS there is no name to check, but Envoy asks for the check wherever there are options.
		config.AllowInsecureClusterOptions = o.kind != unsaid || !o.plain()
	}
	j.forwardType(cl, config)
	j.sockets(cl, t, s)
	j.setOptions(cl, &o)
	f := fields{}
	f.rule(t.rule)
	if t.service.MeshExternal {
		f.flag("external")
	}
	if overridesALPN(&t.policy) {
		f.text("alpn_override", "false")
	}
	cl.Metadata, cl.Filters = f.message(), j.exchangeFilters()
	return []*translate.Message{{Name: name, Proto: cl}}
}

func cacheSpec(c *cachev3.DnsCacheConfig) *forwardv3.ClusterConfig_DnsCacheConfig {
	return &forwardv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: c}
}

func (j *job) forwardType(cl *clusterv3.Cluster, config *forwardv3.ClusterConfig) {
	cl.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: nameForwardProxy, TypedConfig: j.pack(config),
	}}
}

// dynamicDNS makes the cluster for all names that no service has.
func (j *job) dynamicDNS() *clusterv3.Cluster {
	cl := j.bare(traffic.DynamicDNS, traffic.DynamicDNS)
	cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	o := httpOptions{kind: asDownstream}
	j.pool(cl, &o, &traffic.Policy{Pool: j.mesh.Config.GetDefaultTrafficPolicy().GetConnectionPool()})
	config := &forwardv3.ClusterConfig{ClusterImplementationSpecifier: cacheSpec(forward.AnyCache(j.c)), AllowInsecureClusterOptions: true}
	settings := forward.AnyPolicy(j.c).GetTls()
	mode := settings.GetMode()
	if mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL {
		t := &target{service: &model.Service{}, port: &model.Port{}, rule: &model.DestinationRule{Selector: map[string]string{}}}
		if client := j.userClient(t, settings); client != nil {
			autoNames(client, t, &o)
			config.AllowInsecureClusterOptions = !o.upstream.GetAutoSanValidation()
			j.plainTLS(cl, client)
		}
	}
	j.forwardType(cl, config)
	j.setOptions(cl, &o)
	cl.Filters = j.exchangeFilters()
	return cl
}

func (j *job) plainTLS(cl *clusterv3.Cluster, client *tls.Client) {
	context, err := j.tls.Context(j.c, client)
	if err != nil {
		j.err = fmt.Errorf("TLS: %w", err)
		return
	}
	cl.TransportSocket = j.socket(nameTLS, context)
}
