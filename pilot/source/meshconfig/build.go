package meshconfig

import (
	"cmp"
	"errors"
	"slices"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/document"
)

// Texts are what one input holds now.
type Texts struct {
	// Name says where they come from, for problems: a path, or "ConfigMap namespace/name".
	Name string
	// Config and Networks are YAML; nil means that the input has none.
	Config, Networks []byte
	// Err says why the input could not be read. The texts are then the last ones that could.
	Err error
}

// Build returns the configuration that the inputs, the weakest first, give, and what is wrong with them. last is the
// configuration in force, or nil. Of a single input that is bad the last good value is kept; of several only the bad
// ones are left out. Networks are taken whole from the first input that has them.
func Build(last *model.Mesh, inputs []Texts) (*model.Mesh, []source.Problem) {
	config, problems := buildConfig(last, inputs)
	networks, more := buildNetworks(last, inputs)
	for _, in := range inputs {
		if in.Err != nil {
			problems = append(problems, source.Problem{Code: "read", File: in.Name, Message: in.Err.Error()})
		}
	}
	problems = append(problems, more...)
	slices.SortStableFunc(problems, func(a, b source.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
	})
	return New(config, networks), problems
}

func buildConfig(last *model.Mesh, inputs []Texts) (*mesh.MeshConfig, []source.Problem) {
	config := Defaults()
	var problems []source.Problem
	for _, in := range inputs {
		next, err := Apply(config, in.Config)
		if err == nil {
			config = next
			continue
		}
		problems = append(problems, problemsOf(in.Name, "MeshConfig", in.Config, err)...)
		if len(inputs) == 1 && last != nil {
			config = last.Config
		}
	}
	return config, problems
}

func buildNetworks(last *model.Mesh, inputs []Texts) (*mesh.MeshNetworks, []source.Problem) {
	for _, in := range inputs {
		if in.Networks == nil {
			continue
		}
		networks, err := ParseNetworks(in.Networks)
		if err == nil {
			return networks, nil
		}
		if last != nil {
			networks = last.Networks
		}
		return networks, problemsOf(in.Name, "MeshNetworks", in.Networks, err)
	}
	return nil, nil
}

func problemsOf(name string, kind model.Kind, text []byte, err error) []source.Problem {
	doc := document.Single(text)
	at := func(code, field, message string) source.Problem {
		return source.Problem{
			Code: code, File: name, Line: doc.Locate(field), Object: model.ObjectKey{Kind: kind},
			Field: field, Message: message,
		}
	}
	var invalid Invalid
	var broken *document.Error
	var fe *convert.FieldError
	switch {
	case errors.As(err, &invalid):
		var out []source.Problem
		for _, issue := range invalid {
			out = append(out, at("invalid", issue.Field, issue.Message))
		}
		return out
	case errors.As(err, &broken):
		p := at("yaml", "", broken.Message)
		p.Line = broken.Line
		return []source.Problem{p}
	case errors.As(err, &fe):
		return []source.Problem{at("field", fe.Path, fe.Message)}
	}
	return []source.Problem{at("yaml", "", err.Error())}
}
