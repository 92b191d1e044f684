// Package store holds immutable, ordered tables of rows with one writer.
//
// A Table is a value: whoever holds it sees the same rows for ever, without a lock. A Txn makes the next table in
// time and memory proportional to what it changes. Rows are never modified after insertion.
package store

import (
	"iter"
	"unsafe"

	"github.com/cilium/statedb/part"
)

// Table maps string keys, in byte order, to rows. The zero value is an empty table.
type Table[V any] struct {
	tree  part.Tree[V]
	valid bool
}

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func empty[V any]() Table[V] {
	return Table[V]{tree: part.New[V](part.RootOnlyWatch), valid: true}
}

// Get returns the row under key.
func (t Table[V]) Get(key string) (V, bool) {
	if !t.valid {
		var zero V
		return zero, false
	}
	return t.tree.Get(bytesOf(key))
}

// Len returns the number of rows.
func (t Table[V]) Len() int {
	if !t.valid {
		return 0
	}
	return t.tree.Len()
}

// All yields every row in key order.
func (t Table[V]) All() iter.Seq2[string, V] { return t.Prefix("") }

// Values yields every row in key order, without the cost of a string for each key.
func (t Table[V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		if !t.valid {
			return
		}
		it := t.tree.Prefix(nil)
		for _, v, ok := it.Next(); ok; _, v, ok = it.Next() {
			if !yield(v) {
				return
			}
		}
	}
}

// Prefix yields the rows whose key begins with p, in key order.
func (t Table[V]) Prefix(p string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if !t.valid {
			return
		}
		it := t.tree.Prefix(bytesOf(p))
		for k, v, ok := it.Next(); ok; k, v, ok = it.Next() {
			if !yield(string(k), v) {
				return
			}
		}
	}
}

// Txn returns a transaction that starts from t.
func (t Table[V]) Txn() *Txn[V] {
	if !t.valid {
		t = empty[V]()
	}
	return &Txn[V]{before: t}
}

// Txn makes a new table. It belongs to one goroutine.
type Txn[V any] struct {
	before Table[V]
	txn    *part.Txn[V]
}

func (x *Txn[V]) write() *part.Txn[V] {
	if x.txn == nil {
		x.txn = x.before.tree.Txn()
	}
	return x.txn
}

// Set puts v under key and returns the row that was there.
func (x *Txn[V]) Set(key string, v V) (old V, had bool) { return x.write().Insert([]byte(key), v) }

// Delete takes the row under key out and returns it.
func (x *Txn[V]) Delete(key string) (old V, had bool) { return x.write().Delete(bytesOf(key)) }

// Get returns the row under key as the transaction sees it.
func (x *Txn[V]) Get(key string) (V, bool) {
	if x.txn == nil {
		return x.before.Get(key)
	}
	return x.txn.Get(bytesOf(key))
}

// Prefix yields the rows under p as the transaction sees them. The transaction must not be written meanwhile.
func (x *Txn[V]) Prefix(p string) iter.Seq2[string, V] {
	if x.txn == nil {
		return x.before.Prefix(p)
	}
	return func(yield func(string, V) bool) {
		it := x.txn.Prefix(bytesOf(p))
		for k, v, ok := it.Next(); ok; k, v, ok = it.Next() {
			if !yield(string(k), v) {
				return
			}
		}
	}
}

// Commit returns the new table. The transaction must not be used afterwards.
func (x *Txn[V]) Commit() Table[V] {
	if x.txn == nil {
		return x.before
	}
	return Table[V]{tree: x.txn.Commit(), valid: true}
}
