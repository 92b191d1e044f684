package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

type typed interface {
	metav1.Object
	runtime.Object
}

// FromTree converts the JSON tree of an object of an Istio kind.
func (r *Resource) FromTree(tree map[string]any, unknown Unknown) (*model.Object, *FieldError) {
	o, err := r.header(tree, unknown)
	if err != nil {
		return nil, err
	}
	spec := r.newSpec()
	if err := r.part(spec, tree, "spec", unknown); err != nil {
		return nil, err
	}
	o.Spec = spec
	if tree["status"] != nil && tree["status"] != "" {
		status := r.newStatus()
		// Status is written by controllers: a newer field is no mistake, and a broken one must not cost the spec.
		if err := r.part(status, tree, "status", IgnoreUnknown); err == nil && proto.Size(status) > 0 {
			o.Status = status
		}
	}
	return o, nil
}

func (r *Resource) part(m proto.Message, tree map[string]any, name string, unknown Unknown) *FieldError {
	switch p := tree[name].(type) {
	case nil:
		return nil
	case map[string]any:
		return Message(m, p, name, unknown)
	default:
		return typeError(name, "an object", p)
	}
}

func (r *Resource) header(tree map[string]any, unknown Unknown) (*model.Object, *FieldError) {
	md, ok := tree["metadata"].(map[string]any)
	if !ok {
		return nil, &FieldError{"metadata", "missing"}
	}
	o := &model.Object{}
	o.Kind = r.Kind
	for field, to := range map[string]*string{"name": &o.Name, "namespace": &o.Namespace, "resourceVersion": &o.ResourceVersion} {
		if md[field] == nil {
			continue
		}
		if *to, ok = md[field].(string); !ok {
			return nil, typeError("metadata."+field, "a string", md[field])
		}
	}
	o.Generation, _ = md["generation"].(int64)
	if s, ok := md["creationTimestamp"].(string); ok {
		o.Created, _ = time.Parse(time.RFC3339, s)
		o.Created = o.Created.UTC()
	}
	var err *FieldError
	if o.Labels, err = stringMap(md["labels"], "metadata.labels"); err != nil {
		return nil, err
	}
	if o.Annotations, err = stringMap(md["annotations"], "metadata.annotations"); err != nil {
		return nil, err
	}
	o.Annotations = keptAnnotations(o.Annotations)
	if unknown == RejectUnknown {
		if err := knownKeys(tree, "", "apiVersion", "kind", "metadata", "spec", "status"); err != nil {
			return nil, err
		}
		if err := knownKeys(md, "metadata.", metadataFields()...); err != nil {
			return nil, err
		}
	}
	return o, r.checkName(o)
}

func metadataFields() []string {
	return []string{
		"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
		"managedFields", "clusterName",
	}
}

func knownKeys(tree map[string]any, path string, known ...string) *FieldError {
	for _, k := range sortedKeys(tree) {
		if !slices.Contains(known, k) {
			return &FieldError{path + k, "unknown field"}
		}
	}
	return nil
}

func (r *Resource) checkName(o *model.Object) *FieldError {
	switch {
	case o.Name == "":
		return &FieldError{"metadata.name", "missing"}
	case strings.Contains(o.Name, "/"):
		return &FieldError{"metadata.name", "must not contain /"}
	case strings.Contains(o.Namespace, "/"):
		return &FieldError{"metadata.namespace", "must not contain /"}
	}
	if !r.Namespaced {
		o.Namespace = ""
	}
	return nil
}

func stringMap(in any, path string) (map[string]string, *FieldError) {
	if in == nil {
		return nil, nil
	}
	tree, ok := in.(map[string]any)
	if !ok {
		return nil, typeError(path, "a map", in)
	}
	if len(tree) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(tree))
	for _, k := range sortedKeys(tree) {
		s, ok := tree[k].(string)
		if !ok {
			return nil, typeError(path+"["+k+"]", "a string", tree[k])
		}
		out[k] = s
	}
	return out, nil
}

// FromJSON converts the JSON text of an object that is not of an Istio kind. Unknown fields outside status are mistakes
// for kinds that people write, if unknown says so.
func (r *Resource) FromJSON(data []byte, unknown Unknown) (*model.Object, *FieldError) {
	v := r.newTyped()
	strict, err := kjson.UnmarshalStrict(data, v)
	if err != nil {
		return nil, jsonError(err)
	}
	if unknown == RejectUnknown && r.UserWritten {
		for _, e := range strict {
			if fe := jsonError(e); !strings.HasPrefix(fe.Path, "status") {
				return nil, fe
			}
		}
	}
	return r.FromTyped(v)
}

// jsonError finds the field in the text of an error of sigs.k8s.io/json, whose errors carry it no other way.
func jsonError(err error) *FieldError {
	text := strings.TrimPrefix(err.Error(), "json: ")
	if rest, ok := strings.CutPrefix(text, "unknown field \""); ok {
		return &FieldError{strings.TrimSuffix(rest, "\""), "unknown field"}
	}
	if rest, ok := strings.CutPrefix(text, "cannot unmarshal "); ok {
		// "string into Go struct field ServicePort.spec.ports.port of type int32"
		got, where, _ := strings.Cut(rest, " into Go struct field ")
		where, want, ok := strings.Cut(where, " of type ")
		if _, path, found := strings.Cut(where, "."); ok && found {
			return &FieldError{path, "a " + got + " is not a " + want}
		}
	}
	return &FieldError{"", text}
}

// FromTyped converts a typed Kubernetes or Gateway API object. The object is handed over: it is stripped in place to
// what the model reads, and becomes the Spec.
func (r *Resource) FromTyped(v metav1.Object) (*model.Object, *FieldError) {
	if !r.Namespaced {
		v.SetNamespace("")
	}
	o := &model.Object{
		ObjectKey:       model.ObjectKey{Kind: r.Kind, Namespace: v.GetNamespace(), Name: v.GetName()},
		Generation:      v.GetGeneration(),
		ResourceVersion: v.GetResourceVersion(),
		Created:         v.GetCreationTimestamp().Time,
	}
	if !o.Created.IsZero() {
		o.Created = o.Created.UTC()
	}
	if err := r.checkName(o); err != nil {
		return nil, err
	}
	strip(v)
	o.Labels, o.Annotations = v.GetLabels(), v.GetAnnotations()
	o.Spec = v
	return o, nil
}

// keptAnnotations removes, in place, annotations that nothing reads and that are large or change all the time: kubectl's
// copy of the whole object, the endpoint controller's clock, the old locks of leader elections.
func keptAnnotations(in map[string]string) map[string]string {
	for _, k := range []string{
		"kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time",
		"control-plane.alpha.kubernetes.io/leader",
	} {
		delete(in, k)
	}
	if len(in) == 0 {
		return nil
	}
	return in
}

// NewTyped returns an empty object of the kind's Go type, or nil for kinds that are read as trees.
func (r *Resource) NewTyped() runtime.Object {
	if r.CustomResource() {
		return nil
	}
	return r.newTyped()
}

// FromCluster converts an object as a client of Kubernetes returns it: typed, or *unstructured.Unstructured for kinds
// that have no NewTyped. The object is handed over. Fields that we do not know are left out.
func (r *Resource) FromCluster(v runtime.Object) (*model.Object, *FieldError) {
	switch t := v.(type) {
	case *unstructured.Unstructured:
		if r.Istio() {
			return r.FromTree(t.Object, IgnoreUnknown)
		}
		text, err := json.Marshal(t.Object)
		if err != nil {
			return nil, &FieldError{Message: err.Error()}
		}
		return r.FromJSON(text, IgnoreUnknown)
	case metav1.Object:
		return r.FromTyped(t)
	}
	return nil, &FieldError{Message: fmt.Sprintf("unexpected type %T", v)}
}

// SetNamespace moves o, which nobody else holds yet, to a namespace.
func SetNamespace(o *model.Object, namespace string) {
	if m, ok := o.Spec.(metav1.Object); ok {
		m.SetNamespace(namespace)
	}
	o.Namespace = namespace
}

// Equal says whether two objects have the same content. Where they came from does not count, nor does the resource
// version, which also changes with what is not kept.
func Equal(a, b *model.Object) bool {
	return a.ObjectKey == b.ObjectKey && a.Generation == b.Generation && a.Created.Equal(b.Created) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equalPart(a.Spec, b.Spec) && equalPart(a.Status, b.Status)
}

func equalPart(a, b any) bool {
	x, xok := a.(protoreflect.ProtoMessage)
	y, yok := b.(protoreflect.ProtoMessage)
	if xok && yok {
		return proto.Equal(x, y)
	}
	return reflect.DeepEqual(a, b)
}
