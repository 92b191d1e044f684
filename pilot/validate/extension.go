package validate

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingbeta "istio.io/api/networking/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	apitype "istio.io/api/type/v1beta1"
)

func errNotPort(s string) error { return fmt.Errorf("%q is not a port", s) }

func serviceAccount(s string) error {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		name = namespace
	}
	if ok && namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q is neither a service account nor namespace/account", s)
	}
	return nil
}

// pathTemplate checks a path that may hold {*} for one part and {**} for the rest.
func pathTemplate(path string) error {
	if !strings.Contains(path, "{*}") && !strings.Contains(path, "{**}") {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	rest := 0
	for i, p := range parts {
		switch {
		case p == "{**}":
			if rest++; rest > 1 || slices.Contains(parts[i+1:], "{*}") {
				return fmt.Errorf("%q: {**} must be the last template of the path", path)
			}
		case p != "{*}" && strings.ContainsAny(p, "{}*"):
			return fmt.Errorf("%q: a template stands for a whole part of the path", path)
		}
	}
	return nil
}

func (c *checker) wasmPlugin(w *extensions.WasmPlugin) {
	c.attachment(w.Selector, w.TargetRef, w.TargetRefs)
	c.wasm("spec", w)
	for i, m := range w.Match {
		c.ports(index("spec.match", i)+".ports", m.GetPorts())
	}
}

func (c *checker) trafficExtension(t *extensions.TrafficExtension) {
	c.attachment(t.Selector, nil, t.TargetRefs)
	switch f := t.FilterConfig.(type) {
	case *extensions.TrafficExtension_Wasm:
		c.wasm("spec.wasm", f.Wasm)
	case *extensions.TrafficExtension_Lua:
		const limit = 65536
		if n := len(f.Lua.GetInlineCode()); n < 1 || n > limit {
			c.fail("spec.lua.inlineCode", "has %d bytes; it must have 1 to %d", n, limit)
		}
	default:
		c.fail("spec", "wasm or lua is needed")
	}
	for i, m := range t.Match {
		c.ports(index("spec.match", i)+".ports", m.GetPorts())
	}
}

func (c *checker) ports(field string, ports []*apitype.PortSelector) {
	for i, p := range ports {
		c.failIf(index(field, i)+".number", portNumber(p.GetNumber()))
	}
}

// module is what both kinds that load WebAssembly have.
type module interface {
	GetUrl() string
	GetSha256() string
	GetVmConfig() *extensions.VmConfig
}

func (c *checker) wasm(field string, m module) {
	u, err := url.Parse(m.GetUrl())
	switch {
	case m.GetUrl() == "":
		c.fail(field+".url", "must not be empty")
	case err != nil || !slices.Contains([]string{"", "file", "http", "https", "oci"}, u.Scheme):
		c.fail(field+".url", "%q is not an oci, http, https or file URL", m.GetUrl())
	}
	if sum := m.GetSha256(); sum != "" {
		if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
			c.fail(field+".sha256", "%q is not 64 hexadecimal digits", sum)
		}
	}
	seen := map[string]bool{}
	for i, e := range m.GetVmConfig().GetEnv() {
		at := index(field+".vmConfig.env", i)
		switch {
		case e.GetName() == "":
			c.fail(at+".name", "must not be empty")
		case seen[e.GetName()]:
			c.fail(at+".name", "%q is set twice", e.GetName())
		}
		seen[e.GetName()] = true
		if e.GetValueFrom() == extensions.EnvValueSource_HOST && e.GetValue() != "" {
			c.fail(at+".value", "excludes valueFrom HOST")
		}
	}
}

func (c *checker) proxyConfig(p *networkingbeta.ProxyConfig) {
	c.selector(p.Selector)
	c.notNegative("spec.concurrency", p.GetConcurrency().GetValue())
}

func (c *checker) telemetry(t *telemetry.Telemetry) {
	c.attachment(t.Selector, t.TargetRef, t.TargetRefs)
	if len(t.Tracing) > 1 {
		c.warn("spec.tracing", "only the first is used")
	}
	for i, tr := range t.Tracing {
		c.tracing(index("spec.tracing", i), tr)
	}
	for i, m := range t.Metrics {
		at := index("spec.metrics", i)
		c.providers(at+".providers", m.GetProviders())
		for j, o := range m.GetOverrides() {
			c.tagOverrides(index(at+".overrides", j)+".tagOverrides", o.GetTagOverrides())
		}
	}
	for i, l := range t.AccessLogging {
		c.providers(index("spec.accessLogging", i)+".providers", l.GetProviders())
	}
}

func (c *checker) tracing(field string, t *telemetry.Tracing) {
	if len(t.GetProviders()) > 1 {
		c.warn(field+".providers", "only the first is used")
	}
	c.providers(field+".providers", t.GetProviders())
	if p := t.GetRandomSamplingPercentage(); p != nil && (p.GetValue() < 0 || p.GetValue() > 100) {
		c.fail(field+".randomSamplingPercentage", "%v is not a percentage", p.GetValue())
	}
	for _, name := range sortedKeys(t.GetCustomTags()) {
		at := entry(field+".customTags", name)
		if name == "" {
			c.fail(at, "the tag has no name")
		}
		switch tag := t.CustomTags[name].GetType().(type) {
		case *telemetry.Tracing_CustomTag_Literal:
			c.needed(at+".literal.value", tag.Literal.GetValue())
		case *telemetry.Tracing_CustomTag_Environment:
			c.needed(at+".environment.name", tag.Environment.GetName())
		case *telemetry.Tracing_CustomTag_Header:
			c.needed(at+".header.name", tag.Header.GetName())
		case *telemetry.Tracing_CustomTag_Formatter:
			c.needed(at+".formatter.value", tag.Formatter.GetValue())
		}
	}
}

func (c *checker) needed(field, value string) {
	if value == "" {
		c.fail(field, "must not be empty")
	}
}

func (c *checker) providers(field string, providers []*telemetry.ProviderRef) {
	for i, p := range providers {
		c.needed(index(field, i)+".name", p.GetName())
	}
}

func (c *checker) tagOverrides(field string, tags map[string]*telemetry.MetricsOverrides_TagOverride) {
	for _, name := range sortedKeys(tags) {
		at := entry(field, name)
		upsert := tags[name].GetOperation() == telemetry.MetricsOverrides_TagOverride_UPSERT
		switch {
		case name == "":
			c.fail(at, "the tag has no name")
		case upsert && tags[name].GetValue() == "":
			c.fail(at+".value", "needed for UPSERT")
		case !upsert && tags[name].GetValue() != "":
			c.fail(at+".value", "REMOVE takes no value")
		}
	}
}

// envoyFilter checks the shape of patches. Whether a patch fits Envoy is found out where it is applied.
func (c *checker) envoyFilter(f *networking.EnvoyFilter) {
	c.warn("spec", "EnvoyFilter is an interface to internals, which change between versions")
	for i, p := range f.ConfigPatches {
		at := index("spec.configPatches", i)
		if p.GetApplyTo() == networking.EnvoyFilter_INVALID {
			c.fail(at+".applyTo", "missing")
		}
		if p.GetPatch() == nil {
			c.fail(at+".patch", "missing")
			continue
		}
		op := p.Patch.Operation
		if op == networking.EnvoyFilter_Patch_INVALID {
			c.fail(at+".patch.operation", "missing")
		}
		if op != networking.EnvoyFilter_Patch_REMOVE && p.Patch.Value == nil {
			c.fail(at+".patch.value", "missing")
		}
		c.patchMatch(at+".match", p)
	}
}

func (c *checker) patchMatch(field string, p *networking.EnvoyFilter_EnvoyConfigObjectPatch) {
	if v := p.GetMatch().GetProxy().GetProxyVersion(); v != "" {
		c.failIf(field+".proxy.proxyVersion", regularExpression(v))
	}
	var fits []networking.EnvoyFilter_ApplyTo
	switch p.GetMatch().GetObjectTypes().(type) {
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Listener:
		fits = []networking.EnvoyFilter_ApplyTo{
			networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER,
			networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_LISTENER_FILTER, networking.EnvoyFilter_EXTENSION_CONFIG,
		}
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_RouteConfiguration:
		fits = []networking.EnvoyFilter_ApplyTo{
			networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE,
		}
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Cluster:
		fits = []networking.EnvoyFilter_ApplyTo{networking.EnvoyFilter_CLUSTER}
	default:
		return
	}
	if !slices.Contains(fits, p.GetApplyTo()) {
		c.fail(field, "does not fit applyTo %s", p.GetApplyTo())
	}
}
