package file

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// locate returns the line in the file of the field at path ("spec.http[0].route"), or of the nearest field above it.
// It parses the document again, and is called for problems only and for members of lists.
func locate(doc document, path string) int {
	root, err := parseNode(doc.data)
	if err != nil || len(root.Content) == 0 {
		return doc.line
	}
	node, line := root.Content[0], doc.line-doc.base+1
	for _, step := range steps(strings.TrimSuffix(path, ".")) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return doc.base + line - 1
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

func child(n *yamlv3.Node, step string) (*yamlv3.Node, int) {
	for n.Kind == yamlv3.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}

func parseNode(data []byte) (root *yamlv3.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	root = &yamlv3.Node{}
	return root, yamlv3.Unmarshal(data, root)
}

// explodes says whether the aliases of a document, written out, make more than limit bytes.
func explodes(data []byte, limit int) bool {
	if bytes.IndexByte(data, '*') < 0 || bytes.IndexByte(data, '&') < 0 {
		return false
	}
	root, err := parseNode(data)
	if err != nil {
		return false // the real decoder reports it
	}
	w := &weigher{limit: limit, known: map[*yamlv3.Node]int{}}
	return w.weigh(root) > limit
}

// deeper says whether a JSON tree is nested deeper than limit.
func deeper(tree any, limit int) bool {
	if limit < 0 {
		return true
	}
	switch t := tree.(type) {
	case map[string]any:
		for _, v := range t {
			if deeper(v, limit-1) {
				return true
			}
		}
	case []any:
		for _, v := range t {
			if deeper(v, limit-1) {
				return true
			}
		}
	}
	return false
}

// weigher computes how large a document is when its aliases are written out.
type weigher struct {
	limit int
	known map[*yamlv3.Node]int // weights of anchored nodes; -1 while being weighed
}

func (w *weigher) weigh(n *yamlv3.Node) int {
	if n.Kind == yamlv3.AliasNode {
		if n.Alias == nil {
			return 1
		}
		return w.weigh(n.Alias)
	}
	if n.Anchor != "" {
		if known, ok := w.known[n]; ok {
			if known < 0 {
				return w.limit + 1 // an alias inside of what it names
			}
			return known
		}
		w.known[n] = -1
	}
	sum := len(n.Value) + 4
	for _, c := range n.Content {
		if sum += w.weigh(c); sum > w.limit {
			sum = w.limit + 1
			break
		}
	}
	if n.Anchor != "" {
		w.known[n] = sum
	}
	return sum
}
