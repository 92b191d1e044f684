package filter

import (
	"net/http"
	"slices"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	api "istio.io/api/telemetry/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// logSpec is what Telemetry objects say about one provider in one direction.
type logSpec struct {
	filter string // CEL
}

// accessLog returns the loggers of a connection manager or, with tcp, of a TCP proxy.
func (s *Set) accessLog(d Direction, tcp bool) []*accesslogv3.AccessLog {
	kind := logHTTP
	if tcp {
		kind = logTCP
	}
	return s.logs(d, kind)
}

// ListenerLog returns the loggers of a listener itself: of connections that no filter chain takes.
func (s *Set) ListenerLog(d Direction) []*accesslogv3.AccessLog {
	if s.mesh.GetDisableEnvoyListenerLog() {
		return nil
	}
	return narrowed(s.logs(d, logListener), flagged("NR")) // no filter chain was found
}

// OriginateLog returns the loggers of the listener that puts connections into tunnels: of those that no tunnel took.
func (s *Set) OriginateLog() []*accesslogv3.AccessLog {
	return narrowed(s.logs(Outbound, logTCP), flagged("UF"))
}

// TerminateLog returns the loggers of the listener where tunnels end: of those that were refused.
func (s *Set) TerminateLog() []*accesslogv3.AccessLog {
	return narrowed(s.logs(Inbound, logHTTP), &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op:    accesslogv3.ComparisonFilter_GE,
			Value: &corev3.RuntimeUInt32{DefaultValue: http.StatusBadRequest, RuntimeKey: "access_log.connect_terminate.min_status"},
		}},
	}})
}

// narrowed gives loggers another condition.
func narrowed(logs []*accesslogv3.AccessLog, when *accesslogv3.AccessLogFilter) []*accesslogv3.AccessLog {
	for _, l := range logs {
		l.Filter = and(when, l.Filter)
	}
	return logs
}

// logKind says where a logger stands; some have another form or name for each.
type logKind uint8

const (
	logHTTP logKind = iota
	logTCP
	logListener
)

func (s *Set) logs(d Direction, kind logKind) []*accesslogv3.AccessLog {
	specs, any := s.logSpecs(d)
	if !any {
		return s.meshLogs(kind)
	}
	var out []*accesslogv3.AccessLog
	for _, name := range sortedKeys(specs) {
		p := s.provider(name)
		if p == nil {
			continue
		}
		l := s.providerLog(p)
		if l == nil {
			continue
		}
		if f := specs[name].filter; f != "" {
			if ok, _ := s.c.Cell(cell.ID{Kind: kindCondition, Arg: f}).(bool); !ok {
				continue // Envoy would refuse the listener; what an expression fails for is not logged either
			}
			l.Filter = s.celFilter(f)
		}
		out = append(out, l)
	}
	return out
}

// logSpecs merges the Telemetry objects; the second result is false when neither they nor default providers say
// anything, so that the mesh configuration's own settings count.
func (s *Set) logSpecs(d Direction) (map[string]logSpec, bool) {
	inherited := s.mesh.GetDefaultProviders().GetAccessLogging()
	var layers [][]*api.AccessLogging
	for _, spec := range s.telemetry().specs {
		if l := spec.GetAccessLogging(); len(l) > 0 {
			layers = append(layers, l)
		}
	}
	out := map[string]logSpec{}
	if len(layers) == 0 {
		for _, name := range inherited {
			out[name] = logSpec{}
		}
		return out, len(inherited) > 0
	}
	scope := providerScope(layers, inherited, d)
	current := inherited
	for _, layer := range layers {
		parent := current
		for _, section := range layer {
			if !selects(section.GetMatch().GetMode(), d) {
				continue
			}
			names := providerNames(section.GetProviders())
			if len(names) == 0 {
				names = parent
			}
			current = names
			applyLogSection(out, scope, names, section)
		}
	}
	return out, true
}

func applyLogSection(out map[string]logSpec, scope map[string]bool, names []string, section *api.AccessLogging) {
	for _, name := range names {
		switch {
		case !scope[name]:
		case section.GetDisabled().GetValue():
			delete(out, name)
		default:
			out[name] = logSpec{filter: section.GetFilter().GetExpression()}
		}
	}
}

// providerScope returns the providers of the last layer that names any: a lower layer's list replaces the upper's.
func providerScope(layers [][]*api.AccessLogging, inherited []string, d Direction) map[string]bool {
	scope := map[string]bool{}
	for _, n := range inherited {
		scope[n] = true
	}
	for _, layer := range layers {
		named := map[string]bool{}
		for _, section := range layer {
			if selects(section.GetMatch().GetMode(), d) {
				for _, n := range providerNames(section.GetProviders()) {
					named[n] = true
				}
			}
		}
		if len(named) > 0 {
			scope = named
		}
	}
	return scope
}

// meshLogs are the loggers that the mesh configuration's own fields ask for.
func (s *Set) meshLogs(kind logKind) []*accesslogv3.AccessLog {
	var out []*accesslogv3.AccessLog
	if path := s.mesh.GetAccessLogFile(); path != "" {
		out = append(out, s.meshFileLog(path))
	}
	if s.mesh.GetEnableEnvoyAccessLogService() {
		out = append(out, s.meshGRPCLog(kind))
	}
	return out
}

// providerService is where an extension provider is found.
type providerService interface {
	GetService() string
	GetPort() uint32
}

// reaches tells whether the proxy has the cluster of a provider's service.
func (s *Set) reaches(p providerService) bool {
	_, host := ProviderCluster(p.GetService(), p.GetPort())
	return s.Reached(host, p.GetPort()) != nil
}

// Reached returns the service of a host of which the proxy has a cluster for a port, or nil: an Envoy refuses a whole
// listener that names a cluster which it lacks.
func (s *Set) Reached(host string, port uint32) *view.ScopedService {
	found := s.c.ScopedService(host)
	if found != nil && slices.ContainsFunc(found.Ports, func(p *model.Port) bool { return p.Number == port && p.Protocol != model.UDP }) {
		return found
	}
	return nil
}

func (s *Set) providerLog(p *meshconfig.MeshConfig_ExtensionProvider) *accesslogv3.AccessLog {
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog:
		return s.fileLog(x.EnvoyFileAccessLog)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		if s.reaches(x.EnvoyHttpAls) {
			return s.httpLog(x.EnvoyHttpAls)
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		if s.reaches(x.EnvoyTcpAls) {
			return s.tcpServiceLog(x.EnvoyTcpAls)
		}
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		if s.reaches(x.EnvoyOtelAls) {
			return s.otelLog(x.EnvoyOtelAls)
		}
	}
	return nil
}

func (s *Set) celFilter(expression string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: nameCELFilter,
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
				TypedConfig: s.Pack(&celv3.ExpressionFilter{Expression: expression}),
			},
		},
	}}
}

// flagged lets what ended with a response flag through.
func flagged(flag string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{flag}},
	}}
}

func and(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	if b == nil {
		return a
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}

// ProviderCluster returns the cluster and the host behind a provider's service, "[namespace/]host".
func ProviderCluster(service string, port uint32) (cluster, host string) {
	host = service
	if _, h, ok := strings.Cut(service, "/"); ok {
		host = h
	}
	return outboundCluster(host, port), host
}
