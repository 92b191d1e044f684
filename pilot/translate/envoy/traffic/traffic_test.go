package traffic_test

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

func TestNamesReadBack(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"outbound|80||a.b.svc.cluster.local", "outbound|80|v1|*.wild.example", "inbound|8080||",
		"outbound_.80_.v1_.a.b.svc.cluster.local", "inbound-vip|80|http/v1|a.b",
	} {
		n, ok := traffic.ParseName(text)
		if !ok || n.String() != text {
			t.Errorf("%q reads as %+v, %v and prints as %q", text, n, ok, n.String())
		}
	}
	for _, text := range []string{
		"", "BlackHoleCluster", "outbound|80|a", "outbound|x||a", "outbound|80||a|b", "other|80||a", "outbound|70000||a",
		"outbound_.80_._.a_.b",
	} {
		if n, ok := traffic.ParseName(text); ok {
			t.Errorf("%q is no name of a service's cluster but reads as %+v", text, n)
		}
	}
}

func TestPortLevelSettingsReplaceTheWholePolicy(t *testing.T) {
	t.Parallel()
	top := &networking.TrafficPolicy{
		Tls:           &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE},
		ProxyProtocol: &networking.TrafficPolicy_ProxyProtocol{},
		PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{
			Port: &networking.PortSelector{Number: 80}, LoadBalancer: &networking.LoadBalancerSettings{},
		}},
	}
	subset := &networking.Subset{Name: "v1", TrafficPolicy: &networking.TrafficPolicy{
		Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_DISABLE},
		PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{
			Port: &networking.PortSelector{Number: 90}, ConnectionPool: &networking.ConnectionPoolSettings{},
		}},
	}}
	rule := &model.DestinationRule{Spec: &networking.DestinationRule{TrafficPolicy: top, Subsets: []*networking.Subset{subset}}}
	mesh := &meshconfig.MeshConfig{DefaultTrafficPolicy: &meshconfig.MeshConfig_DefaultTrafficPolicy{
		OutlierDetection: &networking.OutlierDetection{},
	}}
	if p := traffic.For(rule, 80, mesh); p.TLS != nil || p.ProxyProtocol != nil || p.LoadBalancer == nil || p.Outlier == nil {
		t.Errorf("port 80: %+v", p)
	}
	if p := traffic.ForPort(rule, 81); p.TLS == nil || p.ProxyProtocol == nil || p.Outlier != nil {
		t.Errorf("port 81: %+v", p)
	}
	if p := traffic.ForSubset(rule, 81, "v1", mesh); p.TLS.GetMode() != networking.ClientTLSSettings_DISABLE || p.ProxyProtocol == nil {
		t.Errorf("subset at port 81: %+v", p)
	}
	if p := traffic.ForSubset(rule, 90, "v1", mesh); p.TLS != nil || p.Pool == nil || p.ProxyProtocol == nil || p.Outlier != nil {
		t.Errorf("subset at port 90: %+v", p)
	}
	if p := traffic.ForSubset(nil, 90, "v1", mesh); p.Outlier == nil {
		t.Errorf("no rule: %+v", p)
	}
}

func TestLocalityIsTheNearestSetting(t *testing.T) {
	t.Parallel()
	mesh := &meshconfig.MeshConfig{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{FailoverPriority: []string{"k"}}}
	svc := &model.Service{}
	if l := (traffic.Policy{}).Locality(svc, mesh); l.Active || l.Weighted() {
		t.Errorf("failover without outlier detection: %+v", l)
	}
	byDefault := &meshconfig.MeshConfig{DefaultTrafficPolicy: &meshconfig.MeshConfig_DefaultTrafficPolicy{
		OutlierDetection: &networking.OutlierDetection{},
	}}
	if l := traffic.For(nil, 80, byDefault).Locality(svc, byDefault); l.Active {
		t.Errorf("the mesh's default outlier detection must not activate failover: %+v", l)
	}
	outlier := traffic.Policy{Outlier: &networking.OutlierDetection{}}
	if l := outlier.Locality(svc, mesh); !l.Active || !l.Weighted() {
		t.Errorf("outlier detection must activate the mesh's setting: %+v", l)
	}
	if l := (traffic.Policy{}).Locality(&model.Service{TrafficDistribution: model.PreferSameNode}, mesh); !l.Active || len(l.FailoverPriority) != 5 {
		t.Errorf("a service's wish needs no outlier detection: %+v", l)
	}
	outlier.LoadBalancer = &networking.LoadBalancerSettings{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{
		Enabled: wrapperspb.Bool(false), FailoverPriority: []string{"k"},
	}}
	if l := outlier.Locality(svc, mesh); l.Active || l.Weighted() {
		t.Errorf("disabled in the rule: %+v", l)
	}
}
