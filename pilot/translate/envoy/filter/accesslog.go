package filter

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	api "istio.io/api/telemetry/v1alpha1"
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
	logs := s.logs(d, logListener)
	for _, l := range logs {
		l.Filter = and(noRoute(), l.Filter)
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

func (s *Set) providerLog(p *meshconfig.MeshConfig_ExtensionProvider) *accesslogv3.AccessLog {
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog:
		return s.fileLog(x.EnvoyFileAccessLog)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		return s.httpLog(x.EnvoyHttpAls)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		return s.tcpServiceLog(x.EnvoyTcpAls)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		return s.otelLog(x.EnvoyOtelAls)
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

// noRoute lets connections through that found no filter chain.
func noRoute() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
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
