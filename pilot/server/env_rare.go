package server

import (
	"fmt"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// rareVariables are those that one generator alone looks at: it reads and checks the text itself (Settings.Raw).
func rareVariables() []Variable {
	text := func(name, def, doc string) Variable {
		return raw(name, def, "compatible", doc, nil)
	}
	return []Variable{
		text("COMPLIANCE_POLICY", "", "restrictions of TLS: fips-140-2, fips-140-3, pqc"),
		text("DISABLE_SHADOW_HOST_SUFFIX", "true", "mirrored requests keep their host"),
		text("ENABLE_MULTICLUSTER_HEADLESS", "true", "names of headless services have the addresses of all clusters"),
		text("ENABLE_TLS_ON_SIDECAR_INGRESS", "false", "a Sidecar's ingress may terminate TLS by itself"),
		text("ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS", "false", "IPv6 proxies take IPv4 connections too"),
		text("PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS", "1024", "names that one proxy resolves for unknown hosts"),
		text("PILOT_DNS_CARES_UDP_MAX_QUERIES", "100", "queries of one UDP socket of a proxy's resolver"),
		text("PILOT_DNS_JITTER_DURATION", "100ms", "spread of repeated name resolutions"),
		text("PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", "true", "virtual hosts match names with a final dot"),
		text("PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS", "false", "several providers may decide about the requests of one workload"),
		text("PILOT_MX_ADDITIONAL_LABELS", "", "labels that proxies tell each other besides the usual ones"),
		text("PILOT_PERSISTENT_SESSION_HEADER_LABEL", "istio.io/persistent-session-header", "label that asks for sessions by header"),
		text("PILOT_PERSISTENT_SESSION_LABEL", "istio.io/persistent-session", "label that asks for sessions by cookie"),
		text("PILOT_TRACE_SAMPLING", "1.0", "percentage of requests traced where nobody says otherwise"),
	}
}

// raw is a variable that whoever needs it reads in Settings.Raw. A text that check refuses is not put there; nil refuses
// none.
func raw(name, def, stage, doc string, check func(string) error) Variable {
	return Variable{Name: name, Default: def, Doc: doc, Stage: stage, set: func(s *model.Settings, v string) error {
		if check != nil {
			if err := check(v); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if s.Raw == nil {
			s.Raw = map[string]string{}
		}
		s.Raw[name] = v
		return nil
	}}
}
