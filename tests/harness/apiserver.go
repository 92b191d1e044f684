package harness

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// apiServerReady bounds the start of an API server, which takes some 4 s on two idle cores.
const apiServerReady = 2 * time.Minute

// APIServerOptions describes an API server to start.
type APIServerOptions struct {
	Tools Tools // zero means FindTools
	CRDs  []CRDs
	Args  []string // more arguments of kube-apiserver
	Dir   string   // for its files; empty means a temporary one that Close removes
}

// APIServer is a Kubernetes API server with its etcd: no controllers, no scheduler, no nodes. So a namespace that is
// deleted stays Terminating and no default service account appears. It is for use by one goroutine, except for Config,
// Kubeconfig and Namespace.
type APIServer struct {
	dir        string // fixed at construction, as all but the processes
	ownsDir    bool
	port       *Port
	config     *rest.Config
	etcdCmd    command
	serverCmd  command
	httpClient *http.Client

	etcd, server *process
}

// StartAPIServer starts an API server and returns when it is ready and serves the CRDs.
func StartAPIServer(ctx context.Context, opts APIServerOptions) (*APIServer, error) {
	ctx, cancel := context.WithTimeout(ctx, apiServerReady)
	defer cancel()
	s, err := prepareAPIServer(opts)
	if err != nil {
		return nil, fmt.Errorf("preparing the API server: %w", err)
	}
	err = s.launch(ctx)
	if err == nil {
		err = s.Install(ctx, opts.CRDs...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the API server: %w", err), s.Close())
	}
	return s, nil
}

// NewAPIServer starts an API server that lives as long as the test.
func NewAPIServer(t testing.TB, opts APIServerOptions) *APIServer {
	t.Helper()
	s, err := StartAPIServer(context.Background(), opts)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// SharedAPIServer is one API server for the tests of a binary: a variable of the test package, whose TestMain calls
// Close after m.Run. The first test that asks for it starts it. Each test works in namespaces of its own.
type SharedAPIServer struct {
	Options APIServerOptions // fixed before the first Get

	once   sync.Once // guards the start, and so the rest
	server *APIServer
	err    error
}

// Get returns the server, started if need be.
func (s *SharedAPIServer) Get(t testing.TB) *APIServer {
	t.Helper()
	s.once.Do(func() { s.server, s.err = StartAPIServer(context.Background(), s.Options) })
	must(t, s.err)
	return s.server
}

// Close ends the server if a test has started it. No test may run any more.
func (s *SharedAPIServer) Close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// prepareAPIServer reserves the port and writes all files.
func prepareAPIServer(opts APIServerOptions) (*APIServer, error) {
	tools, err := opts.Tools.orFound()
	if err != nil {
		return nil, err
	}
	etcd, err := tools.Path(EtcdTool)
	if err != nil {
		return nil, err
	}
	server, err := tools.Path(APIServerTool)
	if err != nil {
		return nil, err
	}
	s := &APIServer{dir: opts.Dir, ownsDir: opts.Dir == ""}
	if s.port, err = ReservePort(); err != nil {
		return nil, err
	}
	if s.ownsDir {
		// A short path: it holds sockets, whose paths may have 107 bytes.
		if s.dir, err = os.MkdirTemp("", "mizzen-kube-"); err != nil {
			s.port.Close()
			return nil, err
		}
	}
	s.etcdCmd = command{path: etcd, log: filepath.Join(s.dir, "etcd.log"), args: s.etcdArgs()}
	s.serverCmd = command{path: server, log: filepath.Join(s.dir, "apiserver.log"), args: append(s.serverArgs(), opts.Args...)}
	if err := s.writeConfig(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// file is the path of one of the server's files.
func (s *APIServer) file(name string) string { return filepath.Join(s.dir, name) }

// etcdArgs makes etcd listen on sockets in the directory only, so that it needs no ports. The addresses it advertises
// are for members of a cluster of several and not used.
func (s *APIServer) etcdArgs() []string {
	const nowhere = "http://127.0.0.1:1"
	return []string{
		"--data-dir", s.file("etcd"), "--listen-client-urls", "unix://" + s.file("etcd.sock"),
		"--advertise-client-urls", nowhere, "--listen-peer-urls", "unix://" + s.file("peer.sock"),
		"--initial-advertise-peer-urls", nowhere, "--initial-cluster", "default=" + nowhere,
		"--unsafe-no-fsync", "--log-level", "warn",
	}
}

// serverArgs is kube-apiserver's command line. The port is shared with the socket that reserves it.
func (s *APIServer) serverArgs() []string {
	return []string{
		"--etcd-servers=unix://" + s.file("etcd.sock"),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.port.Number()), "--permit-port-sharing",
		"--tls-cert-file=" + s.file(servingCert), "--tls-private-key-file=" + s.file(servingKey), "--cert-dir=" + s.dir,
		"--service-account-key-file=" + s.file(accountPub), "--service-account-signing-key-file=" + s.file(accountKey),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--token-auth-file=" + s.file(tokenFile), "--authorization-mode=RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=10.96.0.0/12", "--endpoint-reconciler-type=none",
		// Pods are created without a controller that would make their service accounts.
		"--disable-admission-plugins=ServiceAccount",
	}
}

// writeConfig writes the credentials and the kubeconfig and makes the client's configuration.
func (s *APIServer) writeConfig() error {
	token := rand.Text()
	cert, err := writeCredentials(s.dir, token)
	if err != nil {
		return err
	}
	url := "https://" + s.port.Address()
	// Tests are not to wait for a client's own rate limit.
	s.config = &rest.Config{
		Host: url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: cert}, QPS: -1, Timeout: time.Minute,
	}
	if s.httpClient, err = rest.HTTPClientFor(s.config); err != nil {
		return fmt.Errorf("making a client of the API server: %w", err)
	}
	const name = "mizzen"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: cert}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, s.file(kubeconfig)); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// launch starts both processes; the API server waits for etcd by itself.
func (s *APIServer) launch(ctx context.Context) error {
	var err error
	if s.etcd, err = s.etcdCmd.start(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Start starts kube-apiserver again after Kill, on the same port and data, and returns when it is ready.
func (s *APIServer) Start(ctx context.Context) error {
	var err error
	if s.server, err = s.serverCmd.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiServerReady)
	defer cancel()
	if err := s.server.ready(ctx, s.ready); err != nil {
		return errors.Join(err, s.etcd.exited())
	}
	return nil
}

// ready is the probe. It has a time limit of its own, since a server that starts may leave a request open.
func (s *APIServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := s.httpClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", resp.StatusCode)
	}
	return nil
}

// Config returns a client configuration with all rights; the caller may change it.
func (s *APIServer) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig is the path of a kubeconfig with all rights.
func (s *APIServer) Kubeconfig() string { return s.file(kubeconfig) }

// Log returns the lines of kube-apiserver's log that contain the text.
func (s *APIServer) Log(contains string) ([]string, error) { return readLog(s.serverCmd.log, contains) }

// Kill ends kube-apiserver by SIGKILL; etcd stays.
func (s *APIServer) Kill() error { return s.server.kill() }

// Pause stops kube-apiserver as if its machine had stalled: connections stay open and silent.
func (s *APIServer) Pause() error { return s.server.signal(syscall.SIGSTOP) }

// Resume lets a paused kube-apiserver go on.
func (s *APIServer) Resume() error { return s.server.signal(syscall.SIGCONT) }

// Close ends both processes and removes the files.
func (s *APIServer) Close() error {
	var errs []error
	for _, p := range []*process{s.server, s.etcd} {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	if s.httpClient != nil {
		s.httpClient.CloseIdleConnections()
	}
	s.port.Close()
	if s.ownsDir {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// Namespace creates a namespace with a new name that begins with the prefix, for one test.
func (s *APIServer) Namespace(t testing.TB, prefix string) string {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(s.config, s.httpClient)
	must(t, err)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": cmp.Or(prefix, "test") + "-"},
	}}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	created, err := namespaces.Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	return created.GetName()
}
