package file

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// golden compares what run makes of an archive with the archive's file "want". With UPDATE_GOLDEN=1 it writes it.
func golden(t *testing.T, name string, run func(a *txtar.Archive) string) {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := run(a)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		for i := range a.Files {
			if a.Files[i].Name == "want" {
				a.Files = append(a.Files[:i], a.Files[i+1:]...)
				break
			}
		}
		a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
		if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(fileOf(a, "want")); got != want {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 rewrites it); got:\n%s", name, got)
	}
}

func fileOf(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}
