package server

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Variable is one environment variable that the control plane reads.
type Variable struct {
	Name, Default, Doc string
	// Stage is "stable", "compatible" (kept for drop-in use) or "experimental".
	Stage string
	set   func(s *model.Settings, value string) error
}

// Variables is the one table of environment variables. Names and defaults are those users of the field know; names that
// begin with MIZZEN_ are our own.
func Variables() []Variable {
	b := func(name string, def bool, doc string, f func(*model.Settings) *bool) Variable {
		return Variable{Name: name, Default: strconv.FormatBool(def), Doc: doc, Stage: "compatible", set: func(s *model.Settings, v string) error {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%s: %q is not true or false", name, v)
			}
			*f(s) = on
			return nil
		}}
	}
	str := func(name, def, doc string, f func(*model.Settings) *string) Variable {
		return Variable{Name: name, Default: def, Doc: doc, Stage: "compatible", set: func(s *model.Settings, v string) error {
			*f(s) = v
			return nil
		}}
	}
	return append([]Variable{
		str("CLUSTER_ID", "Kubernetes", "the cluster this control plane belongs to", func(s *model.Settings) *string { return &s.ClusterID }),
		str("POD_NAMESPACE", "istio-system", "the namespace the control plane runs in", func(s *model.Settings) *string { return &s.SystemNamespace }),
		str("REVISION", "", "the control plane's revision", func(s *model.Settings) *string { return &s.Revision }),
		str("PILOT_DRAINING_LABEL", "istio.io/draining", "pods with this label take no new traffic", func(s *model.Settings) *string { return &s.DrainingLabel }),
		b("ISTIO_DUAL_STACK", false, "IPv4 and IPv6 addresses of a service are both used", func(s *model.Settings) *bool { return &s.DualStack }),
		b("PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES", false, "headless services become EDS clusters", func(s *model.Settings) *bool { return &s.EnableEDSForHeadless }),
		b("PILOT_SEND_UNHEALTHY_ENDPOINTS", false, "unready endpoints are always sent", func(s *model.Settings) *bool { return &s.SendUnhealthyEndpoints }),
		b("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", true, "unready endpoints are sent where panic thresholds allow it", func(s *model.Settings) *bool { return &s.AutoSendUnhealthy }),
		b("PILOT_ENABLE_IP_AUTOALLOCATE", true, "ServiceEntries without addresses get one", func(s *model.Settings) *bool { return &s.EnableIPAutoallocate }),
		b("PILOT_HTTP10", false, "HTTP/1.0 is accepted", func(s *model.Settings) *bool { return &s.HTTP10 }),
		b("PILOT_ENABLE_AMBIENT", false, "ambient mode", func(s *model.Settings) *bool { return &s.EnableAmbient }),
		b("PILOT_ENABLE_METADATA_EXCHANGE", true, "proxies tell each other who they are", func(s *model.Settings) *bool { return &s.EnableMetadataExchange }),
		b("PILOT_ENABLE_TELEMETRY_LABEL", true, "clusters carry their services' names", func(s *model.Settings) *bool { return &s.EnableTelemetryLabel }),
		b("PILOT_ENABLE_PERSISTENT_SESSION_FILTER", false, "persistent session labels take effect", func(s *model.Settings) *bool { return &s.EnablePersistentSessionFilter }),
		b("ENABLE_LOCALITY_WEIGHTED_LB_CONFIG", false, "localities are always weighted", func(s *model.Settings) *bool { return &s.EnableLocalityWeightedLB }),
		b("PILOT_ENABLE_QUIC_LISTENERS", false, "HTTP/3 on gateways", func(s *model.Settings) *bool { return &s.EnableQUIC }),
		b("PILOT_ENABLE_REDIS_FILTER", false, "redis_proxy on Redis ports", func(s *model.Settings) *bool { return &s.EnableRedisFilter }),
		b("PILOT_ENABLE_MONGO_FILTER", true, "mongo_proxy on Mongo ports", func(s *model.Settings) *bool { return &s.EnableMongoFilter }),
		b("PILOT_ENABLE_MYSQL_FILTER", false, "mysql_proxy on MySQL ports", func(s *model.Settings) *bool { return &s.EnableMySQLFilter }),
		b("PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE", false, "Sidecar ingress adds to the services' listeners", func(s *model.Settings) *bool { return &s.SidecarServiceInboundMerge }),
		b("PILOT_UNIFIED_SIDECAR_SCOPE", true, "Kubernetes services win in a scope", func(s *model.Settings) *bool { return &s.UnifiedSidecarScope }),
		b("PILOT_SCOPE_GATEWAY_TO_NAMESPACE", false, "Gateways select workloads of their namespace only", func(s *model.Settings) *bool { return &s.ScopeGatewayToNamespace }),
		b("PILOT_FILTER_GATEWAY_CLUSTER_CONFIG", false, "gateways get only the clusters they route to", func(s *model.Settings) *bool { return &s.FilterGatewayClusterConfig }),
		b("ENABLE_ENHANCED_DESTINATIONRULE_MERGE", true, "rules are merged only when exported alike", func(s *model.Settings) *bool { return &s.EnhancedDestinationRuleMerge }),
		b("PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES", true, "rules win over proxy certificates for external services", func(s *model.Settings) *bool { return &s.PreferDRTLSForExternal }),
		b("PILOT_DISABLE_MX_ALPN", false, "no metadata exchange in ALPN", func(s *model.Settings) *bool { return &s.DisableMXALPN }),
		{
			Name: "MIZZEN_VHDS", Default: "off", Stage: "experimental", Doc: "virtual hosts sent one by one to stock Envoys: off, on, auto",
			set: func(s *model.Settings, v string) error {
				switch m := model.VHDSMode(v); m {
				case model.VHDSOff, model.VHDSOn, model.VHDSAuto:
					s.VHDS = m
					return nil
				}
				return fmt.Errorf("MIZZEN_VHDS: %q is not off, on or auto", v)
			},
		},
	}, slices.Concat(servingVariables(), rareVariables(), keyVariables(), addressVariables())...)
}

// ParseSettings reads the settings from an environment. Values that do not parse are errors; their defaults stay.
func ParseSettings(lookup func(string) (string, bool)) (*model.Settings, []error) {
	s := model.DefaultSettings()
	var errs []error
	for _, v := range Variables() {
		text, ok := lookup(v.Name)
		if !ok || text == "" {
			continue
		}
		if err := v.set(s, text); err != nil {
			errs = append(errs, err)
		}
	}
	return s, errs
}
