package filter

import (
	"fmt"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	grpcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	otelv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	noqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	otlp "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// defaultText is the format of file logs that users of the field know.
const defaultText = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% ` +
	`%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" ` +
	`%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" ` +
	`"%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% ` +
	`%UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% ` +
	"%ROUTE_NAME%\n"

// defaultJSON is the same as fields.
func defaultJSON() *structpb.Struct {
	pairs := [...][2]string{
		{"authority", "%REQ(:AUTHORITY)%"},
		{"bytes_received", "%BYTES_RECEIVED%"},
		{"bytes_sent", "%BYTES_SENT%"},
		{"connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"},
		{"downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"},
		{"downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"},
		{"duration", "%DURATION%"},
		{"method", "%REQ(:METHOD)%"},
		{"path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"},
		{"protocol", "%PROTOCOL%"},
		{"request_id", "%REQ(X-REQUEST-ID)%"},
		{"requested_server_name", "%REQUESTED_SERVER_NAME%"},
		{"response_code", "%RESPONSE_CODE%"},
		{"response_code_details", "%RESPONSE_CODE_DETAILS%"},
		{"response_flags", "%RESPONSE_FLAGS%"},
		{"route_name", "%ROUTE_NAME%"},
		{"start_time", "%START_TIME%"},
		{"upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"},
		{"upstream_host", "%UPSTREAM_HOST%"},
		{"upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"},
		{"upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"},
		{"upstream_transport_failure_reason", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"},
		{"user_agent", "%REQ(USER-AGENT)%"},
		{"x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"},
	}
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(pairs))}
	for _, p := range pairs {
		out.Fields[p[0]] = structpb.NewStringValue(p[1])
	}
	return out
}

func (s *Set) logger(name string, m proto.Message) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: s.Pack(m)}}
}

// meshFileLog is the file log in the mesh configuration's encoding and format.
func (s *Set) meshFileLog(path string) *accesslogv3.AccessLog {
	return s.logger(nameFileLog, &filev3.FileAccessLog{
		Path: path, AccessLogFormat: &filev3.FileAccessLog_LogFormat{LogFormat: s.meshFormat()},
	})
}

func (s *Set) meshFormat() *corev3.SubstitutionFormatString {
	text := s.mesh.GetAccessLogFormat()
	if s.mesh.GetAccessLogEncoding() == meshconfig.MeshConfig_TEXT {
		if text == "" {
			text = defaultText
		}
		return s.textFormat(text)
	}
	fields := defaultJSON()
	if text != "" {
		own := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(text), own); err == nil {
			fields = own
		}
	}
	return s.jsonFormat(fields)
}

func (s *Set) textFormat(text string) *corev3.SubstitutionFormatString {
	if !understood(text) {
		text = defaultText
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return &corev3.SubstitutionFormatString{
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: text},
		}},
		Formatters: s.formatters(text),
	}
}

func (s *Set) jsonFormat(fields *structpb.Struct) *corev3.SubstitutionFormatString {
	if !understoodAll(structpb.NewStructValue(fields)) {
		fields = defaultJSON()
	}
	return &corev3.SubstitutionFormatString{
		Format:            &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: fields},
		JsonFormatOptions: &corev3.JsonFormatOptions{SortProperties: false}, //nolint:staticcheck // what Istio proxies get
		Formatters:        s.formatters(fields.String()),
	}
}

// understood tells whether Envoy understands a format of logs, which has one command more than headers have.
func understood(text string) bool {
	return format.Valid(strings.ReplaceAll(text, "%REQ_WITHOUT_QUERY(", "%REQ("))
}

// understoodAll tells the same of all text in v. Keys are no formats.
func understoodAll(v *structpb.Value) bool {
	for _, f := range v.GetStructValue().GetFields() {
		if !understoodAll(f) {
			return false
		}
	}
	for _, e := range v.GetListValue().GetValues() {
		if !understoodAll(e) {
			return false
		}
	}
	return understood(v.GetStringValue())
}

// formatters returns what a format needs beyond the built-in commands.
func (s *Set) formatters(text string) []*corev3.TypedExtensionConfig {
	if !strings.Contains(text, "%REQ_WITHOUT_QUERY") {
		return nil
	}
	return []*corev3.TypedExtensionConfig{{Name: nameNoQuery, TypedConfig: s.Pack(&noqueryv3.ReqWithoutQuery{})}}
}

func (s *Set) fileLog(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider) *accesslogv3.AccessLog {
	var form *corev3.SubstitutionFormatString
	switch f := p.GetLogFormat().GetLogFormat().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Text:
		text := f.Text
		if text == "" {
			text = defaultText
		}
		form = s.textFormat(text)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Labels:
		fields := f.Labels
		if len(fields.GetFields()) == 0 {
			fields = defaultJSON()
		}
		form = s.jsonFormat(fields)
	default:
		form = s.meshFormat()
	}
	form.OmitEmptyValues = p.GetOmitEmptyValues()
	path := p.GetPath()
	if path == "" {
		path = "/dev/stdout"
	}
	return s.logger(nameFileLog, &filev3.FileAccessLog{
		Path: path, AccessLogFormat: &filev3.FileAccessLog_LogFormat{LogFormat: form},
	})
}

// wasmState are the names under which the peer is known to log services that predate its plain names.
func wasmState() []string {
	return []string{
		"upstream_peer", "downstream_peer", "wasm.upstream_peer", "wasm.upstream_peer_id", "wasm.downstream_peer",
		"wasm.downstream_peer_id",
	}
}

func peerState(own []string) []string {
	if len(own) > 0 {
		return own
	}
	return []string{"upstream_peer", "downstream_peer"}
}

func commonGRPC(name, cluster, authority string, state []string) *grpcv3.CommonGrpcAccessLogConfig {
	return &grpcv3.CommonGrpcAccessLogConfig{
		LogName: name,
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: authority},
		}},
		TransportApiVersion:     corev3.ApiVersion_V3,
		FilterStateObjectsToLog: state,
	}
}

// meshLogCluster is the log service's cluster in the proxy's bootstrap.
const meshLogCluster = "envoy_accesslog_service"

func (s *Set) meshGRPCLog(kind logKind) *accesslogv3.AccessLog {
	switch kind {
	case logHTTP:
		return s.logger(nameHTTPLog, &grpcv3.HttpGrpcAccessLogConfig{
			CommonConfig: commonGRPC("http_envoy_accesslog", meshLogCluster, "", wasmState()),
		})
	case logTCP:
		return s.logger(nameTCPLog, &grpcv3.TcpGrpcAccessLogConfig{
			CommonConfig: commonGRPC("tcp_envoy_accesslog", meshLogCluster, "", wasmState()),
		})
	}
	return s.logger(nameTCPLog, &grpcv3.TcpGrpcAccessLogConfig{
		CommonConfig: commonGRPC("listener_envoy_accesslog", meshLogCluster, "", wasmState()),
	})
}

func (s *Set) httpLog(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpGrpcV3LogProvider) *accesslogv3.AccessLog {
	name := p.GetLogName()
	if name == "" {
		name = "http_envoy_accesslog"
	}
	cluster, host := ProviderCluster(p.GetService(), p.GetPort())
	return s.logger(nameHTTPLog, &grpcv3.HttpGrpcAccessLogConfig{
		CommonConfig:                    commonGRPC(name, cluster, host, peerState(p.GetFilterStateObjectsToLog())),
		AdditionalRequestHeadersToLog:   p.GetAdditionalRequestHeadersToLog(),
		AdditionalResponseHeadersToLog:  p.GetAdditionalResponseHeadersToLog(),
		AdditionalResponseTrailersToLog: p.GetAdditionalResponseTrailersToLog(),
	})
}

func (s *Set) tcpServiceLog(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpGrpcV3LogProvider) *accesslogv3.AccessLog {
	name := p.GetLogName()
	if name == "" {
		name = "tcp_envoy_accesslog"
	}
	cluster, host := ProviderCluster(p.GetService(), p.GetPort())
	return s.logger(nameTCPLog, &grpcv3.TcpGrpcAccessLogConfig{
		CommonConfig: commonGRPC(name, cluster, host, peerState(p.GetFilterStateObjectsToLog())),
	})
}

func (s *Set) otelLog(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider) *accesslogv3.AccessLog {
	name, text := p.GetLogName(), p.GetLogFormat().GetText()
	if name == "" {
		name = "otel_envoy_accesslog"
	}
	if text == "" || !understood(text) {
		text = defaultText
	}
	cluster, host := ProviderCluster(p.GetService(), p.GetPort())
	common := commonGRPC(name, cluster, host, wasmState())
	c := &otelv3.OpenTelemetryAccessLogConfig{
		DisableBuiltinLabels: true,
		Body:                 &otlp.AnyValue{Value: &otlp.AnyValue_StringValue{StringValue: text}},
		Formatters:           s.formatters(text),
	}
	if s.stock {
		c.LogName, c.GrpcService, c.FilterStateObjectsToLog = name, common.GetGrpcService(), common.GetFilterStateObjectsToLog()
	} else {
		//nolint:staticcheck // the form that proxies of this profile have always been sent
		c.CommonConfig = common
	}
	fields := p.GetLogFormat().GetLabels().GetFields()
	if len(fields) > 0 {
		c.Attributes = &otlp.KeyValueList{}
		for _, k := range sortedKeys(fields) {
			c.Attributes.Values = append(c.Attributes.Values, &otlp.KeyValue{
				Key: k, Value: &otlp.AnyValue{Value: &otlp.AnyValue_StringValue{StringValue: format.Header(fields[k].GetStringValue())}},
			})
		}
	}
	return s.logger(nameOTelLog, c)
}

func outboundCluster(host string, port uint32) string {
	return fmt.Sprintf("outbound|%d||%s", port, host)
}
