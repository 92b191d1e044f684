package offline

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// TypeNames returns the short name of each type URL that a Resources may have, as the field and our output call it.
func TypeNames() map[string]string {
	return map[string]string{
		translate.ClusterType: "clusters", translate.EndpointType: "endpoints", translate.ListenerType: "listeners",
		translate.RouteType: "routes", translate.ExtensionType: "extensions", translate.NameTableType: "names",
	}
}

// JSON returns resources by type and name, in the form that Envoy reads, deterministically: proto field names, sorted,
// messages in Any opened.
func (r Resources) JSON() ([]byte, error) {
	out := map[string][]map[string]any{}
	short := TypeNames()
	for url, byName := range r {
		if len(byName) == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			v, err := tree(byName[name].Message)
			if err != nil {
				return nil, fmt.Errorf("writing %s: %w", name, err)
			}
			entry := map[string]any{"name": name, "resource": v}
			if objects := byName[name].Objects; len(objects) > 0 {
				list := make([]string, len(objects))
				for i, o := range objects {
					list[i] = o.String()
				}
				entry["objects"] = list
			}
			out[short[url]] = append(out[short[url]], entry)
		}
	}
	return indented(out)
}

// YAML returns what JSON does as YAML.
func (r Resources) YAML() ([]byte, error) {
	text, err := r.JSON()
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text)
}

// indented writes a value without the spaces that protojson varies on purpose.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tree returns a message as JSON values. One that holds an Any of a type that is not known here is given as bytes.
func tree(m proto.Message) (any, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		raw, rawErr := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if rawErr != nil {
			return nil, rawErr
		}
		return map[string]any{"unreadable": err.Error(), "bytes": base64.StdEncoding.EncodeToString(raw)}, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	return v, d.Decode(&v)
}
