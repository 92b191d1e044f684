package main

import (
	"context"
	"fmt"
	"io"
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
)

// translateFlags are the command line of mizzen ctl translate.
type translateFlags struct {
	offlineFlags
	proxy, output string
	targets       []string
	stock         bool
}

// The forms of output.
const (
	outputJSON      = "json"
	outputYAML      = "yaml"
	outputText      = "text"
	outputBootstrap = "envoy-bootstrap"
)

func translateCommand(lookup func(string) (string, bool)) *cobra.Command {
	var f translateFlags
	c := &cobra.Command{
		Use:   "translate -f DIR --proxy NODE.json",
		Short: "Print what a proxy would get for a directory of manifests",
		Long: "Print what a proxy would get for a directory of manifests: its resources by type, or an Envoy bootstrap that\n" +
			"has them as static ones. What is wrong with the manifests is told on stderr.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runTranslate(c.Context(), f, lookup, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	f.register(c)
	fs.StringVar(&f.proxy, "proxy", "", "file of the proxy's xDS node in JSON, as in a bootstrap (required)")
	fs.StringVarP(&f.output, "output", "o", outputYAML, "json, yaml or envoy-bootstrap")
	fs.StringArrayVar(&f.targets, "target", nil, "for a gRPC library: what it dials (host:port) or serves; may be repeated; none: every service")
	fs.BoolVar(&f.stock, "stock", false, "for a node without a list of extensions: it is an Envoy without Istio's")
	return c
}

func runTranslate(ctx context.Context, f translateFlags, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	if f.proxy == "" {
		return errMissingFlag("--proxy", "the file of the proxy's node")
	}
	text, err := os.ReadFile(f.proxy)
	if err != nil {
		return fmt.Errorf("reading the proxy's node: %w", err)
	}
	node, err := offline.ReadNode(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.proxy, err)
	}
	write, err := f.writer(node)
	if err != nil {
		return err
	}
	p, err := f.start(ctx, lookup, stderr)
	if err != nil {
		return err
	}
	defer p.Stop()
	as := node
	if f.stock {
		as = offline.Stock(node)
	}
	got, err := p.Ask(as, p.SubscriptionOf(as, f.targets))
	if err != nil {
		return fmt.Errorf("%s: %w", f.proxy, err)
	}
	reportUnbuilt(p, stderr)
	out, err := write(got)
	if err != nil {
		return err
	}
	_, err = stdout.Write(out)
	return err
}

// writer returns what makes the output.
func (f translateFlags) writer(node *corev3.Node) (func(offline.Resources) ([]byte, error), error) {
	switch f.output {
	case outputJSON:
		return offline.Resources.JSON, nil
	case outputYAML:
		return offline.Resources.YAML, nil
	case outputBootstrap:
		return func(r offline.Resources) ([]byte, error) { return r.BootstrapJSON(node) }, nil
	}
	return nil, fmt.Errorf("-o %s: want %s, %s or %s", f.output, outputJSON, outputYAML, outputBootstrap)
}
