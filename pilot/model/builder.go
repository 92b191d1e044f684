package model

import (
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// Builder makes PushContexts. It belongs to one goroutine.
type Builder struct {
	pc *PushContext
	discoveryState
	configState
}

// NewBuilder returns a builder whose first PushContext knows nothing but the settings and the mesh configuration.
func NewBuilder(settings *Settings, mesh *Mesh) *Builder {
	b := &Builder{pc: &PushContext{settings: settings, mesh: mesh, objects: map[Kind]store.Table[*Object]{}}}
	b.discoveryState.start()
	b.configState.start()
	return b
}

// Current returns the PushContext made last.
func (b *Builder) Current() *PushContext { return b.pc }

// change is one object's old and new state; either may be nil.
type change struct {
	key      ObjectKey
	old, new *Object
}

// commit is one Apply under way: the next PushContext, and the keys changed so far.
type commit struct {
	next    *PushContext
	prev    *PushContext
	changes []change // objects that changed in a way that matters
	mesh    bool     // the mesh configuration changed
	keys    map[cell.Key]struct{}
}

func (c *commit) touch(t cell.Table, name string) {
	c.keys[cell.Key{Table: t, Name: name}] = struct{}{}
}

// Apply takes events (the last one for a key wins) and, if mesh is not nil, a new mesh configuration. It returns the
// next PushContext and the keys of all rows that differ from the one before.
func (b *Builder) Apply(events []Event, mesh *Mesh) (*PushContext, []cell.Key) {
	c := b.begin(mesh)
	b.applyObjects(c, events)
	b.deriveDiscovery(c)
	b.deriveConfig(c)
	b.pc = c.next
	keys := make([]cell.Key, 0, len(c.keys))
	for k := range c.keys {
		keys = append(keys, k)
	}
	return b.pc, keys
}

func (b *Builder) begin(mesh *Mesh) *commit {
	next := *b.pc
	next.Generation++
	c := &commit{next: &next, prev: b.pc, keys: map[cell.Key]struct{}{}}
	if mesh != nil {
		next.mesh, c.mesh = mesh, true
		c.touch(TableMesh, "")
	}
	return c
}

func (b *Builder) applyObjects(c *commit, events []Event) {
	last := make(map[ObjectKey]*Object, len(events))
	order := make([]ObjectKey, 0, len(events))
	for _, e := range events {
		if _, seen := last[e.Key]; !seen {
			order = append(order, e.Key)
		}
		last[e.Key] = e.Object
	}
	tables := make(map[Kind]store.Table[*Object], len(c.prev.objects)+1)
	for k, t := range c.prev.objects {
		tables[k] = t
	}
	txns := map[Kind]*store.Txn[*Object]{}
	for _, k := range order {
		x := txns[k.Kind]
		if x == nil {
			x = tables[k.Kind].Txn()
			txns[k.Kind] = x
		}
		ch := change{key: k, new: last[k]}
		if ch.new == nil {
			ch.old, _ = x.Delete(k.Row())
		} else {
			ch.old, _ = x.Set(k.Row(), ch.new)
		}
		if !matters(ch.old, ch.new) {
			continue
		}
		c.changes = append(c.changes, ch)
		c.touch(TableObject, k.String())
		c.touch(TableObjects, string(k.Kind)+"/"+k.Namespace)
	}
	for k, x := range txns {
		tables[k] = x.Commit()
		if (tables[k].Len() > 0) != (c.prev.objects[k].Len() > 0) {
			c.touch(TableObjects, string(k))
		}
	}
	c.next.objects = tables
}

// matters tells whether going from a to b can change anything that a proxy sees: metadata of Istio objects does so only
// through keys that contain "istio.io".
func matters(a, b *Object) bool {
	if a == nil || b == nil {
		return a != b
	}
	if !sameContent(a.Spec, b.Spec) || !sameContent(a.Status, b.Status) || !a.Created.Equal(b.Created) {
		return true
	}
	if _, isMessage := b.Spec.(proto.Message); !isMessage {
		return !reflect.DeepEqual(a.Labels, b.Labels) || !reflect.DeepEqual(a.Annotations, b.Annotations)
	}
	return istioKeysDiffer(a.Labels, b.Labels) || istioKeysDiffer(a.Annotations, b.Annotations) ||
		b.Kind == KindWorkloadEntry && !reflect.DeepEqual(a.Labels, b.Labels) ||
		b.Kind == KindServiceEntry && !reflect.DeepEqual(a.Labels, b.Labels)
}

func sameContent(a, b any) bool {
	if x, ok := a.(proto.Message); ok {
		y, ok := b.(proto.Message)
		return ok && proto.Equal(x, y)
	}
	return reflect.DeepEqual(a, b)
}

func istioKeysDiffer(a, b map[string]string) bool {
	for k, v := range a {
		if w, ok := b[k]; strings.Contains(k, "istio.io") && (!ok || v != w) {
			return true
		}
	}
	for k := range b {
		if _, ok := a[k]; strings.Contains(k, "istio.io") && !ok {
			return true
		}
	}
	return false
}
