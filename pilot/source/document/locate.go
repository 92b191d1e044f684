package document

import (
	"bytes"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// Locate returns the line in the file of the field at path ("spec.http[0].route"), or of the nearest field above it.
func (d *Document) Locate(path string) int {
	if path == "" || d.parse() != nil || len(d.root.Content) == 0 {
		return d.Line
	}
	node, line := d.root.Content[0], d.Line-d.Base+1
	for _, step := range steps(strings.TrimSuffix(path, ".")) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return d.fileLine(line)
}

// fileLine turns the YAML library's line into the file's. The library takes more characters for ends of lines than
// editors do.
func (d *Document) fileLine(line int) int {
	return d.Base + min(max(line, 1), bytes.Count(d.Data, []byte("\n"))+1) - 1
}

// steps splits "a.b[0][k.x].c" into a, b, 0, k.x, c.
func steps(path string) []string {
	var out []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			key, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, key), rest
		default:
			n := strings.IndexAny(path, ".[")
			if n < 0 {
				n = len(path)
			}
			out, path = append(out, path[:n]), path[n:]
		}
	}
	return out
}

func child(n *yaml.Node, step string) (*yaml.Node, int) {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}
