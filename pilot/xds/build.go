package xds

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"weak"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// built is the value of a unit's cell.
type built struct {
	resources []*Resource
	byName    map[string]*Resource // nil for few
	err       error
	// failed names the resources that err is about; if it is nil, err is about the unit.
	failed []string
}

// builtFew is up to how many resources are looked for one by one.
const builtFew = 8

// named returns the resource called name, or nil. b may be nil.
func (b *built) named(name string) *Resource {
	if b == nil {
		return nil
	}
	if b.byName != nil {
		return b.byName[name]
	}
	for _, r := range b.resources {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// unitList is the value of a slot's list cell: the units, each once, and where each stands. Equal lists are one object.
type unitList struct {
	units []any
	at    map[any]int32
}

func newUnitList(units []any) *unitList {
	l := &unitList{units: make([]any, 0, len(units)), at: make(map[any]int32, len(units))}
	for _, arg := range units {
		if _, twice := l.at[arg]; !twice {
			l.at[arg] = int32(len(l.units)) //nolint:gosec // nobody has 2^31 units
			l.units = append(l.units, arg)
		}
	}
	return l
}

func sameUnits(a, b any) bool { return a == b }

func sameBuilt(a, b any) bool {
	x, y := a.(*built), b.(*built)
	if (x.err == nil) != (y.err == nil) || x.err != nil && x.err.Error() != y.err.Error() || len(x.resources) != len(y.resources) {
		return false
	}
	for i := range x.resources {
		if x.resources[i] != y.resources[i] { // interned: equal resources are one object
			return false
		}
	}
	return true
}

// build runs a slot's generator for one unit. A panic is that unit's error and nobody else's; an
// invalid message is that resource's.
func (e *Engine) build(s *slotState, c *view.Context, arg any) (b *built) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 4096)
			stack = stack[:runtime.Stack(stack, false)]
			b = &built{err: fmt.Errorf("%s %v: generator panicked: %v\n%s", s.Name, arg, p, stack)}
		}
	}()
	messages, err := s.Build(c, arg)
	if err != nil {
		return &built{err: fmt.Errorf("%s %v: %w", s.Name, arg, err)}
	}
	b = &built{resources: make([]*Resource, 0, len(messages))}
	origin := e.originOf(s, arg, c.View())
	for _, m := range messages {
		body, err := encode(m)
		if err != nil {
			b.failed = append(b.failed, m.Name)
			b.err = errors.Join(b.err, fmt.Errorf("%s %s: %w", s.Name, m.Name, err))
			continue
		}
		b.resources = append(b.resources, e.interner.resource(s.TypeURL, m.Name, body, origin))
	}
	b.index()
	return b
}

func (b *built) index() {
	if len(b.resources) <= builtFew {
		return
	}
	b.byName = make(map[string]*Resource, len(b.resources))
	for _, r := range b.resources {
		b.byName[r.Name] = r
	}
}

// after returns b with what could not be made taken from before, which may be nil.
func (b *built) after(before *built) *built {
	if b.err == nil || before == nil {
		return b
	}
	out := &built{err: b.err, failed: b.failed, resources: slices.Clone(b.resources)}
	if b.failed == nil {
		out.resources = before.resources
	}
	for _, name := range b.failed {
		if r := before.named(name); r != nil {
			out.resources = append(out.resources, r)
		}
	}
	out.index()
	return out
}

// encode returns the bytes of a message that Envoy takes.
func encode(m *translate.Message) (wire.Rope, error) {
	if m.Err != nil {
		return wire.Rope{}, m.Err
	}
	if m.Proto != nil {
		if err := translate.Check(m.Proto); err != nil {
			return wire.Rope{}, err
		}
	}
	return translate.Encode(m)
}

// interner keeps one object for equal resources. Entries go when nobody holds the resource.
type interner struct {
	mu   sync.Mutex
	held map[internKey]weak.Pointer[Resource]
}

type internKey struct {
	typeURL, name string
	sum           wire.Sum
	size          int
}

func newInterner() *interner { return &interner{held: map[internKey]weak.Pointer[Resource]{}} }

func (i *interner) resource(typeURL, name string, body wire.Rope, origin func() model.Origin) *Resource {
	k := internKey{typeURL, name, body.Hash(), body.Len()}
	i.mu.Lock()
	defer i.mu.Unlock()
	if w, ok := i.held[k]; ok {
		if r := w.Value(); r != nil {
			return r
		}
	}
	r := newResource(typeURL, name, body, k.sum)
	r.Origin = origin
	i.held[k] = weak.Make(r)
	runtime.AddCleanup(r, i.forget, k)
	return r
}

func (i *interner) forget(k internKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if w, ok := i.held[k]; ok && w.Value() == nil {
		delete(i.held, k)
	}
}

// Field numbers of the envelope messages.
const (
	anyTypeURL, anyValue                       protowire.Number = 1, 2
	resourceVersion, resourceAny, resourceName protowire.Number = 1, 2, 3
	responseResources, deltaResponseResources  protowire.Number = 2, 2
)

// newResource wraps body for the incremental protocol. A body of few parts is copied into one segment, which costs less
// to send; one of many, a large route configuration, keeps sharing them with the other classes' (see Bodies.form).
func newResource(typeURL, name string, body wire.Rope, sum wire.Sum) *Resource {
	r := &Resource{Name: name, Version: sum.String(), typeURL: typeURL, Body: body}
	head := anyHead(typeURL, body)
	size := wire.FieldSize(resourceVersion, len(r.Version)) + wire.FieldSize(resourceAny, head.Len()+body.Len()) + wire.FieldSize(resourceName, len(name))
	small := len(body.Segments()) <= manySegments
	var b wire.Builder
	if small {
		b = wire.Flat(len(r.Version) + len(name) + head.Len() + body.Len() + 32)
	}
	b.Tag(deltaResponseResources, size)
	b.String(resourceVersion, r.Version)
	b.Tag(resourceAny, head.Len()+body.Len())
	b.Rope(head)
	at := b.Len()
	b.Rope(body)
	b.String(resourceName, name)
	r.Wrapped = b.Done()
	if small {
		r.Body = wire.Bytes(r.Wrapped.Flat()[at : at+body.Len() : at+body.Len()])
	}
	return r
}

// anyHead returns what stands before the value of a google.protobuf.Any.
func anyHead(typeURL string, body wire.Rope) wire.Rope {
	var b wire.Builder
	b.String(anyTypeURL, typeURL)
	b.Tag(anyValue, body.Len())
	return b.Done()
}

// Any returns the state-of-the-world form: the google.protobuf.Any as it stands in DiscoveryResponse.resources, tag and
// length included.
func (r *Resource) Any() wire.Rope {
	head := anyHead(r.typeURL, r.Body)
	var b wire.Builder
	b.Tag(responseResources, head.Len()+r.Body.Len())
	b.Rope(head)
	b.Rope(r.Body)
	return b.Done()
}

// define registers the slot's two kinds of cells.
func (e *Engine) define(s *slotState) {
	if s.Units != nil {
		e.graph.Define(s.unitsKind, func(rec *cell.Recorder, _ cell.ID, env cell.Env) any {
			return e.lists.intern(s.Units(e.context(rec, env)))
		}, sameUnits)
	}
	e.graph.Define(s.buildKind, func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
		return e.build(s, e.context(rec, env), id.Arg)
	}, sameBuilt)
}

func (e *Engine) context(rec *cell.Recorder, env cell.Env) *view.Context {
	return view.NewContext(e.pc, rec, e.graph, env.(*view.View))
}

// originOf returns a function that asks the engine what a unit is made from, for one view of those who hold it.
func (e *Engine) originOf(s *slotState, arg any, v *view.View) func() model.Origin {
	return func() model.Origin {
		return ask(e, func() model.Origin {
			c := e.graph.Get(nil, cell.ID{Kind: s.buildKind, Arg: arg}, v)
			mask := c.Mask()
			if !s.named() { // that the unit is there at all may be a property's doing, too
				mask |= e.graph.Get(nil, cell.ID{Kind: s.unitsKind}, v).Mask()
			}
			return v.Origin(c.AllReads(), mask)
		})
	}
}
