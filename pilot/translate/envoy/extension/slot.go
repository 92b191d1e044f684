package extension

import (
	"fmt"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Source makes the resource of a name, or returns none if the name is not one of its own.
type Source func(c *view.Context, name string) ([]*translate.Message, error)

// Slot returns the extension configurations that filters are discovered by, by name. Names that are no plugin's are
// asked of more, in order: this is where other packages add theirs.
func Slot(more ...Source) *translate.Slot {
	sources := append([]Source{plugins}, more...)
	return &translate.Slot{
		Name: "ecds", TypeURL: translate.ExtensionType,
		Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			name, ok := unit.(string)
			if !ok {
				return nil, fmt.Errorf("extension configuration: unit %v is not a name", unit)
			}
			for _, s := range sources {
				if out, err := s(c, name); err != nil || len(out) > 0 {
					return out, err
				}
			}
			return nil, nil
		},
	}
}

// plugins returns the configuration of a plugin, if the proxy's listeners can refer to it.
func plugins(c *view.Context, name string) ([]*translate.Message, error) {
	key, ok := keyOf(name)
	if !ok {
		return nil, nil
	}
	o := c.Object(key)
	if o == nil || key.Namespace != c.Mesh().RootNamespace() && key.Namespace != c.ProxyNamespace() {
		return nil, nil
	}
	p := pluginOf(o)
	if p == nil {
		return nil, nil
	}
	return []*translate.Message{{Name: name, Proto: p.config(c)}}, nil
}
