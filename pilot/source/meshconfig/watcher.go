package meshconfig

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// Input is one place that configuration is read from.
type Input interface {
	// Run calls put with what the input holds, first as soon as that is known, then with each change, until ctx ends.
	Run(ctx context.Context, put func(Texts)) error
}

// Watcher follows the inputs and delivers the configuration that they give together.
type Watcher struct {
	// Inputs, the weakest first. None gives the defaults.
	Inputs []Input
}

// Run calls deliver once with the first configuration, when all inputs are known, and then with each one that differs
// from the last or has other problems, until ctx ends. deliver is called from one goroutine at a time and must not
// modify what it gets. Run returns an error only if an input can never be read.
func (w Watcher) Run(ctx context.Context, deliver func(*model.Mesh, []source.Problem)) error {
	if len(w.Inputs) == 0 {
		deliver(Build(nil, nil))
		<-ctx.Done()
		return nil
	}
	type change struct {
		index int
		texts Texts
	}
	changes := make(chan change)
	group, ctx := errgroup.WithContext(ctx)
	for i, in := range w.Inputs {
		group.Go(func() error {
			err := in.Run(ctx, func(t Texts) {
				select {
				case changes <- change{i, t}:
				case <-ctx.Done():
				}
			})
			if err != nil {
				return fmt.Errorf("reading the mesh configuration: %w", err)
			}
			return nil
		})
	}
	group.Go(func() error {
		m := merger{texts: make([]*Texts, len(w.Inputs))}
		for {
			select {
			case c := <-changes:
				m.put(c.index, c.texts, deliver)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// merger is the state of a Watcher, without I/O.
type merger struct {
	texts    []*Texts // nil until known
	last     *model.Mesh
	problems []source.Problem
}

func (m *merger) put(index int, t Texts, deliver func(*model.Mesh, []source.Problem)) {
	m.texts[index] = &t
	all := make([]Texts, 0, len(m.texts))
	for _, t := range m.texts {
		if t == nil {
			return
		}
		all = append(all, *t)
	}
	next, problems := Build(m.last, all)
	if m.last != nil && slices.Equal(m.problems, problems) && proto.Equal(m.last.Config, next.Config) &&
		proto.Equal(m.last.Networks, next.Networks) {
		return
	}
	m.last, m.problems = next, problems
	deliver(next, problems)
}
