package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/kube"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/source/selection"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// discoveryFlags are the command line of mizzen discovery; the names and defaults are those that deployments of istiod
// use.
type discoveryFlags struct {
	httpAddr, httpsAddr, grpcAddr, secureGRPCAddr, monitoringAddr string
	configDir, kubeconfig, meshConfig, networksConfig             string
	namespace, domain, clusterID                                  string
	profile                                                       bool
	kubeQPS                                                       float32
	kubeBurst                                                     int
	shutdown                                                      time.Duration
	keepalive, keepaliveTimeout, maxAge                           time.Duration
	logLevel                                                      string
}

func discoveryCommand(lookup func(string) (string, bool)) *cobra.Command {
	var f discoveryFlags
	c := &cobra.Command{
		Use:   "discovery",
		Short: "Run the control plane",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runDiscovery(c.Context(), f, lookup) },
		// Deployments pass flags of features that are not here (yet); they must not keep the control plane from starting.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	fs := c.Flags()
	fs.StringVar(&f.httpAddr, "httpAddr", ":8080", "address of readiness and debug output; empty: off")
	fs.StringVar(&f.httpsAddr, "httpsAddr", ":15017", "address of webhooks (not served yet); empty: off")
	fs.StringVar(&f.grpcAddr, "grpcAddr", ":15010", "address of plaintext xDS; empty: off")
	fs.StringVar(&f.secureGRPCAddr, "secureGRPCAddr", ":15012", "address of xDS over TLS (not served yet); empty: off")
	fs.StringVar(&f.monitoringAddr, "monitoringAddr", ":15014", "address of metrics; empty: off")
	fs.StringVar(&f.configDir, "configDir", "", "directory of manifests; with it and no kubeconfig no cluster is needed")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty without configDir: in-cluster")
	fs.StringVar(&f.meshConfig, "meshConfig", "./etc/istio/config/mesh", "file of the mesh configuration")
	fs.StringVar(&f.networksConfig, "networksConfig", "./etc/istio/config/meshNetworks", "file of the mesh networks")
	fs.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the control plane; empty: POD_NAMESPACE")
	fs.StringVar(&f.domain, "domain", "cluster.local", "DNS domain of services")
	fs.StringVar(&f.clusterID, "clusterID", "", "id of the cluster; empty: CLUSTER_ID")
	fs.BoolVar(&f.profile, "profile", true, "serve profiles at /debug/pprof")
	fs.Float32Var(&f.kubeQPS, "kubernetesApiQPS", 80, "requests a second to the API server")
	fs.IntVar(&f.kubeBurst, "kubernetesApiBurst", 160, "burst of requests to the API server")
	fs.DurationVar(&f.shutdown, "shutdownDuration", 10*time.Second, "how long a shutdown may take")
	fs.DurationVar(&f.keepalive, "keepaliveInterval", 30*time.Second, "time between pings of idle connections")
	fs.DurationVar(&f.keepaliveTimeout, "keepaliveTimeout", 10*time.Second, "how long a ping waits for its answer")
	fs.DurationVar(&f.maxAge, "keepaliveMaxServerConnectionAge", 0, "age at which connections are ended; 0: never")
	fs.StringVar(&f.logLevel, "log_output_level", "default:info", "least level that is logged: debug, info, warn, error")
	return c
}

func runDiscovery(ctx context.Context, f discoveryFlags, lookup func(string) (string, bool)) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel(f.logLevel)}))
	settings, errs := server.ParseSettings(lookup)
	for _, err := range errs {
		log.Warn("an environment variable is ignored", "error", err)
	}
	applyFlags(settings, f)
	tuneCollector(ctx, lookup)
	o, err := f.options(log, settings)
	if err != nil {
		return err
	}
	s, err := server.Start(ctx, o)
	if err != nil {
		return err
	}
	log.Info("started", "version", version, "xds", addr(s.GRPC), "http", addr(s.HTTP), "monitoring", addr(s.Monitoring))
	select {
	case err = <-s.Failed():
	case <-ctx.Done():
		log.Info("stopping")
	}
	s.Stop()
	return err
}

func addr(a fmt.Stringer) string {
	if a == nil || fmt.Sprintf("%v", a) == "<nil>" {
		return "off"
	}
	return a.String()
}

func applyFlags(s *model.Settings, f discoveryFlags) {
	s.Domain = f.domain
	if f.namespace != "" {
		s.SystemNamespace = f.namespace
	}
	if f.clusterID != "" {
		s.ClusterID = f.clusterID
	}
}

func logLevel(s string) slog.Level {
	if _, after, ok := strings.Cut(s, ":"); ok {
		s = after
	}
	var l slog.Level
	if l.UnmarshalText([]byte(s)) != nil {
		return slog.LevelInfo
	}
	return l
}

// options puts the control plane's options together.
func (f discoveryFlags) options(log *slog.Logger, settings *model.Settings) (server.Options, error) {
	first, err := meshconfig.Parse()
	if err != nil {
		return server.Options{}, err
	}
	o := server.Options{
		Log: log, Settings: settings, Mesh: first, GRPCAddr: f.grpcAddr, HTTPAddr: f.httpAddr, MonitoringAddr: f.monitoringAddr, Profile: f.profile,
		ShutdownDuration: f.shutdown, Version: version + " " + runtime.Version(),
		GRPC: xds.GRPCOptions{Keepalive: f.keepalive, KeepaliveTimeout: f.keepaliveTimeout, MaxAge: f.maxAge},
	}
	if err := f.addSources(&o); err != nil {
		return o, err
	}
	if len(o.Sources) == 0 {
		return o, errors.New("nothing to read: give --configDir or --kubeconfig")
	}
	return o, nil
}

// addSources adds the directory, the cluster, or both, and the mesh configuration's inputs.
func (f discoveryFlags) addSources(o *server.Options) error {
	var selecting []selects
	withCluster := f.kubeconfig != "" || f.configDir == ""
	if f.configDir != "" {
		directory, err := server.Directory(f.configDir, o.Settings, withCluster)
		if err != nil {
			return err
		}
		selecting, o.Sources = append(selecting, directory), append(o.Sources, directory)
	}
	var cluster *rest.Config
	if withCluster {
		var err error
		if cluster, err = clientcmd.BuildConfigFromFlags("", f.kubeconfig); err != nil {
			return fmt.Errorf("configuration of the cluster: %w", err)
		}
		src, err := kube.New(kube.Options{
			Config: cluster, Revision: o.Settings.Revision, SystemNamespace: o.Settings.SystemNamespace, QPS: f.kubeQPS, Burst: f.kubeBurst,
		})
		if err != nil {
			return err
		}
		selecting, o.Sources = append(selecting, src), append(o.Sources, src)
		writing := rest.CopyConfig(cluster)
		writing.QPS, writing.Burst = f.kubeQPS, f.kubeBurst
		if o.Addresses, err = server.NewAddressWriter(o.Log, o.Settings, writing, src.Name()); err != nil {
			return err
		}
	}
	inputs, err := f.meshInputs(cluster, o.Settings)
	if err != nil {
		return err
	}
	w := meshconfig.Watcher{Inputs: inputs}
	o.MeshSource = func(ctx context.Context, deliver func(*model.Mesh, []source.Problem)) error {
		return w.Run(ctx, func(m *model.Mesh, problems []source.Problem) {
			deliver(m, selectNamespaces(selecting, m, problems))
		})
	}
	return nil
}

// selects is a source that can leave out namespaces.
type selects interface {
	Select(namespaces []labels.Selector)
}

// selectNamespaces has the sources read as the mesh configuration's discoverySelectors say. Invalid ones select nothing
// new: those in force stay.
func selectNamespaces(sources []selects, m *model.Mesh, problems []source.Problem) []source.Problem {
	selectors, err := selection.Parse(m.Config.GetDiscoverySelectors())
	if err != nil {
		return append(problems, source.Problem{Code: "invalid", Object: model.ObjectKey{Kind: "MeshConfig"}, Field: "discoverySelectors", Message: err.Error()})
	}
	for _, s := range sources {
		s.Select(selectors)
	}
	return problems
}

// meshInputs returns where the mesh configuration is read from, the weakest first: the ConfigMap that the user shares
// between revisions, then the file if it is there, else the revision's ConfigMap. cluster is nil without one.
func (f discoveryFlags) meshInputs(cluster *rest.Config, s *model.Settings) ([]meshconfig.Input, error) {
	files := meshconfig.Files{Config: f.meshConfig, Networks: f.networksConfig}
	if cluster == nil {
		return []meshconfig.Input{files}, nil
	}
	var names []string
	if s.SharedMeshConfig != "" {
		names = append(names, s.SharedMeshConfig)
	}
	if !files.Exist() {
		names = append(names, meshconfig.BaseName(s.Revision))
	}
	var inputs []meshconfig.Input
	for _, name := range names {
		from, err := kube.ConfigMap(cluster, s.SystemNamespace, name)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, meshconfig.ConfigMap{Source: from, Namespace: s.SystemNamespace, Name: name})
	}
	if files.Exist() || f.networksConfig != "" {
		inputs = append(inputs, files)
	}
	return inputs, nil
}
