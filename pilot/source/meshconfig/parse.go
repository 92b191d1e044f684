package meshconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/document"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// Parse returns the mesh configuration that the YAML texts give, each applied onto the one before, the first onto the
// defaults. An unknown field or a value out of range is an error that names it.
func Parse(texts ...[]byte) (*model.Mesh, error) {
	config := Defaults()
	for _, text := range texts {
		next, err := Apply(config, text)
		if err != nil {
			return nil, fmt.Errorf("mesh configuration: %w", err)
		}
		config = next
	}
	return New(config, nil), nil
}

// New makes the model's form of a configuration. Nil networks mean none.
func New(config *mesh.MeshConfig, networks *mesh.MeshNetworks) *model.Mesh {
	if networks == nil {
		networks = &mesh.MeshNetworks{}
	}
	return &model.Mesh{
		Config: config, Networks: networks,
		DefaultServiceExportTo:         exportTo(config.GetDefaultServiceExportTo()),
		DefaultVirtualServiceExportTo:  exportTo(config.GetDefaultVirtualServiceExportTo()),
		DefaultDestinationRuleExportTo: exportTo(config.GetDefaultDestinationRuleExportTo()),
	}
}

func exportTo(given []string) []string {
	if len(given) == 0 {
		return []string{"*"}
	}
	return given
}

// ParseNetworks returns the mesh networks of a YAML text. Errors are a *convert.FieldError where there is a field.
func ParseNetworks(text []byte) (*mesh.MeshNetworks, error) {
	out := &mesh.MeshNetworks{}
	t, err := tree(text)
	if err == nil {
		err = message(out, t, "")
	}
	if err != nil {
		return nil, fmt.Errorf("mesh networks: %w", err)
	}
	if err := Invalid(validate.MeshNetworks(out)).orNil(); err != nil {
		return nil, fmt.Errorf("mesh networks: %w", err)
	}
	return out, nil
}

// Invalid is the error of a configuration that can be read, but must not be used.
type Invalid []validate.Issue

// Error lists the mistakes.
func (e Invalid) Error() string {
	errs := make([]error, len(e))
	for i, issue := range e {
		errs[i] = fmt.Errorf("%s: %s", issue.Field, issue.Message)
	}
	return errors.Join(errs...).Error()
}

func (e Invalid) orNil() error {
	errs := slices.DeleteFunc(slices.Clone(e), func(i validate.Issue) bool { return i.Warning })
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Validate returns what is wrong with a configuration, as an Invalid, or nil.
func Validate(c *mesh.MeshConfig) error { return Invalid(validate.MeshConfig(c)).orNil() }

// textLimit bounds a configuration, in bytes. It is what a ConfigMap can hold, with room.
const textLimit = 4 << 20

func tree(text []byte) (map[string]any, error) {
	doc := document.Single(text)
	out, err := doc.Tree(textLimit)
	if err != nil {
		return nil, err
	}
	switch t := out.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return t, nil
	}
	return nil, errors.New("not an object")
}

// message decodes t onto m; fields that t has replace m's.
func message(m proto.Message, t map[string]any, path string) error {
	if err := convert.Message(m, t, path, convert.RejectUnknown); err != nil {
		return err
	}
	return nil
}

// Apply returns base with the fields of the YAML text on top, validated. Fields replace those of base, but for the ones
// that merge: defaultConfig and defaultProviders field by field, extensionProviders by name, and trustDomainAliases as
// a union. base is not modified.
func Apply(base *mesh.MeshConfig, text []byte) (*mesh.MeshConfig, error) {
	t, err := tree(text)
	if err != nil {
		return nil, err
	}
	config := proto.CloneOf(base)
	proxy := taken(t, "defaultConfig", "default_config")
	providers := taken(t, "defaultProviders", "default_providers")
	extensions := taken(t, "extensionProviders", "extension_providers")
	aliases := taken(t, "trustDomainAliases", "trust_domain_aliases")
	if err := message(config, t, ""); err != nil {
		return nil, err
	}
	if err := applyProxyConfig(config, proxy); err != nil {
		return nil, err
	}
	if config.DefaultProviders == nil {
		config.DefaultProviders = &mesh.MeshConfig_DefaultProviders{}
	}
	if err := nested(config.DefaultProviders, providers, "defaultProviders"); err != nil {
		return nil, err
	}
	more := &mesh.MeshConfig{}
	lists := map[string]any{"extensionProviders": extensions, "trustDomainAliases": aliases}
	if err := message(more, lists, ""); err != nil {
		return nil, err
	}
	config.ExtensionProviders = mergeProviders(config.ExtensionProviders, more.ExtensionProviders)
	if len(more.TrustDomainAliases) > 0 {
		all := slices.Concat(config.TrustDomainAliases, more.TrustDomainAliases)
		slices.Sort(all)
		config.TrustDomainAliases = slices.Compact(all)
	}
	return config, Validate(config)
}

// taken removes the value of a field, which has two names, from t and returns it.
func taken(t map[string]any, names ...string) any {
	var out any
	for _, n := range names {
		if v, ok := t[n]; ok {
			out = v
			delete(t, n)
		}
	}
	return out
}

// nested decodes v, which must be an object if it is anything, onto m.
func nested(m proto.Message, v any, path string) error {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return message(m, v, path)
	}
	return &convert.FieldError{Path: path, Message: "not an object"}
}

// applyProxyConfig merges field by field; proxyMetadata key by key and proxyHeaders field by field.
func applyProxyConfig(config *mesh.MeshConfig, v any) error {
	const path = "defaultConfig"
	if config.DefaultConfig == nil {
		config.DefaultConfig = &mesh.ProxyConfig{}
	}
	into := config.DefaultConfig
	metadata := into.ProxyMetadata
	var headers any
	if t, ok := v.(map[string]any); ok {
		headers = taken(t, "proxyHeaders", "proxy_headers")
	}
	if err := nested(into, v, path); err != nil {
		return err
	}
	both := maps.Clone(metadata)
	if both == nil {
		both = into.ProxyMetadata
	}
	maps.Copy(both, into.ProxyMetadata)
	into.ProxyMetadata = both
	if headers == nil {
		return nil
	}
	if into.ProxyHeaders == nil {
		into.ProxyHeaders = &mesh.ProxyConfig_ProxyHeaders{}
	}
	return nested(into.ProxyHeaders, headers, path+".proxyHeaders")
}

func mergeProviders(old, more []*mesh.MeshConfig_ExtensionProvider) []*mesh.MeshConfig_ExtensionProvider {
	out := slices.Clone(old)
	for _, p := range more {
		i := slices.IndexFunc(out, func(o *mesh.MeshConfig_ExtensionProvider) bool { return o.GetName() == p.GetName() })
		if i >= 0 {
			out[i] = p
		} else {
			out = append(out, p)
		}
	}
	return out
}
