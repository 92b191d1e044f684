package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/simulate"
)

// simulateFlags are the command line of mizzen ctl simulate.
type simulateFlags struct {
	offlineFlags
	from, to, method, output, address, claims string
	headers                                   []string
	http2, stock                              bool
}

func simulateCommand(lookup func(string) (string, bool)) *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate -f DIR --from POD --to URL",
		Short: "Say where a request of a pod would go, and which objects decide it",
		Long: "Walk a request through the configuration that the manifests give the pod's sidecar, and through the sidecars of the\n" +
			"pods that it may reach: listeners, filter chains, policies, routes, clusters, endpoints.",
		Example: "  mizzen ctl simulate -f manifests --from shop/client --to http://web/new -H 'x-user: jo'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runSimulate(c.Context(), f, lookup, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	f.register(c)
	fs.StringVar(&f.from, "from", "", "the calling pod: POD, POD.NAMESPACE or NAMESPACE/POD (required)")
	fs.StringVar(&f.to, "to", "", "http, https or tcp URL of the destination (required)")
	fs.StringVarP(&f.method, "request", "X", "GET", "HTTP method")
	fs.StringArrayVarP(&f.headers, "header", "H", nil, "HTTP header as 'name: value'; may be repeated")
	fs.StringVar(&f.address, "address", "", "address that the destination's host resolves to; empty: its service's")
	fs.StringVar(&f.claims, "claims", "", "claims of a valid token that the request carries, as JSON")
	fs.BoolVar(&f.http2, "http2", false, "the application speaks HTTP/2")
	fs.BoolVar(&f.stock, "stock", false, "proxies are Envoys without Istio's extensions")
	fs.StringVarP(&f.output, "output", "o", outputText, "text or json")
	return c
}

func runSimulate(ctx context.Context, f simulateFlags, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	call, err := f.call()
	if err != nil {
		return err
	}
	p, err := f.start(ctx, lookup, stderr)
	if err != nil {
		return err
	}
	defer p.Stop()
	s, err := p.Simulate(call)
	if err != nil {
		return err
	}
	reportUnbuilt(p, stderr)
	if f.output == outputText {
		_, err := io.WriteString(stdout, simulationText(s))
		return err
	}
	e := json.NewEncoder(stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// call reads the flags.
func (f simulateFlags) call() (offline.Call, error) {
	c := offline.Call{From: f.from, To: f.to, Method: f.method, Headers: map[string]string{}, HTTP2: f.http2, Stock: f.stock}
	switch {
	case f.from == "":
		return c, errMissingFlag("--from", "the calling pod")
	case f.to == "":
		return c, errMissingFlag("--to", "the URL of the destination")
	case f.output != outputText && f.output != outputJSON:
		return c, fmt.Errorf("-o %s: want %s or %s", f.output, outputText, outputJSON)
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return c, fmt.Errorf("-H %q: want 'name: value'", h)
		}
		c.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if f.claims != "" {
		if err := json.Unmarshal([]byte(f.claims), &c.Claims); err != nil {
			return c, fmt.Errorf("--claims: %w", err)
		}
	}
	if f.address != "" {
		a, err := netip.ParseAddr(f.address)
		if err != nil {
			return c, fmt.Errorf("--address: %w", err)
		}
		c.Address = a
	}
	return c, nil
}

// simulationText is the output for people: a line for each step.
func simulationText(s *offline.Simulation) string {
	var b strings.Builder
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	fmt.Fprintf(&b, "sidecar of %s, outbound\n", s.Outbound.Pod)
	writeLeg(&b, s.Outbound.Trace)
	for _, l := range s.Inbound {
		fmt.Fprintf(&b, "sidecar of %s, inbound at %s\n", l.Pod, l.Endpoint)
		writeLeg(&b, l.Trace)
	}
	writeResult(&b, s)
	return b.String()
}

// writeResult says in the end what becomes of the request: at each endpoint that it may reach, with its share.
func writeResult(b *strings.Builder, s *offline.Simulation) {
	o := s.Outbound.Outcome
	if o.Kind != simulate.Forwarded {
		fmt.Fprintf(b, "result: %s\n", o)
		return
	}
	at := map[string]offline.Leg{}
	for _, l := range s.Inbound {
		at[l.Endpoint] = l
	}
	for _, d := range o.Destinations {
		if d.Problem != "" {
			fmt.Fprintf(b, "result: %.4g %% fail: %s\n", d.Weight, d.Problem)
		}
		for _, e := range d.Endpoints {
			if e.Share == 0 {
				continue
			}
			fmt.Fprintf(b, "result: %.4g %% to %s", d.Weight*e.Share/100, e.Address)
			if l, ok := at[e.Address]; ok && l.Outcome.Kind == simulate.Forwarded {
				fmt.Fprintf(b, ", which is served by %s", l.Pod)
			} else if ok {
				fmt.Fprintf(b, " of %s, %s", l.Pod, l.Outcome)
			}
			fmt.Fprintln(b)
		}
	}
}

func writeLeg(b *strings.Builder, t simulate.Trace) {
	for _, step := range t.Steps {
		line := fmt.Sprintf("  %-14s %s", step.Stage, step.Name)
		if step.Text != "" {
			line += ": " + step.Text
		}
		if len(step.Because) > 0 {
			line += "  (because of " + strings.Join(step.Because, ", ") + ")"
		}
		fmt.Fprintln(b, line)
	}
	fmt.Fprintf(b, "  => %s\n", t.Outcome)
	for _, d := range t.Outcome.Destinations {
		writeDestination(b, d, "")
	}
	for _, d := range t.Outcome.Mirrors {
		writeDestination(b, d, "copy to ")
	}
}

func writeDestination(b *strings.Builder, d simulate.Destination, before string) {
	fmt.Fprintf(b, "     %s%.4g %% %s", before, d.Weight, d.Cluster)
	if d.Problem != "" {
		fmt.Fprintf(b, ": %s", d.Problem)
	}
	fmt.Fprintln(b)
	for _, e := range d.Endpoints {
		fmt.Fprintf(b, "        %-22s %5.4g %%  %s\n", e.Address, e.Share, e)
	}
}
