package file

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/document"
)

// parsedFile is what the documents of one file gave. It is immutable.
type parsedFile struct {
	sum       [sha256.Size]byte
	documents []parsedDocument
	// blind says that the file holds text of which it cannot be told what object it was meant to be.
	blind bool
}

type parsedDocument struct {
	sum     [sha256.Size]byte
	base    int // line of the file that the document starts at
	entries []entry
}

// parse decodes a file. Documents that old has with the same bytes are not decoded again.
func parse(d *Decoder, path string, data []byte, old *parsedFile) *parsedFile {
	known := map[[sha256.Size]byte]*parsedDocument{}
	if old != nil {
		for i := range old.documents {
			known[old.documents[i].sum] = &old.documents[i]
		}
	}
	p := &parsedFile{sum: sha256.Sum256(data)}
	for _, doc := range document.Split(data) {
		pd := parsedDocument{sum: sha256.Sum256(doc.Data), base: doc.Base}
		if k := known[pd.sum]; k != nil && k.reusable() {
			pd.entries = k.moved(doc.Base - k.base)
		} else {
			pd.entries = d.decodeDocument(path, &doc)
		}
		for _, e := range pd.entries {
			p.blind = p.blind || e.blind()
		}
		p.documents = append(p.documents, pd)
	}
	return p
}

// blind says that it cannot be told what object the text was meant to be: an object whose kind was mistyped is looked for
// under another key than its last good version.
func (e *entry) blind() bool {
	return e.object == nil && (e.key.Kind == "" || e.key.Name == "" || e.problems[0].Code == codeKind)
}

// reusable says that nothing of the document but lines depends on its place in the file.
func (p *parsedDocument) reusable() bool {
	return !slices.ContainsFunc(p.entries, func(e entry) bool { return len(e.problems) > 0 })
}

func (p *parsedDocument) moved(by int) []entry {
	out := slices.Clone(p.entries)
	for i := range out {
		out[i].line += by
	}
	return out
}

// claim is one file's text for an object.
type claim struct {
	path  string
	index int // order within the file
	entry entry
}

func compareClaims(a, b claim) int {
	return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.index, b.index))
}

// delivered is the version of an object that is in force.
type delivered struct {
	object *model.Object
	path   string // the file it came from
}

// state says what a directory's files hold, which versions of objects are in force, and what is wrong. It does no I/O.
// Owned by one goroutine.
type state struct {
	files      map[string]*parsedFile
	unreadable map[string]source.Problem // by path of a file or directory
	vanished   map[string]bool           // files that are gone, but perhaps only for a moment
	claims     map[model.ObjectKey][]claim
	inForce    map[model.ObjectKey]delivered
	held       map[string]map[model.ObjectKey]bool // by path: objects in force whose text its blindness hides
	duplicates map[model.ObjectKey][]source.Problem
	touched    map[model.ObjectKey]bool // since the last commit
	problems   []source.Problem         // as of the last commit
}

func newState() *state {
	return &state{
		files: map[string]*parsedFile{}, unreadable: map[string]source.Problem{}, vanished: map[string]bool{},
		claims: map[model.ObjectKey][]claim{}, inForce: map[model.ObjectKey]delivered{},
		held: map[string]map[model.ObjectKey]bool{}, duplicates: map[model.ObjectKey][]source.Problem{},
		touched: map[model.ObjectKey]bool{},
	}
}

// put says what the file at path holds now; nil means that it is gone for good.
func (s *state) put(path string, p *parsedFile) {
	delete(s.vanished, path)
	s.retract(path)
	maps.Copy(s.touched, s.held[path])
	if p == nil {
		delete(s.files, path)
		return
	}
	s.files[path] = p
	index := 0
	for _, doc := range p.documents {
		for _, e := range doc.entries {
			if e.key.Kind == "" || e.key.Name == "" {
				continue
			}
			index++
			s.touched[e.key] = true
			all := append(s.claims[e.key], claim{path: path, index: index, entry: e})
			slices.SortFunc(all, compareClaims)
			s.claims[e.key] = all
		}
	}
}

func (s *state) retract(path string) {
	old := s.files[path]
	if old == nil {
		return
	}
	for _, doc := range old.documents {
		for _, e := range doc.entries {
			if _, ok := s.claims[e.key]; !ok {
				continue
			}
			s.touched[e.key] = true
			rest := slices.DeleteFunc(s.claims[e.key], func(c claim) bool { return c.path == path })
			if s.claims[e.key] = rest; len(rest) == 0 {
				delete(s.claims, e.key)
			}
		}
	}
}

// vanish says that the file at path is gone, or empty, perhaps only for a moment: its objects stay in force, but any
// other file's text for them goes first.
func (s *state) vanish(path string) {
	if s.files[path] == nil || s.vanished[path] {
		return
	}
	s.vanished[path] = true
	for _, doc := range s.files[path].documents {
		for _, e := range doc.entries {
			s.touched[e.key] = true
		}
	}
}

// back says that a vanished file is there again with the content it had.
func (s *state) back(path string) {
	if s.vanished[path] {
		s.put(path, s.files[path])
	}
}

// commit works out what has changed since the last commit. problems is the whole list; changed says whether it differs
// from the last one's.
func (s *state) commit() (events []model.Event, problems []source.Problem, changed bool) {
	keys := slices.SortedFunc(maps.Keys(s.touched), model.ObjectKey.Compare)
	clear(s.touched)
	for _, k := range keys {
		if k.Kind == "" || k.Name == "" {
			continue
		}
		if e, ok := s.resolve(k); ok {
			events = append(events, e)
		}
	}
	last := s.problems
	s.problems = s.allProblems()
	return events, s.problems, !slices.Equal(last, s.problems)
}

// resolve decides which version of an object is in force.
func (s *state) resolve(k model.ObjectKey) (model.Event, bool) {
	present, gone := s.present(k)
	s.findDuplicates(k, present)
	old, had := s.inForce[k]
	if had {
		s.unhold(k, old.path)
	}
	candidates := slices.Concat(present, gone)
	if len(candidates) == 0 && had && s.files[old.path] != nil && s.files[old.path].blind {
		s.hold(k, old.path) // perhaps the object is in the text that cannot be read
		return model.Event{}, false
	}
	for _, c := range candidates {
		if c.entry.object == nil {
			if had && old.path == c.path {
				return model.Event{}, false // broken: the last good version stays
			}
			continue
		}
		if had && convert.Equal(old.object, c.entry.object) {
			s.inForce[k] = delivered{object: old.object, path: c.path}
			return model.Event{}, false
		}
		s.inForce[k] = delivered{object: c.entry.object, path: c.path}
		return model.Event{Key: k, Object: c.entry.object}, true
	}
	if !had {
		return model.Event{}, false
	}
	delete(s.inForce, k)
	return model.Event{Key: k}, true
}

// present splits the claims for an object: those of files that are there, and those of files that have vanished.
func (s *state) present(k model.ObjectKey) (present, gone []claim) {
	for _, c := range s.claims[k] {
		if s.vanished[c.path] {
			gone = append(gone, c)
		} else {
			present = append(present, c)
		}
	}
	return present, gone
}

func (s *state) hold(k model.ObjectKey, path string) {
	if s.held[path] == nil {
		s.held[path] = map[model.ObjectKey]bool{}
	}
	s.held[path][k] = true
}

func (s *state) unhold(k model.ObjectKey, path string) {
	delete(s.held[path], k)
	if len(s.held[path]) == 0 {
		delete(s.held, path)
	}
}

func (s *state) findDuplicates(k model.ObjectKey, claims []claim) {
	// Several errors of one text are several entries, but no duplicates.
	claims = slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return c.entry.object == nil })
	delete(s.duplicates, k)
	for i := 1; i < len(claims); i++ {
		first, again := claims[0], claims[i]
		s.duplicates[k] = append(s.duplicates[k], source.Problem{
			Code: codeDuplicate, File: again.path, Line: again.entry.line, Object: k,
			Message: fmt.Sprintf("already defined at %s:%s, which is in force", first.path, strconv.Itoa(first.entry.line)),
		})
	}
}

func (s *state) allProblems() []source.Problem {
	var out []source.Problem
	for _, p := range s.unreadable {
		out = append(out, p)
	}
	for _, f := range s.files {
		for _, doc := range f.documents {
			for _, e := range doc.entries {
				out = append(out, e.problems...)
			}
		}
	}
	for _, d := range s.duplicates {
		out = append(out, d...)
	}
	slices.SortStableFunc(out, func(a, b source.Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Code, b.Code),
			a.Object.Compare(b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message),
		)
	})
	return out
}
