package parity

import (
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

func typeURLs() map[string]string {
	return map[string]string{
		"cds": translate.ClusterType, "eds": translate.EndpointType, "lds": translate.ListenerType, "rds": translate.RouteType,
		"nds": translate.NameTableType, "ecds": translate.ExtensionType, "sds": translate.SecretType,
	}
}

// ask returns what a recorded proxy gets, in the form of the recordings.
func ask(p *offline.Plane, spec *proxySpec) (recording, error) {
	urls := typeURLs()
	s := offline.Subscription{Names: map[string][]string{}, Verified: spec.Token != ""}
	for _, t := range spec.Types {
		s.Types = append(s.Types, urls[t])
		s.Names[urls[t]] = spec.Names[t]
	}
	got, err := p.Ask(spec.node, s)
	if err != nil {
		return nil, err
	}
	rec := recording{}
	for _, t := range spec.Types {
		rec[t] = map[string]any{}
		for name, r := range got[urls[t]] {
			v := render(r.Message.ProtoReflect())
			if o, ok := v.(map[string]any); ok {
				o["@type"] = r.TypeURL
			}
			rec[t][name] = v
		}
	}
	return rec, nil
}

// skipped tells which types a recording holds that are judged elsewhere, and why.
func skipped(t string) string {
	if t == "sds" {
		return "needs authenticated proxies"
	}
	if strings.HasPrefix(t, "wds") || t == "wads" || t == "workload" || t == "pcds" {
		return "ztunnel's types are not served yet"
	}
	return ""
}
