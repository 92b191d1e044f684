package world

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// Mesh is a small mesh whose control plane serves ADS at an address and reads Dir.
type Mesh struct {
	Dir      string
	Ports    Ports
	Caller   *harness.Envoy
	Sidecars []*harness.Envoy
	Apps     []*harness.HTTPBackend
	Client   *harness.Client

	close []func()
}

// Options are what a Mesh is made with.
type Options struct {
	Dir      string // of the manifests; must exist
	Versions int    // of the service; 0 means 2
	// Address is the control plane's plaintext ADS. It need not serve yet.
	Address string
	// Protocol is the xDS protocol of the Envoys; empty means delta.
	Protocol harness.XDSProtocol
	// SidecarsOff runs the versions without a sidecar: their applications listen on the service port.
	SidecarsOff bool
	// Args are more arguments of the Envoys.
	Args []string
}

// freePort returns a port that is free on all loopback addresses in use here.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// NewPorts chooses the ports of a mesh.
func NewPorts() (Ports, error) {
	a, err := freePort()
	if err != nil {
		return Ports{}, fmt.Errorf("choose the service port: %w", err)
	}
	b, err := freePort()
	if err != nil {
		return Ports{}, fmt.Errorf("choose the application port: %w", err)
	}
	if a == b {
		return NewPorts()
	}
	return Ports{Service: a, App: b}, nil
}

// Write puts a manifest into dir, replacing the file in one step.
func Write(dir, name, content string) error {
	tmp := filepath.Join(dir, "."+name+".tmp")
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Prepare writes the manifests of a mesh with an even split over its versions.
func Prepare(dir string, p Ports, versions int) error {
	all := make([]int, versions)
	weights := make([]int, versions)
	for i := range all {
		all[i], weights[i] = i+1, 100/versions
	}
	weights[0] += 100 % versions
	for name, content := range map[string]string{
		"base.yaml": Base(p, versions), "slice.yaml": Slice(p, all...), "rule.yaml": Subsets(versions), "route.yaml": Split(weights...),
	} {
		if err := Write(dir, name, content); err != nil {
			return err
		}
	}
	return nil
}

// Start starts applications and Envoys of a mesh that Prepare has described. On error nothing stays.
func Start(ctx context.Context, o Options, p Ports) (m *Mesh, err error) {
	if o.Versions == 0 {
		o.Versions = 2
	}
	m = &Mesh{Dir: o.Dir, Ports: p, Client: harness.NewClient(harness.ClientOptions{})}
	m.close = append(m.close, m.Client.Close)
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	for i := 1; i <= o.Versions; i++ {
		port := p.App
		if o.SidecarsOff {
			port = p.Service
		}
		app, err := harness.StartHTTPBackend(harness.HTTPBackendOptions{Name: fmt.Sprintf("v%d", i), Listen: net.JoinHostPort(VersionIP(i), strconv.Itoa(port))})
		if err != nil {
			return nil, fmt.Errorf("start version %d: %w", i, err)
		}
		m.close = append(m.close, app.Close)
		m.Apps = append(m.Apps, app)
		if o.SidecarsOff {
			continue
		}
		e, err := m.envoy(ctx, o, fmt.Sprintf("reviews-v%d", i), VersionIP(i))
		if err != nil {
			return nil, err
		}
		m.Sidecars = append(m.Sidecars, e)
	}
	m.Caller, err = m.envoy(ctx, o, "caller", CallerIP)
	return m, err
}

func (m *Mesh) envoy(ctx context.Context, o Options, name, ip string) (*harness.Envoy, error) {
	e, err := harness.StartEnvoy(ctx, harness.EnvoyOptions{
		NodeID:     fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.cluster.local", ip, name, Namespace, Namespace),
		Metadata:   map[string]any{"NAMESPACE": Namespace, "INSTANCE_IPS": ip, "CLUSTER_ID": "Kubernetes", "INTERCEPTION_MODE": "NONE", "NAME": name},
		XDSAddress: o.Address, XDSProtocol: o.Protocol, ReadyTimeout: 20 * time.Second, Args: o.Args,
	})
	if err != nil {
		return nil, fmt.Errorf("start the sidecar of %s: %w", name, err)
	}
	m.close = append(m.close, func() { _ = e.Close() })
	return e, nil
}

// URL is where the caller's application would call.
func (m *Mesh) URL() string {
	return "http://" + net.JoinHostPort(CallerIP, strconv.Itoa(m.Ports.Service)) + "/"
}

// Authority is the name by which it calls.
func (m *Mesh) Authority() string { return Host + ":" + strconv.Itoa(m.Ports.Service) }

// Call sends one request through the caller's sidecar and returns the version that answered.
func (m *Mesh) Call(ctx context.Context) (string, error) {
	return harness.HTTPCall(m.Client, m.URL(), m.Authority())(ctx)
}

// Count sends n requests and counts the answers by version; failures count under their error.
func (m *Mesh) Count(ctx context.Context, n int) map[string]int {
	out := map[string]int{}
	for range n {
		v, err := m.Call(ctx)
		if err != nil {
			v = "failed: " + err.Error()
		}
		out[v]++
	}
	return out
}

// Close stops everything.
func (m *Mesh) Close() {
	for i := len(m.close) - 1; i >= 0; i-- {
		m.close[i]()
	}
	m.close = nil
}
