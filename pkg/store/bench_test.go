package store

import (
	"fmt"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/hashicorp/go-immutable-radix/v2"
	"github.com/hashicorp/go-memdb"
)

// The candidates for the table layer, on the hot paths: one row changed in a transaction of its own, one lookup, a walk
// over a namespace. docs/adr/0001-tables.md has the figures and the decision.

const benchRows = 10_000

type benchRow struct{ Key, Value string }

func (*benchRow) TableHeader() []string { return []string{"Key", "Value"} }
func (r *benchRow) TableRow() []string  { return []string{r.Key, r.Value} }

func benchKey(i int) string { return fmt.Sprintf("ns-%03d/svc-%05d", i%100, i) }

type candidate struct {
	change func(i int)
	get    func(key string) bool
	walk   func(prefix string) int
}

func candidates(b *testing.B) map[string]candidate {
	b.Helper()
	return map[string]candidate{
		"part": partCandidate(), "iradix": iradixCandidate(), "memdb": memdbCandidate(b), "statedb": statedbCandidate(b), "map-copy": mapCandidate(),
	}
}

func partCandidate() candidate {
	var t Table[*benchRow]
	x := t.Txn()
	for i := range benchRows {
		x.Set(benchKey(i), &benchRow{benchKey(i), ""})
	}
	t = x.Commit()
	return candidate{
		change: func(i int) {
			x := t.Txn()
			x.Set(benchKey(i%benchRows), &benchRow{"", "new"})
			t = x.Commit()
		},
		get: func(k string) bool { _, ok := t.Get(k); return ok },
		walk: func(p string) (n int) {
			for range t.Prefix(p) {
				n++
			}
			return n
		},
	}
}

func iradixCandidate() candidate {
	t := iradix.New[*benchRow]()
	x := t.Txn()
	for i := range benchRows {
		x.Insert([]byte(benchKey(i)), &benchRow{benchKey(i), ""})
	}
	t = x.Commit()
	return candidate{
		change: func(i int) {
			x := t.Txn()
			x.Insert([]byte(benchKey(i%benchRows)), &benchRow{"", "new"})
			t = x.Commit()
		},
		get: func(k string) bool { _, ok := t.Get([]byte(k)); return ok },
		walk: func(p string) (n int) {
			t.Root().WalkPrefix([]byte(p), func([]byte, *benchRow) bool { n++; return false })
			return n
		},
	}
}

func memdbCandidate(b *testing.B) candidate {
	b.Helper()
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{"t": {Name: "t", Indexes: map[string]*memdb.IndexSchema{
		"id": {Name: "id", Unique: true, Indexer: &memdb.StringFieldIndex{Field: "Key"}},
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	put := func(rows ...*benchRow) {
		x := db.Txn(true)
		for _, r := range rows {
			if err := x.Insert("t", r); err != nil {
				b.Fatal(err)
			}
		}
		x.Commit()
	}
	for i := range benchRows {
		put(&benchRow{benchKey(i), ""})
	}
	return candidate{
		change: func(i int) { put(&benchRow{benchKey(i % benchRows), "new"}) },
		get: func(k string) bool {
			r, err := db.Txn(false).First("t", "id", k)
			return err == nil && r != nil
		},
		walk: func(p string) (n int) {
			it, err := db.Txn(false).Get("t", "id_prefix", p)
			if err != nil {
				b.Fatal(err)
			}
			for it.Next() != nil {
				n++
			}
			return n
		},
	}
}

func statedbCandidate(b *testing.B) candidate {
	b.Helper()
	ix := statedb.Index[*benchRow, string]{
		Name:       "id",
		FromObject: func(r *benchRow) index.KeySet { return index.NewKeySet(index.String(r.Key)) },
		FromKey:    index.String, FromString: index.FromString, Unique: true,
	}
	db := statedb.New()
	t, err := statedb.NewTable(db, "t", ix)
	if err != nil {
		b.Fatal(err)
	}
	put := func(rows ...*benchRow) {
		x := db.WriteTxn(t)
		for _, r := range rows {
			if _, _, err := t.Insert(x, r); err != nil {
				b.Fatal(err)
			}
		}
		x.Commit()
	}
	for i := range benchRows {
		put(&benchRow{benchKey(i), ""})
	}
	return candidate{
		change: func(i int) { put(&benchRow{benchKey(i % benchRows), "new"}) },
		get:    func(k string) bool { _, _, ok := t.Get(db.ReadTxn(), ix.Query(k)); return ok },
		walk: func(p string) (n int) {
			for range t.Prefix(db.ReadTxn(), ix.Query(p)) {
				n++
			}
			return n
		},
	}
}

func mapCandidate() candidate {
	m := map[string]*benchRow{}
	for i := range benchRows {
		m[benchKey(i)] = &benchRow{benchKey(i), ""}
	}
	return candidate{
		change: func(i int) {
			next := make(map[string]*benchRow, len(m))
			for k, v := range m {
				next[k] = v
			}
			next[benchKey(i%benchRows)] = &benchRow{"", "new"}
			m = next
		},
		get: func(k string) bool { _, ok := m[k]; return ok },
		walk: func(p string) (n int) {
			for k := range m {
				if len(k) >= len(p) && k[:len(p)] == p {
					n++
				}
			}
			return n
		},
	}
}

func BenchmarkTables(b *testing.B) {
	for name, c := range candidates(b) {
		b.Run(name+"/change", func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				c.change(i)
			}
		})
		b.Run(name+"/get", func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if !c.get(benchKey(i % benchRows)) {
					b.Fatal("a row is missing")
				}
			}
		})
		b.Run(name+"/walk100", func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if c.walk(fmt.Sprintf("ns-%03d/", i%100)) != benchRows/100 {
					b.Fatal("a row is missing")
				}
			}
		})
	}
}
