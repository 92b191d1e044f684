package grpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"

	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// patience is how long anything may take on a loaded machine.
const patience = 30 * time.Second

// callTimeout is how long one call may take.
const callTimeout = 5 * time.Second

// mesh is a control plane on a directory with the service echo in two versions, whose servers the test starts.
type mesh struct {
	dir   string
	plane string // where it serves ADS
	port  int    // of the service and its servers
}

// newMesh starts a control plane; files are further manifests by file name.
func newMesh(t *testing.T, files map[string]string) *mesh {
	t.Helper()
	m := prepare(t, files)
	s, _ := startPlane(t, m.dir, "127.0.0.1:0")
	m.plane = s.GRPC.String()
	return m
}

// prepare writes the manifests.
func prepare(t *testing.T, files map[string]string) *mesh {
	t.Helper()
	ports, err := world.NewPorts()
	if err != nil {
		t.Fatal(err)
	}
	m := &mesh{dir: t.TempDir(), port: ports.App}
	m.write(t, "base.yaml", base(m.port))
	m.write(t, "slice.yaml", slice("echo", m.port, 1, 2))
	for name, content := range files {
		m.write(t, name, content)
	}
	return m
}

func (m *mesh) write(t *testing.T, name, content string) {
	t.Helper()
	if err := world.Write(m.dir, name, content); err != nil {
		t.Fatal(err)
	}
}

// target is what clients dial for a host.
func (m *mesh) target(host string) string { return "xds:///" + host + ":" + strconv.Itoa(m.port) }

// identity is who a process of the mesh is; with files it has certificates.
type identity struct {
	ip, name string
	labels   map[string]any
	files    *certificates
}

func client(files *certificates) identity {
	return identity{ip: clientIP, name: "client", labels: map[string]any{"app": "client"}, files: files}
}

func version(i int, files *certificates) identity {
	v := fmt.Sprintf("v%d", i)
	labels := map[string]any{"app": "echo", "version": v}
	if files != nil {
		labels["security.istio.io/tlsMode"] = "istio"
	}
	return identity{ip: versionIP(i), name: "echo-" + v, labels: labels, files: files}
}

// bootstrap returns the configuration that the agent would write for a process.
func (m *mesh) bootstrap(t *testing.T, who identity) []byte {
	t.Helper()
	config := map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri": m.plane, "channel_creds": []any{map[string]any{"type": "insecure"}}, "server_features": []any{"xds_v3"},
		}},
		"node": map[string]any{
			"id": fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.cluster.local", who.ip, who.name, namespace, namespace),
			"metadata": map[string]any{
				"GENERATOR": "grpc", "NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": who.ip, "NAME": who.name,
				"LABELS": who.labels,
			},
		},
		"server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%s",
	}
	if f := who.files; f != nil {
		config["certificate_providers"] = map[string]any{"default": map[string]any{
			"plugin_name": "file_watcher",
			"config": map[string]any{
				"certificate_file": f.chain, "private_key_file": f.key, "ca_certificate_file": f.roots, "refresh_interval": "900s",
			},
		}}
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// echo answers every call with its name, but those with the header x-hang never.
type echo struct {
	grpc_testing.UnimplementedTestServiceServer
	name string
}

func (e *echo) UnaryCall(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	if md, _ := metadata.FromIncomingContext(ctx); len(md["x-hang"]) > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &grpc_testing.SimpleResponse{ServerId: e.name}, nil
}

func (e *echo) EmptyCall(context.Context, *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return &grpc_testing.Empty{}, nil
}

func listen(t *testing.T, ip string, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve starts the ordinary servers of versions, that know nothing of xDS.
func (m *mesh) serve(t *testing.T, versions ...int) {
	t.Helper()
	for _, v := range versions {
		s := grpc.NewServer()
		grpc_testing.RegisterTestServiceServer(s, &echo{name: fmt.Sprintf("v%d", v)})
		l := listen(t, versionIP(v), m.port)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
	}
}

// mode is what a server says about its listener.
type mode struct {
	serving bool
	err     error
}

// serveXDS starts a server that asks the control plane for its listener, and returns what it says about that.
func (m *mesh) serveXDS(t *testing.T, who identity, port int) <-chan mode {
	t.Helper()
	modes := make(chan mode, 16)
	s, err := xds.NewGRPCServer(grpc.Creds(serverCredentials(t)), xds.BootstrapContentsForTesting(m.bootstrap(t, who)),
		xds.ServingModeCallback(func(_ net.Addr, a xds.ServingModeChangeArgs) {
			select {
			case modes <- mode{a.Mode == connectivity.ServingModeServing, a.Err}:
			default: // nobody asks any more
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	grpc_testing.RegisterTestServiceServer(s, &echo{name: who.name})
	l := listen(t, who.ip, port)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return modes
}

func serverCredentials(t *testing.T) credentials.TransportCredentials {
	t.Helper()
	c, err := xdscreds.NewServerCredentials(xdscreds.ServerOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dialer makes connections that share one xDS client.
type dialer struct{ resolver resolver.Builder }

func (m *mesh) dialer(t *testing.T, who identity) dialer {
	t.Helper()
	r, err := xds.NewXDSResolverWithConfigForTesting(m.bootstrap(t, who))
	if err != nil {
		t.Fatal(err)
	}
	return dialer{r}
}

// caller calls one target.
type caller struct{ grpc_testing.TestServiceClient }

func (d dialer) dial(t *testing.T, target string) caller {
	t.Helper()
	creds, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(target, grpc.WithResolvers(d.resolver), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return caller{grpc_testing.NewTestServiceClient(conn)}
}

// call makes one call, with headers as pairs, and returns who answered.
func (c caller) call(ctx context.Context, headers ...string) (string, error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, headers...), callTimeout)
	defer cancel()
	r, err := c.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
	return r.GetServerId(), err
}

// count makes n calls and counts the answers; a failure fails the test.
func (c caller) count(t *testing.T, n int, headers ...string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for range n {
		who, err := c.call(t.Context(), headers...)
		if err != nil {
			t.Fatalf("after %v: %v", out, err)
		}
		out[who]++
	}
	return out
}

// eventually waits until n calls in a row are all answered by who.
func (c caller) eventually(t *testing.T, who string, headers ...string) {
	t.Helper()
	harness.Eventually(t, patience, func(ctx context.Context) error {
		for range 10 {
			got, err := c.call(ctx, headers...)
			if err != nil {
				return err
			}
			if got != who {
				return fmt.Errorf("answered by %q, not %q", got, who)
			}
		}
		return nil
	})
}

// works waits until a call succeeds.
func (c caller) works(t *testing.T) {
	t.Helper()
	harness.Eventually(t, patience, func(ctx context.Context) error { _, err := c.call(ctx); return err })
}

// failure waits until a call fails otherwise than by its deadline, and returns the error. A client waits 15 seconds for
// what it has asked for before it believes that there is none.
func (c caller) failure(t *testing.T, headers ...string) (failed error) {
	t.Helper()
	harness.Eventually(t, patience, func(ctx context.Context) error {
		_, failed = c.call(ctx, headers...)
		if failed == nil {
			return errors.New("the call succeeded")
		}
		if status.Code(failed) == codes.DeadlineExceeded {
			return failed
		}
		return nil
	})
	return failed
}
