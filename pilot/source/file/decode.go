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
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// Codes of problems, of the list at source.Problem.
const (
	codeYAML      = "yaml"
	codeKind      = "kind"
	codeField     = "field"
	codeSize      = "size"
	codeDuplicate = "duplicate"
	codeInvalid   = "invalid"
	codeRead      = "read"
)

// DefaultDocumentLimit is the size in bytes above which a document is refused. It is what etcd takes.
const DefaultDocumentLimit = 1_500_000

const (
	// maxDepth bounds the nesting of a document. Real objects stay below 30.
	maxDepth = 200
	// maxGrowth bounds how far aliases may blow a document up, in multiples of the document limit.
	maxGrowth = 2
)

// Check finds what is wrong with an object that decodes well.
type Check func(o *model.Object) []validate.Issue

// Decoder turns the bytes of files into objects. It is immutable.
type Decoder struct {
	catalog *convert.Catalog
	limit   int
	check   Check
}

// NewDecoder returns a decoder that refuses documents of more than limit bytes (0 means DefaultDocumentLimit) and
// objects in which check finds errors, unless it is nil.
func NewDecoder(limit int, check Check) *Decoder {
	if limit <= 0 {
		limit = DefaultDocumentLimit
	}
	return &Decoder{catalog: convert.NewCatalog(), limit: limit, check: check}
}

// Decode reads the documents of one file with the default limit and no check; see Decoder.Decode.
func Decode(file string, data []byte) ([]*model.Object, []source.Problem) {
	return NewDecoder(0, nil).Decode(file, data)
}

// Decode reads the documents of one file. Objects and problems come in the order of the documents. A document that
// cannot be read is one problem and harms no other; of an object that check refuses, each error is one. Objects of
// kinds that nothing reads are ignored. file is the name used for origins and problems only. Objects share no memory
// with data.
func (d *Decoder) Decode(file string, data []byte) ([]*model.Object, []source.Problem) {
	var objects []*model.Object
	var problems []source.Problem
	for _, doc := range split(data) {
		for _, e := range d.decodeDocument(file, doc) {
			if e.object != nil {
				objects = append(objects, e.object)
			}
			problems = append(problems, e.problems...)
		}
	}
	return objects, problems
}

// entry is what one object's text in a file gave: an object, or problems.
type entry struct {
	object   *model.Object
	key      model.ObjectKey // of the object, as far as it could be told
	line     int
	problems []source.Problem
}

func (d *Decoder) decodeDocument(file string, doc document) (entries []entry) {
	f := &decoding{Decoder: d, file: file}
	defer func() {
		// No input is known to get here; but if one does, it must cost its own document only.
		if r := recover(); r != nil {
			f.problem(doc, codeYAML, model.ObjectKey{}, "", fmt.Sprintf("cannot be decoded: %v", r))
			entries = f.entries
		}
	}()
	f.document(doc)
	return f.entries
}

// decoding is the work on one document.
type decoding struct {
	*Decoder
	file    string
	entries []entry
}

func (f *decoding) document(doc document) {
	if len(doc.data) > f.limit {
		f.problem(doc, codeSize, model.ObjectKey{}, "", fmt.Sprintf("the document has %d bytes, more than %d", len(doc.data), f.limit))
		return
	}
	if explodes(doc.data, f.limit*maxGrowth) {
		f.problem(doc, codeSize, model.ObjectKey{}, "",
			fmt.Sprintf("aliases make the document larger than %d bytes", f.limit*maxGrowth))
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
	e := entry{object: o, key: o.ObjectKey, line: f.line(doc, at)}
	o.Origin = f.file + ":" + strconv.Itoa(e.line)
	if e.problems = f.checked(doc, o, at); len(e.problems) > 0 {
		e.object = nil
	}
	f.entries = append(f.entries, e)
}

func (f *decoding) checked(doc document, o *model.Object, at string) (problems []source.Problem) {
	if f.check == nil {
		return nil
	}
	for _, issue := range f.check(o) {
		if issue.Warning {
			continue
		}
		problems = append(problems, source.Problem{
			Code: codeInvalid, File: f.file, Line: f.line(doc, at+issue.Field), Object: o.ObjectKey,
			Field: at + issue.Field, Message: issue.Message,
		})
	}
	return problems
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
	f.add(source.Problem{
		Code: code, File: f.file, Line: f.line(doc, field), Object: key, Field: field, Message: message,
	})
}

func (f *decoding) add(p source.Problem) {
	f.entries = append(f.entries, entry{key: p.Object, line: p.Line, problems: []source.Problem{p}})
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
	f.add(source.Problem{Code: codeYAML, File: f.file, Line: line, Message: message})
}

func (f *decoding) line(doc document, path string) int {
	if path == "" {
		return doc.line
	}
	return locate(doc, path)
}
