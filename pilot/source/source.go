// Package source turns outside worlds into typed objects: a directory of files, a Kubernetes cluster. All of them feed
// the same tables with the same object types, so that nobody behind them can tell one from another.
package source

import (
	"context"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Sink takes what sources find. Its methods may be called from any goroutine and do not block for long.
type Sink interface {
	// Events delivers changes. Events of one object come in order.
	Events(source string, events []model.Event)
	// Synced says that everything the source had at its start has been delivered. It is called once.
	Synced(source string)
	// Problems replaces the list of what is wrong with a source's input now; an empty list says that all is well.
	Problems(source string, problems []Problem)
}

// Source is one outside world.
type Source interface {
	// Name is unique among the process's sources, for people and metrics.
	Name() string
	// Run delivers to sink until ctx ends. It returns an error only if it can never deliver.
	Run(ctx context.Context, sink Sink) error
}

// Problem is a mistake in a source's input that a user can mend. The object's last good version stays in force.
type Problem struct {
	// Code is short and stable: "yaml", "kind", "field", "duplicate", "size", "invalid", "read".
	Code string
	// File and Line say where, for files. Line counts from 1.
	File string
	Line int
	// Object is the object, as far as it could be told.
	Object model.ObjectKey
	// Field is the path of the offending field, or empty.
	Field   string
	Message string
}
