package view

import (
	"maps"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func TestDestinationRuleReadsLittle(t *testing.T) {
	t.Parallel()
	const host = "a.ns1.svc.cluster.local"
	for name, c := range map[string]struct {
		rule              string
		namespace, labels bool
		found             bool
	}{
		"no rule":              {"", false, false, false},
		"public rule":          {`host: ` + host, false, false, true},
		"private rule":         {`{host: ` + host + `, exportTo: ["."]}`, true, false, true},
		"rule with a selector": {`{host: ` + host + `, workloadSelector: {matchLabels: {app: x}}}`, true, true, true},
	} {
		w := newWorld(service("ns1/a", 1, "", 80))
		if c.rule != "" {
			w.apply(object(t, model.KindDestinationRule, "ns1/d", 1, c.rule))
		}
		ctx, rec := w.context("ns1", map[string]string{"app": "x"})
		d := ctx.DestinationRule(host, "ns1")
		if (d != nil) != c.found {
			t.Errorf("%s: found %v", name, d)
		}
		m := rec.Mask()
		if m.Has(PropNamespace) != c.namespace || m.Has(PropLabels) != c.labels {
			t.Errorf("%s: reads namespace %v, labels %v", name, m.Has(PropNamespace), m.Has(PropLabels))
		}
		if in := ctx.InboundDestinationRule(host, "ns1"); c.labels && in != nil {
			t.Errorf("%s: inbound %v", name, in)
		}
	}
}

func TestMTLSModes(t *testing.T) {
	t.Parallel()
	policies := map[string]string{
		"istio-system/mesh@1":  `{mtls: {mode: STRICT}}`,
		"istio-system/late@2":  `{mtls: {mode: DISABLE}}`,
		"istio-system/sel@0":   `{selector: {matchLabels: {app: a}}, mtls: {mode: DISABLE}}`,
		"ns1/ns@1":             `{mtls: {mode: DISABLE}}`,
		"ns1/ns-late@2":        `{mtls: {mode: STRICT}}`,
		"ns1/a@3":              `{selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}, portLevelMtls: {"8080": {mode: DISABLE}, "9090": {mode: UNSET}}}`,
		"ns1/a-late@4":         `{selector: {matchLabels: {app: a}}, mtls: {mode: PERMISSIVE}, portLevelMtls: {"1": {mode: DISABLE}}}`,
		"ns1/b@3":              `{selector: {matchLabels: {app: b}}, portLevelMtls: {"8080": {mode: STRICT}, "9090": {}}}`,
		"ns2/unset@1":          `{mtls: {mode: UNSET}}`,
		"ns4/empty-selector@1": `{selector: {}, mtls: {mode: PERMISSIVE}, portLevelMtls: {"80": {mode: STRICT}}}`,
	}
	var objects []*model.Object
	for k, spec := range policies {
		objects = append(objects, object(t, model.KindPeerAuthentication, k[:len(k)-2], int(k[len(k)-1]-'0'), spec))
	}
	w := newWorld(objects...)
	for _, c := range []struct {
		namespace, app string
		port           uint32
		want           model.MTLSMode
	}{
		{"ns1", "a", 0, model.MTLSStrict},
		{"ns1", "a", 8080, model.MTLSDisable},
		{"ns1", "a", 9090, model.MTLSStrict},
		{"ns1", "a", 1, model.MTLSStrict},
		{"ns1", "b", 0, model.MTLSDisable},
		{"ns1", "b", 8080, model.MTLSStrict},
		{"ns1", "b", 9090, model.MTLSDisable},
		{"ns1", "c", 0, model.MTLSDisable},
		{"ns2", "a", 0, model.MTLSStrict},
		{"ns3", "a", 0, model.MTLSStrict},
		{"ns4", "a", 80, model.MTLSPermissive},
		{"istio-system", "a", 0, model.MTLSStrict},
	} {
		ctx, _ := w.context(c.namespace, map[string]string{"app": c.app})
		if got := ctx.InboundMTLS(c.port); got != c.want {
			t.Errorf("inbound %v: mode %d", c, got)
		}
		e := &model.Endpoint{Namespace: c.namespace, Labels: map[string]string{"app": c.app}, Port: c.port}
		if got := ctx.EndpointMTLS(e); got != c.want {
			t.Errorf("endpoint %v: mode %d", c, got)
		}
	}
	ctx, _ := w.context("ns1", map[string]string{"app": "a"})
	if want := (map[uint32]model.MTLSMode{8080: model.MTLSDisable, 9090: model.MTLSStrict}); !maps.Equal(ctx.InboundPortMTLS(), want) {
		t.Errorf("ports %v", ctx.InboundPortMTLS())
	}
	for ns, want := range map[string]model.MTLSMode{
		"ns1": model.MTLSDisable, "ns2": model.MTLSStrict, "ns3": model.MTLSStrict, "istio-system": model.MTLSStrict,
	} {
		if got := ctx.NamespaceMTLS(ns); got != want {
			t.Errorf("namespace %s: mode %d", ns, got)
		}
	}
}

func TestMTLSWithoutPolicies(t *testing.T) {
	t.Parallel()
	ctx, rec := newWorld().context("ns1", nil)
	if ctx.InboundMTLS(80) != model.MTLSPermissive || ctx.NamespaceMTLS("ns1") != model.MTLSPermissive {
		t.Error("the default is not PERMISSIVE")
	}
	if rec.Mask().Has(PropLabels) {
		t.Error("reads labels without a selector")
	}
}
