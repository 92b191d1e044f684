package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/kube"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/status"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 60 * time.Second
	shop     = "shop"
)

// mesh is a cluster with its users' hands.
type mesh struct {
	*testing.T
	server *harness.APIServer
	client dynamic.Interface
}

func newMesh(t *testing.T) *mesh {
	t.Helper()
	m := &mesh{T: t, server: harness.NewAPIServer(t, harness.APIServerOptions{CRDs: []harness.CRDs{harness.IstioCRDs()}})}
	client, err := dynamic.NewForConfig(m.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	for _, ns := range []string{shop, "istio-system"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}}
		if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *mesh) entries() dynamic.ResourceInterface {
	return m.client.Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"}).Namespace(shop)
}

// create makes a ServiceEntry and sets its status, JSON, if one is given.
func (m *mesh) create(name, spec, status string) {
	m.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		m.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "spec": fields}}
	u.SetName(name)
	if strings.HasPrefix(name, "off") {
		u.SetLabels(map[string]string{"networking.istio.io/enable-autoallocate-ip": "false"})
	}
	if _, err := m.entries().Create(m.Context(), u, metav1.CreateOptions{FieldManager: "user"}); err != nil {
		m.Fatal(err)
	}
	if status != "" {
		m.patch(name, fmt.Sprintf(`{"status":%s}`, status), "status")
	}
}

func (m *mesh) patch(name, text string, subresources ...string) {
	m.Helper()
	_, err := m.entries().Patch(m.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "user"}, subresources...)
	if err != nil {
		m.Fatal(err)
	}
}

func (m *mesh) get(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return m.entries().Get(ctx, name, metav1.GetOptions{})
}

// allocated returns the two addresses that an object has for one host, or an error.
func allocated(u *unstructured.Unstructured, host string) (four, six string, err error) {
	list, _, err := unstructured.NestedSlice(u.Object, "status", "addresses")
	if err != nil || len(list) != 2 {
		return "", "", fmt.Errorf("%s: addresses %v, %w", u.GetName(), list, err)
	}
	var values []string
	for _, e := range list {
		fields, _ := e.(map[string]any)
		value, _ := fields["value"].(string)
		if fields["host"] != host {
			return "", "", fmt.Errorf("%s: host %v", u.GetName(), fields["host"])
		}
		values = append(values, value)
	}
	for i, p := range []string{"240.240.0.0/16", "2001:2::/48"} {
		if at, err := netip.ParseAddr(values[i]); err != nil || !netip.MustParsePrefix(p).Contains(at) {
			return "", "", fmt.Errorf("%s: %s is not in %s", u.GetName(), values[i], p)
		}
	}
	return values[0], values[1], nil
}

// wait waits until an object has addresses for a host, and returns those.
func (m *mesh) wait(name, host string) (four, six string) {
	m.Helper()
	harness.Eventually(m, patience, func(ctx context.Context) error {
		u, err := m.get(ctx, name)
		if err == nil {
			four, six, err = allocated(u, host)
		}
		return err
	})
	return four, six
}

// writers returns who has written to the status of an object, besides the user.
func (m *mesh) writers(name string) []string {
	m.Helper()
	u, err := m.get(m.Context(), name)
	if err != nil {
		m.Fatal(err)
	}
	var out []string
	for _, f := range u.GetManagedFields() {
		if f.Subresource == "status" && f.Manager != "user" && !slices.Contains(out, f.Manager) {
			out = append(out, f.Manager)
		}
	}
	return out
}

// plane starts a control plane of a name.
func (m *mesh) plane(name string) (stop func()) {
	m.Helper()
	config := m.server.Config()
	config.UserAgent = name
	src, err := kube.New(kube.Options{Config: config, QPS: -1})
	if err != nil {
		m.Fatal(err)
	}
	settings := model.DefaultSettings()
	settings.Raw = map[string]string{"POD_NAME": name}
	log := slog.New(slog.NewTextHandler(m.Output(), nil)).With("plane", name)
	writer, err := server.NewAddressWriter(log, settings, config, src.Name())
	if err != nil {
		m.Fatal(err)
	}
	config2, err := meshconfig.Parse()
	if err != nil {
		m.Fatal(err)
	}
	s, err := server.Start(m.Context(), server.Options{
		Log: log, Settings: settings, Mesh: config2, Sources: []source.Source{src}, Addresses: writer, ShutdownDuration: time.Second,
	})
	if err != nil {
		m.Fatal(err)
	}
	select {
	case <-s.Started():
	case <-time.After(patience):
		m.Fatal(name, " is not ready")
	}
	return s.Stop
}

func dns(host string) string {
	return fmt.Sprintf(`{"hosts":[%q],"resolution":"DNS","ports":[{"number":80,"name":"tcp","protocol":"TCP"}]}`, host)
}

// TestAddresses has two control planes write to a real API server: only one does, and the other when that one has gone.
func TestAddresses(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.create("plain", dns("plain.com"), "")
	m.create("off", dns("off.com"), "")
	m.create("user", `{"hosts":["user.com"],"addresses":["240.240.0.1"],"resolution":"DNS","ports":[{"number":80,"name":"tcp"}]}`, "")
	m.create("foreign", dns("foreign.com"), `{"conditions":[{"type":"Mine","status":"True"}]}`)
	m.create("empty", dns("empty.com"), `{"addresses":[]}`)
	m.create("kept", dns("kept.com"), `{"addresses":[{"value":"240.240.7.7","host":"kept.com"},{"value":"2001:2::7","host":"kept.com"}]}`)
	stop := m.plane("first")
	t.Cleanup(func() { stop() })
	four, _ := m.wait("plain", "plain.com")
	if four == "240.240.0.1" {
		t.Error("a user's address is given to another")
	}
	m.wait("empty", "empty.com")
	m.wait("foreign", "foreign.com")
	defer m.plane("second")()
	names := []string{"plain", "empty", "foreign"}

	// Case 21: a copy with the status of the original.
	m.create("copy", dns("copy.com"), fmt.Sprintf(`{"addresses":[{"value":%q,"host":"copy.com"}]}`, four))
	harness.Eventually(t, patience, func(ctx context.Context) error {
		u, err := m.get(ctx, "copy")
		if err != nil {
			return err
		}
		got, _, err := allocated(u, "copy.com")
		if err == nil && got == four {
			err = fmt.Errorf("both have %s", got)
		}
		return err
	})
	if again, _ := m.wait("plain", "plain.com"); again != four {
		t.Errorf("the older of two moves from %s to %s", four, again)
	}

	// Cleared when no longer eligible.
	m.patch("empty", `{"spec":{"resolution":"NONE"}}`)
	harness.Eventually(t, patience, func(ctx context.Context) error {
		u, err := m.get(ctx, "empty")
		if err != nil {
			return err
		}
		if list, found, err := unstructured.NestedSlice(u.Object, "status", "addresses"); err != nil || !found || len(list) > 0 {
			return fmt.Errorf("addresses %v, there %v, %w", list, found, err)
		}
		return nil
	})
	for _, name := range append(names, "copy") {
		if w := m.writers(name); !slices.Equal(w, []string{"first"}) {
			t.Errorf("%s is written by %v", name, w)
		}
	}
	for _, name := range []string{"off", "user", "kept"} {
		if w := m.writers(name); len(w) > 0 {
			t.Errorf("%s is written by %v", name, w)
		}
	}
	u, err := m.get(t.Context(), "foreign")
	if err != nil {
		t.Fatal(err)
	}
	if list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions"); err != nil || len(list) != 1 {
		t.Errorf("another's condition has become %v, %v", list, err)
	}

	stop()
	stop = func() {}
	m.create("later", dns("later.com"), "")
	m.wait("later", "later.com")
	if w := m.writers("later"); !slices.Equal(w, []string{"second"}) {
		t.Errorf("after the first has gone, written by %v", w)
	}
	if again, _ := m.wait("plain", "plain.com"); again != four {
		t.Errorf("with the leader the address changes from %s to %s", four, again)
	}
	m.lostLock()
}

// lostLock wants a leader to stop when its lock is another's.
func (m *mesh) lostLock() {
	m.Helper()
	e := &status.Election{
		Client: m.client, Namespace: "istio-system", Name: "lock", Identity: "me", Log: slog.New(slog.DiscardHandler),
		Lease: 2 * time.Second, Renew: time.Minute, Retry: 100 * time.Millisecond,
	}
	ctx, cancel := context.WithCancel(m.Context())
	leads, lost, ended := make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(ctx, func(ctx context.Context) { leads <- struct{}{}; <-ctx.Done(); lost <- struct{}{} })
	}()
	await := func(what string, c <-chan struct{}) {
		m.Helper()
		select {
		case <-c:
		case <-time.After(patience):
			m.Error(what)
		}
	}
	await("nobody leads", leads)
	locks := m.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("istio-system")
	const theft = `{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"thief\",\"leaseDurationSeconds\":2}"}}}`
	if _, err := locks.Patch(m.Context(), "lock", types.MergePatchType, []byte(theft), metav1.PatchOptions{}); err != nil {
		m.Error(err)
	}
	await("the lock is another's, and the leader leads on", lost)
	await("the thief is silent, and nobody leads", leads)
	cancel()
	await("at its end the leader leads on", lost)
	await("the election does not end", ended)
	lock, err := locks.Get(m.Context(), "lock", metav1.GetOptions{})
	if err != nil || !strings.Contains(lock.GetAnnotations()["control-plane.alpha.kubernetes.io/leader"], `"holderIdentity":""`) {
		m.Errorf("the lock is not released: %v, %v", lock.GetAnnotations(), err)
	}
}
