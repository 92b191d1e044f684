package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// Codes of problems, of the list at source.Problem.
const (
	codeYAML      = "yaml"
	codeKind      = "kind"
	codeField     = "field"
	codeSize      = "size"
	codeDuplicate = "duplicate"
	codeInvalid   = "invalid"
)

// DefaultDocumentLimit is the size in bytes above which a document is refused. It is what etcd takes.
const DefaultDocumentLimit = 1_500_000

const (
	// maxDepth bounds the nesting of a document. Real objects stay below 30.
	maxDepth = 200
	// maxGrowth bounds how far aliases may blow a document up, in multiples of the document limit.
	maxGrowth = 2
)

// Decoder turns the bytes of files into objects. It is immutable.
type Decoder struct {
	catalog *convert.Catalog
	limit   int
}

// NewDecoder returns a decoder that refuses documents of more than limit bytes; 0 means DefaultDocumentLimit.
func NewDecoder(limit int) *Decoder {
	if limit <= 0 {
		limit = DefaultDocumentLimit
	}
	return &Decoder{catalog: convert.NewCatalog(), limit: limit}
}

// Decode reads the documents of one file with the default limit; see Decoder.Decode.
func Decode(file string, data []byte) ([]*model.Object, []source.Problem) {
	return NewDecoder(0).Decode(file, data)
}

// Decode reads the documents of one file. Objects and problems come in the order of the documents. A document that
// cannot be read is one problem and harms no other. Objects of kinds that nothing reads are ignored. file is the name
// used for origins and problems only. Objects share no memory with data.
func (d *Decoder) Decode(file string, data []byte) ([]*model.Object, []source.Problem) {
	f := &decoding{Decoder: d, file: file}
	for _, doc := range split(data) {
		f.document(doc)
	}
	return f.objects, f.problems
}

type decoding struct {
	*Decoder
	file     string
	objects  []*model.Object
	problems []source.Problem
}

func (f *decoding) document(doc document) {
	if len(doc.data) > f.limit {
		f.problem(doc, codeSize, model.ObjectKey{}, "", fmt.Sprintf("the document has %d bytes, more than %d", len(doc.data), f.limit))
		return
	}
	if explodes(doc.data, f.limit*maxGrowth) {
		f.problem(doc, codeSize, model.ObjectKey{}, "", fmt.Sprintf("aliases make the document larger than %d bytes", f.limit*maxGrowth))
		return
	}
	text, err := toJSON(doc.data)
	if err != nil {
		f.yamlProblem(doc, err)
		return
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &tree); err != nil {
		f.problem(doc, codeYAML, model.ObjectKey{}, "", err.Error())
		return
	}
	if deeper(tree, maxDepth) {
		f.problem(doc, codeSize, model.ObjectKey{}, "", fmt.Sprintf("the document is nested deeper than %d", maxDepth))
		return
	}
	switch t := tree.(type) {
	case nil:
	case map[string]any:
		f.object(doc, t, text, "")
	default:
		f.problem(doc, codeYAML, model.ObjectKey{}, "", "the document is not an object")
	}
}

// toJSON converts YAML as kubectl does; duplicate keys are errors. The YAML library panics on some broken inputs.
func toJSON(data []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return yaml.YAMLToJSONStrict(data)
}

// object decodes one object, or the members of a list. text is the object's JSON, nil for members of a list. at is the
// path of the object in the document, with its final dot.
func (f *decoding) object(doc document, tree map[string]any, text []byte, at string) {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	if apiVersion == "" || kind == "" {
		f.problem(doc, codeKind, keyOf(tree, nil), at+"kind", "apiVersion and kind are needed")
		return
	}
	if items, ok := tree["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		f.list(doc, apiVersion, strings.TrimSuffix(kind, "List"), items, at)
		return
	}
	r, match := f.catalog.Lookup(apiVersion, kind)
	switch match {
	case convert.Foreign:
		return
	case convert.UnknownKind:
		f.problem(doc, codeKind, keyOf(tree, nil), at+"kind", fmt.Sprintf("%s has no kind %s", apiVersion, kind))
		return
	case convert.UnknownVersion:
		f.problem(doc, codeKind, keyOf(tree, nil), at+"apiVersion", fmt.Sprintf("%s is not served in %s", kind, apiVersion))
		return
	}
	o, fe := f.convert(r, tree, text)
	if fe != nil {
		f.problem(doc, codeField, keyOf(tree, r), at+fe.Path, fe.Message)
		return
	}
	if !r.Istio() && r.Namespaced && o.Namespace == "" {
		convert.SetNamespace(o, "default") // as kubectl does
	}
	o.Origin = f.file + ":" + strconv.Itoa(f.line(doc, at))
	f.objects = append(f.objects, o)
}

func (f *decoding) convert(r *convert.Resource, tree map[string]any, text []byte) (*model.Object, *convert.FieldError) {
	if r.Istio() {
		return r.FromTree(tree, convert.RejectUnknown)
	}
	if text == nil {
		var err error
		if text, err = json.Marshal(tree); err != nil {
			return nil, &convert.FieldError{Message: err.Error()}
		}
	}
	return r.FromJSON(text, convert.RejectUnknown)
}

// list decodes the members of "kind: List" and of typed lists, whose members may lack their kind.
func (f *decoding) list(doc document, apiVersion, kind string, items []any, at string) {
	if strings.Count(at, "items[") > 1 {
		f.problem(doc, codeKind, model.ObjectKey{}, at+"items", "lists are nested too deeply")
		return
	}
	for i, item := range items {
		path := at + "items[" + strconv.Itoa(i) + "]"
		tree, ok := item.(map[string]any)
		if !ok {
			f.problem(doc, codeField, model.ObjectKey{}, path, "not an object")
			continue
		}
		if kind != "" && tree["kind"] == nil && tree["apiVersion"] == nil {
			tree["kind"], tree["apiVersion"] = kind, apiVersion
		}
		f.object(doc, tree, nil, path+".")
	}
}

// keyOf tells which object a broken tree was meant to be, as far as it can.
func keyOf(tree map[string]any, r *convert.Resource) model.ObjectKey {
	var k model.ObjectKey
	kind, _ := tree["kind"].(string)
	k.Kind = model.Kind(kind)
	if md, ok := tree["metadata"].(map[string]any); ok {
		k.Name, _ = md["name"].(string)
		k.Namespace, _ = md["namespace"].(string)
	}
	if r == nil {
		return k
	}
	k.Kind = r.Kind
	switch {
	case !r.Namespaced:
		k.Namespace = ""
	case k.Namespace == "" && !r.Istio():
		k.Namespace = "default"
	}
	return k
}

func (f *decoding) problem(doc document, code string, key model.ObjectKey, field, message string) {
	f.problems = append(f.problems, source.Problem{
		Code: code, File: f.file, Line: f.line(doc, field), Object: key, Field: field, Message: message,
	})
}

// yamlLine is how the YAML library names the line of a mistake.
var yamlLine = regexp.MustCompile(`line (\d+): `)

func (f *decoding) yamlProblem(doc document, err error) {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	line := doc.line
	if m := yamlLine.FindStringSubmatchIndex(message); m != nil {
		if n, err := strconv.Atoi(message[m[2]:m[3]]); err == nil {
			// The library counts from 0 in some errors and from 1 in others: never point outside of the document.
			line = doc.base + min(max(n, 1), bytes.Count(doc.data, []byte("\n"))+1) - 1
		}
		message = message[:m[0]] + message[m[1]:]
	}
	message = strings.Join(strings.Fields(strings.TrimPrefix(message, "unmarshal errors:")), " ")
	f.problems = append(f.problems, source.Problem{Code: codeYAML, File: f.file, Line: line, Message: message})
}

func (f *decoding) line(doc document, path string) int {
	if path == "" {
		return doc.line
	}
	return locate(doc, path)
}
