package parity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	planes "github.com/mizzen-mesh/mizzen/tests/plane"
)

// given is a source that has a scenario's objects from the start.
type given []*model.Object

func (given) Name() string { return "given" }

func (g given) Run(ctx context.Context, sink source.Sink) error {
	events := make([]model.Event, len(g))
	for i, o := range g {
		events[i] = model.Event{Key: o.ObjectKey, Object: o}
	}
	sink.Events("given", events)
	sink.Synced("given")
	<-ctx.Done()
	return nil
}

// TestStockEnvoyAcceptsAll runs each scenario's sidecars as stock Envoys: every resource is accepted, and nothing of it is
// held back. Each Envoy has a network of its own, where it binds what its listeners say.
func TestStockEnvoyAcceptsAll(t *testing.T) {
	t.Parallel()
	dir := root(t)
	names := chosen(t, dir, "")
	authority := harness.NewAuthority(t)
	for _, n := range names {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			s, err := loadScenario(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.proxies {
				if spec := &s.proxies[i]; spec.kind() == "sidecar" {
					t.Run(spec.Name, func(t *testing.T) { accepts(t, s, spec, authority) })
				}
			}
		})
	}
}

// accepts starts a control plane and one Envoy, and waits until the Envoy has everything.
func accepts(t *testing.T, s *scenario, spec *proxySpec, authority *harness.Authority) {
	network, err := harness.NewNetwork(t)
	if errors.Is(err, harness.ErrNoNetworks) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var p *server.Server
	if err := network.Do(func() error {
		p = planes.Start(t, t.TempDir(), func(o *server.Options) {
			o.Settings, o.Mesh, o.Sources, o.HTTPAddr = s.settings, s.mesh, []source.Source{given(s.objects)}, "127.0.0.1:0"
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	secrets := harness.NewSecrets(t, authority, "spiffe://cluster.local/ns/"+spec.node.GetMetadata().GetFields()["NAMESPACE"].GetStringValue()+"/sa/x")
	e := harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID: spec.node.GetId(), NodeCluster: spec.node.GetCluster(), Metadata: spec.node.GetMetadata().AsMap(),
		XDSAddress: p.GRPC.String(), Network: network, Files: files(t, authority), ServingOnly: true,
		Bootstrap: secrets.Bootstrap() + "bootstrap_extensions: [{name: envoy.bootstrap.internal_listener, typed_config: {'@type': type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener}}]\n",
	})
	debug := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: network.DialContext}}
	harness.Eventually(t, 40*time.Second, func(ctx context.Context) error { return settled(ctx, &debug, p, e) })
	if err := errors.Join(e.NoRejections(context.Background()), heldBack(context.Background(), &debug, p)); err != nil {
		t.Error(err)
	}
}

// files are what the scenarios' objects name, as a proxy's machine would have them.
func files(t *testing.T, a *harness.Authority) map[string][]byte {
	chain, key := a.Issue(t, "spiffe://cluster.local/ns/shop/sa/x")
	out := map[string][]byte{"/etc/wasm/s.wasm": harness.WasmModule(), "/etc/ca/crl.pem": a.Revocations(t)}
	for path, content := range map[string][]byte{"c.pem": chain, "cert.pem": chain, "k.pem": key, "key.pem": key, "root.pem": a.Roots()} {
		for _, dir := range []string{"", "c/", "cl/", "s/", "ca/"} {
			out["/etc/"+dir+path] = content
		}
	}
	return out
}

// settled fails until the Envoy has acknowledged all that it was sent, and nothing of it waits to be used.
func settled(ctx context.Context, debug *http.Client, p *server.Server, e *harness.Envoy) error {
	var connections []struct {
		Resources map[string]struct{ Sent, Acked, LastError string }
	}
	if err := ask(ctx, debug, "http://"+p.HTTP.String()+"/debug/syncz", &connections); err != nil {
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
	warming, err := e.Stats(ctx, `^(cluster_manager\.warming_clusters|listener_manager\.total_listeners_warming)$`)
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

// heldBack fails if the control plane holds resources back that the Envoy has rejected, or could not make some.
func heldBack(ctx context.Context, debug *http.Client, p *server.Server) error {
	var status struct {
		Rejected map[string]any
	}
	if err := ask(ctx, debug, "http://"+p.HTTP.String()+"/debug/push_status", &status); err != nil || len(status.Rejected) == 0 {
		return err
	}
	return fmt.Errorf("held back: %v", status.Rejected)
}

// ask reads a JSON page.
func ask(ctx context.Context, c *http.Client, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return json.NewDecoder(answer.Body).Decode(into)
}
