package store

import (
	"testing"

	"pgregory.net/rapid"
)

// Any history of transactions leaves the table equal to a plain map, and every earlier table as it was.
func TestTableIsAMapAndOldTablesStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tab Table[int]
		want := map[string]int{}
		type past struct {
			tab  Table[int]
			want map[string]int
		}
		var history []past
		for range rapid.IntRange(1, 8).Draw(t, "txns") {
			tx := tab.Txn()
			for range rapid.IntRange(0, 10).Draw(t, "ops") {
				k := rapid.SampledFrom([]string{"a/x", "a/y", "a", "b/x", "bb", ""}).Draw(t, "k")
				if rapid.Bool().Draw(t, "set") {
					v := rapid.Int().Draw(t, "v")
					tx.Set(k, v)
					want[k] = v
				} else {
					tx.Delete(k)
					delete(want, k)
				}
				if v, ok := tx.Get(k); ok != func() bool { _, has := want[k]; return has }() || v != want[k] {
					t.Fatalf("the transaction does not see its own write of %q", k)
				}
			}
			tab = tx.Commit()
			snap := map[string]int{}
			for k, v := range want {
				snap[k] = v
			}
			history = append(history, past{tab, snap})
		}
		for i, p := range history {
			got := map[string]int{}
			prev, first := "", true
			for k, v := range p.tab.All() {
				if !first && k <= prev {
					t.Fatalf("keys out of order: %q after %q", k, prev)
				}
				prev, first = k, false
				got[k] = v
			}
			if len(got) != len(p.want) || p.tab.Len() != len(p.want) {
				t.Fatalf("table %d: %v, want %v", i, got, p.want)
			}
			for k, v := range p.want {
				if got[k] != v {
					t.Fatalf("table %d: %v, want %v", i, got, p.want)
				}
			}
		}
	})
}
