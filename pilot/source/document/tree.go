package document

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

const (
	// MaxDepth bounds the nesting of a document. Real objects stay below 30.
	MaxDepth = 200
	// growth bounds how far aliases may blow a document up, in multiples of the limit of its size.
	growth = 2
)

// Error is why a document cannot be read.
type Error struct {
	// TooLarge says that it is refused for what it would cost, not for its syntax.
	TooLarge bool
	// Line counts from 1, in the file.
	Line    int
	Message string
}

// Error returns the line and the message.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Tree parses the document, whose text may have limit bytes. The tree is made of map[string]any, []any, string, bool,
// int64, float64 and nil, and shares no memory with the text.
func (d *Document) Tree(limit int) (tree any, failure *Error) {
	if len(d.Data) > limit {
		return nil, &Error{TooLarge: true, Line: d.Line, Message: fmt.Sprintf("the document has %d bytes, more than %d", len(d.Data), limit)}
	}
	if err := d.parse(); err != nil {
		return nil, err
	}
	if d.root.Kind == 0 || len(d.root.Content) == 0 {
		return nil, nil
	}
	b := &builder{doc: d, left: limit * growth, limit: limit * growth}
	tree = b.build(d.root.Content[0], 0)
	return tree, b.err
}

// libraryLine is how the YAML library names the line of a mistake.
var libraryLine = regexp.MustCompile(`line (\d+): `)

// fromZero finds the mistakes of which the YAML library counts the lines from 0: those of its parser. What its scanner
// finds, below the tokens, has lines from 1.
var fromZero = regexp.MustCompile(`^did not find expected (<stream-start>|<document start>|node content|'-' indicator|key|',' or '[]}]')|^found (duplicate|incompatible|undefined)`)

// parse fills in the root. The YAML library panics on some broken inputs.
func (d *Document) parse() (failure *Error) {
	if d.root != nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			failure = &Error{Line: d.Line, Message: fmt.Sprint(r)}
		}
	}()
	root := &yaml.Node{}
	if err := yaml.Unmarshal(d.Data, root); err != nil {
		return d.libraryError(err)
	}
	d.root = root
	return nil
}

func (d *Document) libraryError(err error) *Error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := d.Line
	if m := libraryLine.FindStringSubmatchIndex(message); m != nil {
		if n, err := strconv.Atoi(message[m[2]:m[3]]); err == nil {
			if fromZero.MatchString(message[m[1]:]) {
				n++
			}
			// What is missing at the end is missing behind the last line that says something.
			line = d.fileLine(min(n, bytes.Count(bytes.TrimRight(d.Data, " \t\r\n"), []byte("\n"))+1))
		}
		message = message[:m[0]] + message[m[1]:]
	}
	return &Error{Line: line, Message: strings.Join(strings.Fields(message), " ")}
}

// builder turns nodes into a tree. After an error it does nothing more.
type builder struct {
	doc         *Document
	left, limit int // bytes
	err         *Error
}

func (b *builder) fail(n *yaml.Node, format string, args ...any) {
	if b.err == nil {
		b.err = &Error{Line: b.doc.fileLine(n.Line), Message: fmt.Sprintf(format, args...)}
	}
}

func (b *builder) build(n *yaml.Node, depth int) any {
	if b.err != nil {
		return nil
	}
	if depth > MaxDepth { // also an alias inside of what it names
		b.fail(n, "the document is nested deeper than %d", MaxDepth)
		b.err.TooLarge = true
		return nil
	}
	if b.left -= len(n.Value) + 8; b.left < 0 {
		b.fail(n, "aliases make the document larger than %d bytes", b.limit)
		b.err.TooLarge = true
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return b.build(n.Alias, depth+1)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			out = append(out, b.build(c, depth+1))
		}
		return out
	case yaml.MappingNode:
		return b.mapping(n, depth)
	case yaml.ScalarNode:
		return b.scalar(n)
	}
	b.fail(n, "unexpected node")
	return nil
}

func (b *builder) mapping(n *yaml.Node, depth int) map[string]any {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" {
			continue
		}
		key, ok := b.key(k)
		if !ok {
			return nil
		}
		if _, ok := out[key]; ok {
			b.fail(k, "the key %q is set twice", key)
			return nil
		}
		out[key] = b.build(v, depth+1)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			b.merge(out, n.Content[i+1], depth+1)
		}
	}
	return out
}

// key returns the text of a key: numbers and booleans are what was written.
func (b *builder) key(k *yaml.Node) (string, bool) {
	for k.Kind == yaml.AliasNode && k.Alias != nil {
		k = k.Alias
	}
	if k.Kind != yaml.ScalarNode || k.Tag == "!!null" {
		b.fail(k, "a key must be text")
		return "", false
	}
	b.left -= len(k.Value)
	return strings.Clone(k.Value), true
}

// merge fills in what "<<" refers to: one mapping, or several, of which the first wins.
func (b *builder) merge(into map[string]any, n *yaml.Node, depth int) {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		from, _ := b.build(n, depth).(map[string]any)
		for k, v := range from {
			if _, ok := into[k]; !ok {
				into[k] = v
			}
		}
	case yaml.SequenceNode:
		if depth > MaxDepth {
			b.fail(n, "the document is nested deeper than %d", MaxDepth)
			return
		}
		for _, c := range n.Content {
			b.merge(into, c, depth+1)
		}
	default:
		b.fail(n, "<< needs a mapping")
	}
}

func (b *builder) scalar(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		return b.number(n)
	case "!!binary":
		text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			b.fail(n, "!!binary is not base64")
		}
		return string(text)
	case "!!str":
		if v, ok := word(n); ok {
			return v
		}
	}
	return strings.Clone(n.Value)
}

// word finds the booleans of YAML 1.1, which kubectl knows.
func word(n *yaml.Node) (v, ok bool) {
	const marked = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	if n.Style&marked != 0 {
		return false, false
	}
	switch n.Value {
	case "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

func (b *builder) number(n *yaml.Node) any {
	var v any
	if err := n.Decode(&v); err != nil {
		b.fail(n, "%q is not a number", n.Value)
		return nil
	}
	switch x := v.(type) {
	case int:
		return int64(x)
	case int64:
		return x
	case uint64:
		return float64(x)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			b.fail(n, "%q is not a finite number", n.Value)
		}
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x)
		}
		return x
	}
	b.fail(n, "%q is not a number", n.Value)
	return nil
}
