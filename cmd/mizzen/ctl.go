package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// ctlCommand holds the commands for people.
func ctlCommand(lookup func(string) (string, bool)) *cobra.Command {
	c := &cobra.Command{Use: "ctl", Short: "Ask what the mesh does, without a control plane that runs"}
	c.AddCommand(translateCommand(lookup), simulateCommand(lookup))
	return c
}

// offlineFlags say what an offline control plane reads.
type offlineFlags struct {
	dir, meshConfig, meshNetworks string
}

func (f *offlineFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVarP(&f.dir, "filename", "f", "", "directory of manifests, as --configDir of mizzen discovery (required)")
	fs.StringVar(&f.meshConfig, "mesh-config", "", "file of the mesh configuration; empty: defaults")
	fs.StringVar(&f.meshNetworks, "mesh-networks", "", "file of the mesh networks; empty: none")
}

// start reads the input and starts a control plane on it. Mistakes in the input go to stderr; an error says that the
// input or the environment could not be read at all.
func (f offlineFlags) start(ctx context.Context, lookup func(string) (string, bool), stderr io.Writer) (*offline.Plane, error) {
	if f.dir == "" {
		return nil, errMissingFlag("-f", "the directory of manifests")
	}
	settings, errs := server.ParseSettings(lookup)
	for _, err := range errs {
		warn(stderr, fmt.Sprintf("environment: %v", err))
	}
	in, err := offline.Read(ctx, offline.Files{Dir: f.dir, Mesh: f.meshConfig, Networks: f.meshNetworks, Settings: settings})
	if err != nil {
		return nil, err
	}
	for _, p := range in.Problems {
		warn(stderr, problemText(p))
	}
	return offline.Start(settings, in.Mesh, in.Objects)
}

func errMissingFlag(flag, what string) error { return fmt.Errorf("%s is required: %s", flag, what) }

// warn writes a line for people; what cannot be written to stderr is lost.
func warn(stderr io.Writer, text string) { _, _ = fmt.Fprintln(stderr, text) }

// problemText is "file:line: object: field: message", as far as these are known.
func problemText(p source.Problem) string {
	text := ""
	switch {
	case p.Line > 0:
		text = fmt.Sprintf("%s:%d: ", p.File, p.Line)
	case p.File != "":
		text = p.File + ": "
	}
	if p.Object.Kind != "" {
		text += p.Object.String() + ": "
	}
	if p.Field != "" {
		text += p.Field + ": "
	}
	return text + p.Message
}

// reportUnbuilt says what could not be made of the input.
func reportUnbuilt(p *offline.Plane, stderr io.Writer) {
	unbuilt := p.Unbuilt()
	for _, unit := range slices.Sorted(maps.Keys(unbuilt)) {
		warn(stderr, unit+": "+unbuilt[unit])
	}
}
