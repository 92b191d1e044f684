package file

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/document"
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
	for _, doc := range document.Split(data) {
		for _, e := range d.decodeDocument(file, &doc) {
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

func (d *Decoder) decodeDocument(file string, doc *document.Document) (entries []entry) {
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

func (f *decoding) document(doc *document.Document) {
	tree, err := doc.Tree(f.limit)
	if err != nil {
		code := codeYAML
		if err.TooLarge {
			code = codeSize
		}
		f.add(source.Problem{Code: code, File: f.file, Line: err.Line, Message: err.Message})
		return
	}
	switch t := tree.(type) {
	case nil:
	case map[string]any:
		f.object(doc, t, "")
	default:
		f.problem(doc, codeYAML, model.ObjectKey{}, "", "the document is not an object")
	}
}

// object decodes one object, or the members of a list. at is the path of the object in the document, with its final
// dot.
func (f *decoding) object(doc *document.Document, tree map[string]any, at string) {
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
	o, fe := convertTree(r, tree)
	if fe != nil {
		f.problem(doc, codeField, keyOf(tree, r), at+fe.Path, fe.Message)
		return
	}
	if !r.Istio() && r.Namespaced && o.Namespace == "" {
		convert.SetNamespace(o, "default") // as kubectl does
	}
	if convert.Skipped(o) {
		return
	}
	e := entry{object: o, key: o.ObjectKey, line: doc.Locate(at)}
	o.Origin = f.file + ":" + strconv.Itoa(e.line)
	if e.problems = f.checked(doc, o, at); len(e.problems) > 0 {
		e.object = nil
	}
	f.entries = append(f.entries, e)
}

func (f *decoding) checked(doc *document.Document, o *model.Object, at string) (problems []source.Problem) {
	if f.check == nil {
		return nil
	}
	for _, issue := range f.check(o) {
		if issue.Warning {
			continue
		}
		problems = append(problems, source.Problem{
			Code: codeInvalid, File: f.file, Line: doc.Locate(at + issue.Field), Object: o.ObjectKey,
			Field: at + issue.Field, Message: issue.Message,
		})
	}
	return problems
}

func convertTree(r *convert.Resource, tree map[string]any) (*model.Object, *convert.FieldError) {
	if r.Istio() {
		return r.FromTree(tree, convert.RejectUnknown)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, &convert.FieldError{Message: err.Error()}
	}
	return r.FromJSON(text, convert.RejectUnknown)
}

// list decodes the members of "kind: List" and of typed lists, whose members may lack their kind.
func (f *decoding) list(doc *document.Document, apiVersion, kind string, items []any, at string) {
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
		f.object(doc, tree, path+".")
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

func (f *decoding) problem(doc *document.Document, code string, key model.ObjectKey, field, message string) {
	f.add(source.Problem{
		Code: code, File: f.file, Line: doc.Locate(field), Object: key, Field: field, Message: message,
	})
}

func (f *decoding) add(p source.Problem) {
	f.entries = append(f.entries, entry{key: p.Object, line: p.Line, problems: []source.Problem{p}})
}
