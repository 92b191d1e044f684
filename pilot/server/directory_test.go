package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// first takes what a source has at its start.
type first struct {
	objects []*model.Object
	end     func()
}

func (f *first) Events(_ string, events []model.Event) {
	for _, e := range events {
		f.objects = append(f.objects, e.Object)
	}
}

func (f *first) Synced(string)                   { f.end() }
func (*first) Problems(string, []source.Problem) {}

// TestDirectoryAssignsAddresses wants the control plane to give addresses in a directory, unless there is a cluster, whose
// leader does, or it is switched off.
func TestDirectoryAssignsAddresses(t *testing.T) {
	t.Parallel()
	const manifest = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a, namespace: shop}\n" +
		"spec: {hosts: [a.com], resolution: DNS, ports: [{number: 80, name: tcp, protocol: TCP}]}\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	off := model.DefaultSettings()
	off.EnableIPAutoallocate = false
	for name, c := range map[string]struct {
		settings    *model.Settings
		withCluster bool
		addresses   int
	}{
		"a directory":              {model.DefaultSettings(), false, 2},
		"a directory by a cluster": {model.DefaultSettings(), true, 0},
		"switched off":             {off, false, 0},
	} {
		src, err := Directory(dir, c.settings, c.withCluster)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		sink := &first{end: cancel}
		if err := src.Run(ctx, sink); err != nil {
			t.Fatal(err)
		}
		cancel()
		if len(sink.objects) != 1 {
			t.Fatalf("%s: %d objects", name, len(sink.objects))
		}
		status, _ := sink.objects[0].Status.(*networking.ServiceEntryStatus)
		if n := len(status.GetAddresses()); n != c.addresses {
			t.Errorf("%s: %d addresses, want %d", name, n, c.addresses)
		}
	}
}
