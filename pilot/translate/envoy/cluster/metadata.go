package cluster

import (
	"strings"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// fields is metadata in the making: the content of filter_metadata.istio.
type fields map[string]*structpb.Value

func (f fields) text(key, value string) { f[key] = structpb.NewStringValue(value) }

func (f fields) flag(key string) { f[key] = structpb.NewBoolValue(true) }

// services names the services a cluster stands for: telemetry reads it.
func (f fields) services(list ...*model.Service) {
	values := make([]*structpb.Value, len(list))
	for i, s := range list {
		values[i] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"host": structpb.NewStringValue(s.Host), "name": structpb.NewStringValue(s.Name),
			"namespace": structpb.NewStringValue(s.Namespace),
		}})
	}
	f["services"] = structpb.NewListValue(&structpb.ListValue{Values: values})
}

// rule names the object that a cluster's policy comes from; of merged rules the first.
func (f fields) rule(d *model.DestinationRule) {
	if d == nil || len(d.From) == 0 {
		return
	}
	f.text("config", "/apis/networking.istio.io/v1/namespaces/"+d.From[0].Namespace+"/destination-rule/"+d.From[0].Name)
}

func (f fields) message() *corev3.Metadata {
	if len(f) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": {Fields: f}}}
}

// exchanges tells whether the proxy's TCP connections tell the peers who they are.
func (j *job) exchanges() bool { return j.set.EnableMetadataExchange && !j.c.Stock() }

// exchangeFilters returns the filters that do so.
func (j *job) exchangeFilters() []*clusterv3.Filter {
	if !j.exchanges() {
		return nil
	}
	if labels := j.set.Raw["PILOT_MX_ADDITIONAL_LABELS"]; labels != "" {
		return []*clusterv3.Filter{{Name: nameExchange, TypedConfig: j.pack(exchangeConfig(strings.Split(labels, ",")))}}
	}
	return j.exchange
}

func exchangeConfig(labels []string) *udpav1.TypedStruct {
	value := map[string]*structpb.Value{
		"protocol": structpb.NewStringValue("istio-peer-exchange"), "enable_discovery": structpb.NewBoolValue(true),
	}
	if len(labels) > 0 {
		list := make([]*structpb.Value, len(labels))
		for i, l := range labels {
			list[i] = structpb.NewStringValue(strings.TrimSpace(l))
		}
		value["additional_labels"] = structpb.NewListValue(&structpb.ListValue{Values: list})
	}
	return &udpav1.TypedStruct{
		TypeUrl: "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange",
		Value:   &structpb.Struct{Fields: value},
	}
}
