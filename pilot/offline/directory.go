package offline

import (
	"context"
	"fmt"
	"os"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
)

// Files say where an Input is read from.
type Files struct {
	// Dir is the directory of manifests.
	Dir string
	// Mesh and Networks are the files of the mesh configuration and the mesh networks; empty means none.
	Mesh, Networks string
	// Settings say whether and from where ServiceEntries get addresses; nil means the defaults.
	Settings *model.Settings
}

// Input is what a control plane is given.
type Input struct {
	Objects []*model.Object
	Mesh    *model.Mesh
	// Problems are the mistakes in the input. What they are about is not among the objects.
	Problems []source.Problem
}

// Read reads an input once. It is an error if a file or the directory cannot be read; mistakes in them are Problems.
func Read(ctx context.Context, f Files) (*Input, error) {
	texts := meshconfig.Texts{Name: f.Mesh}
	for _, one := range []struct {
		path string
		into *[]byte
	}{{f.Mesh, &texts.Config}, {f.Networks, &texts.Networks}} {
		if one.path == "" {
			continue
		}
		data, err := os.ReadFile(one.path)
		if err != nil {
			return nil, fmt.Errorf("reading the mesh configuration: %w", err)
		}
		*one.into = data
	}
	mesh, problems := meshconfig.Build(nil, []meshconfig.Texts{texts})
	settings := f.Settings
	if settings == nil {
		settings = model.DefaultSettings()
	}
	src, err := server.Directory(f.Dir, settings, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sink := &once{synced: cancel}
	if err := src.Run(ctx, sink); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.Dir, err)
	}
	if !sink.complete {
		return nil, fmt.Errorf("reading %s: %w", f.Dir, context.Cause(ctx))
	}
	return &Input{Objects: sink.objects, Mesh: mesh, Problems: append(problems, sink.problems...)}, nil
}

// once takes what a source has at its start. The source calls it from one goroutine, which Read waits for.
type once struct {
	objects  []*model.Object
	problems []source.Problem
	complete bool
	synced   func()
}

func (o *once) Events(_ string, events []model.Event) {
	for _, e := range events {
		if e.Object != nil {
			o.objects = append(o.objects, e.Object)
		}
	}
}

func (o *once) Synced(string) {
	o.complete = true
	o.synced()
}

func (o *once) Problems(_ string, problems []source.Problem) { o.problems = problems }
