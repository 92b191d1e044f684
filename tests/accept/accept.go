// Package accept runs a control plane and one stock Envoy that has a network of its own, and tells whether the Envoy takes
// everything.
package accept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/plane"
)

// Options say what a Pair runs on.
type Options struct {
	Settings *model.Settings // nil: the defaults
	Mesh     *model.Mesh     // nil: the default
	Objects  []*model.Object
	Node     *corev3.Node
	// Authority issues the proxy's certificate.
	Authority *harness.Authority
}

// Pair is a control plane and a stock Envoy.
type Pair struct {
	Server *server.Server
	Envoy  *harness.Envoy
	given  *given
	debug  http.Client
}

// New starts a Pair that lasts as long as the test. Without the rights that it needs the test is skipped.
func New(t testing.TB, o Options) *Pair {
	t.Helper()
	network, err := harness.NewNetwork(t)
	if errors.Is(err, harness.ErrNoNetworks) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &Pair{
		given: &given{objects: o.Objects, changes: make(chan []model.Event)},
		debug: http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: network.DialContext}},
	}
	if err := network.Do(func() error {
		p.Server = plane.Start(t, t.TempDir(), func(s *server.Options) {
			s.Sources = []source.Source{p.given}
			if o.Settings != nil {
				s.Settings = o.Settings
			}
			if o.Mesh != nil {
				s.Mesh = o.Mesh
			}
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Server.Stop)
	namespace := o.Node.GetMetadata().GetFields()["NAMESPACE"].GetStringValue()
	secrets := harness.NewSecrets(t, o.Authority, "spiffe://cluster.local/ns/"+namespace+"/sa/x")
	p.Envoy = harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID: o.Node.GetId(), NodeCluster: o.Node.GetCluster(), Metadata: o.Node.GetMetadata().AsMap(),
		XDSAddress: p.Server.GRPC.String(), Network: network, Files: files(t, o.Authority), ServingOnly: true,
		Bootstrap: secrets.Bootstrap() + "bootstrap_extensions: [{name: envoy.bootstrap.internal_listener, typed_config: {'@type': type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener}}]\n",
	})
	return p
}

// files are what objects name that stand for any: certificates in a few places, a plugin.
func files(t testing.TB, a *harness.Authority) map[string][]byte {
	chain, key := a.Issue(t, "spiffe://cluster.local/ns/shop/sa/x")
	out := map[string][]byte{"/etc/wasm/s.wasm": harness.WasmModule(), "/etc/ca/crl.pem": a.Revocations(t)}
	for path, content := range map[string][]byte{"c.pem": chain, "cert.pem": chain, "k.pem": key, "key.pem": key, "root.pem": a.Roots()} {
		for _, dir := range []string{"", "c/", "cl/", "s/", "ca/"} {
			out["/etc/"+dir+path] = content
		}
	}
	return out
}

// Change delivers changes of objects.
func (p *Pair) Change(events ...model.Event) { p.given.changes <- events }

// Settled fails until the Envoy has acknowledged all that it was sent, and nothing of it waits to be used.
func (p *Pair) Settled(ctx context.Context) error {
	var connections []struct {
		Resources map[string]struct{ Sent, Acked string }
	}
	if err := p.ask(ctx, "/debug/syncz", &connections); err != nil {
		return err
	}
	if len(connections) != 1 {
		return fmt.Errorf("%d connections", len(connections))
	}
	for _, kind := range []string{translate.ClusterType, translate.ListenerType} {
		if connections[0].Resources[kind].Sent == "" {
			return fmt.Errorf("%s: nothing was sent", kind)
		}
	}
	for kind, r := range connections[0].Resources {
		if r.Sent != r.Acked {
			return fmt.Errorf("%s: sent %s, acknowledged %s", kind, r.Sent, r.Acked)
		}
	}
	warming, err := p.Envoy.Stats(ctx, `^(cluster_manager\.warming_clusters|listener_manager\.total_listeners_warming)$`)
	if err != nil {
		return err
	}
	for name, n := range warming {
		if n > 0 {
			return fmt.Errorf("%s: %d", name, n)
		}
	}
	return nil
}

// Refused returns what the Envoy has rejected so far, or the control plane holds back for that.
func (p *Pair) Refused(ctx context.Context) error {
	if err := p.Envoy.NoRejections(ctx); err != nil {
		return err
	}
	var status struct {
		Rejected map[string]any
	}
	if err := p.ask(ctx, "/debug/push_status", &status); err != nil || len(status.Rejected) == 0 {
		return err
	}
	return fmt.Errorf("held back: %v", status.Rejected)
}

// ask reads a JSON page of the control plane.
func (p *Pair) ask(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Server.HTTP.String()+path, nil)
	if err != nil {
		return err
	}
	answer, err := p.debug.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return json.NewDecoder(answer.Body).Decode(into)
}

// given is a source that has objects from the start and is told of changes.
type given struct {
	objects []*model.Object
	changes chan []model.Event
}

// Name implements source.Source.
func (*given) Name() string { return "given" }

// Run implements source.Source.
func (g *given) Run(ctx context.Context, sink source.Sink) error {
	events := make([]model.Event, len(g.objects))
	for i, o := range g.objects {
		events[i] = model.Event{Key: o.ObjectKey, Object: o}
	}
	sink.Events("given", events)
	sink.Synced("given")
	for {
		select {
		case <-ctx.Done():
			return nil
		case events := <-g.changes:
			sink.Events("given", events)
		}
	}
}
