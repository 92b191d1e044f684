package xds

import (
	"fmt"
	"slices"
	"testing"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
)

// FuzzSession feeds a session any sequence of requests, publications and waits. It must not panic, must stop sending
// when nothing changes, and must not remember more than the names it was told and the resources there are.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{1, 0, 1, 0, 0, 20, 0, 3, 1, 0, 2, 2, 0, 1, 30, 1, 1, 40, 200, 0})
	f.Add([]byte("a client that says anything at all, in any order, for quite a while 0123456789"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := fuzzInput{data}
		w := newFakeWorld()
		s := newTestSession(in.next()%2 == 0, w, DefaultTiming())
		now := epoch
		sent := map[string][]string{}
		types := []string{"cds", "eds", "lds", "rds", "vhds", "sds", "ecds", "nds", "unknown", "debug", "health"}
		for len(in.data) > 0 {
			switch op := in.next() % 8; op {
			case 0, 1, 2, 3:
				typ := fakeTypes[types[int(in.next())%len(types)]]
				if in.next() == 255 {
					typ = fmt.Sprint("other", in.next())
				}
				r := in.request(typ, sent[typ])
				eff := s.Request(now, r)
				w.apply(eff)
				if eff.Err != nil {
					return
				}
			case 4:
				typ := types[int(in.next())%8]
				name := in.name(typ)
				if c := in.next() % 4; c == 0 {
					w.set(fakeTypes[typ], name, nil)
				} else {
					w.set(fakeTypes[typ], name, fakeResource(fakeTypes[typ], name, fmt.Sprint(c)))
				}
			case 5:
				s.Publish(now, w.publish())
			case 6:
				s.Publish(now, w.current())
			case 7:
				now = now.Add(time.Duration(in.next()) * 100 * time.Millisecond)
			}
			drainFuzz(t, s, now, sent)
			boundsOf(t, s)
		}
	})
}

func drainFuzz(t *testing.T, s *Session, now time.Time, sent map[string][]string) {
	for n := 0; ; n++ {
		r, wake := s.Next(now)
		if r == nil {
			if !wake.IsZero() && !wake.After(now) {
				t.Fatalf("wakes at %v though it is %v", wake, now)
			}
			return
		}
		m := decode(t, s.cfg.Delta, r)
		sent[m.typeURL] = append(sent[m.typeURL], m.nonce)
		if n > 50 {
			t.Fatal("sends without end")
		}
	}
}

// boundsOf checks that what is remembered is bounded by what there is to know.
func boundsOf(t *testing.T, s *Session) {
	if len(s.watches) > maxTypes || len(s.watches) != len(s.order) {
		t.Fatalf("%d types watched", len(s.watches))
	}
	for _, w := range s.order {
		if most := 2*len(fuzzNames)*(len(fuzzNames)+1) + w.names.Len(); len(w.except) > most || len(w.quarantine) > most || len(w.suspects) > most {
			t.Fatalf("%s: %d exceptions, %d in quarantine, %d suspects", w.url, len(w.except), len(w.quarantine), len(w.suspects))
		}
	}
	_, _ = s.Status(), s.Rejections()
}

var fuzzNames = []string{"a", "b", "c", "80", "80/a", "*", "", "80/-"}

type fuzzInput struct{ data []byte }

func (f *fuzzInput) next() byte {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return b
}

func (f *fuzzInput) name(typ string) string {
	n := fuzzNames[int(f.next())%len(fuzzNames)]
	if typ == "vhds" {
		n = fuzzNames[int(f.next())%len(fuzzNames)] + "/" + n
	}
	return n
}

func (f *fuzzInput) names() (out []string) {
	for bits := f.next(); bits != 0; bits >>= 1 {
		if bits&1 != 0 {
			out = append(out, fuzzNames[len(out)%len(fuzzNames)])
		}
	}
	slices.Reverse(out)
	return out
}

func (f *fuzzInput) request(typ string, sent []string) *Request {
	r := &Request{TypeURL: typ}
	kind := f.next()
	switch {
	case len(sent) > 0 && kind%4 < 2:
		r.Nonce = sent[len(sent)-1]
	case len(sent) > 0 && kind%4 == 2:
		r.Nonce = sent[int(f.next())%len(sent)]
	case kind%8 == 3:
		r.Nonce = "never"
	}
	if kind&16 != 0 {
		r.Error = &rpcstatus.Status{Code: int32(f.next()) - 3, Message: "Error adding/updating cluster(s) a: no, c: no"}
	}
	if kind&32 != 0 {
		r.Subscribe, r.Unsubscribe = f.names(), f.names()
	}
	if kind&64 != 0 {
		r.Names, r.Version = f.names(), "v"
	}
	if kind&128 != 0 {
		r.Initial = map[string]string{}
		for _, n := range f.names() {
			r.Initial[n] = fakeResource(typ, n, "1").Version
		}
	}
	return r
}
