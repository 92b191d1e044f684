package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
)

// scenario is one recorded input with the proxies that asked.
type scenario struct {
	name     string
	dir      string
	settings *model.Settings
	mesh     *model.Mesh
	objects  []*model.Object
	proxies  []proxySpec
}

type proxySpec struct {
	Name     string              `json:"name"`
	Node     json.RawMessage     `json:"node"`
	Types    []string            `json:"types"`
	Names    map[string][]string `json:"names"`
	Token    string              `json:"token"`
	OnDemand bool                `json:"onDemand"`
	node     *corev3.Node
}

// kind returns the proxy's node type, or "grpc" for proxyless clients.
func (p *proxySpec) kind() string {
	if p.node.GetMetadata().GetFields()["GENERATOR"].GetStringValue() == "grpc" {
		return "grpc"
	}
	kind, _, _ := strings.Cut(p.node.GetId(), "~")
	return kind
}

type scenarioFile struct {
	Mesh map[string]any    `json:"mesh"`
	Env  map[string]string `json:"env"`
	// CreatedInOrder names objects as "Kind/namespace/name", each created after the one before and after all others.
	CreatedInOrder []string `json:"createdInOrder"`
}

func loadScenario(dir string) (*scenario, error) {
	s := &scenario{name: filepath.Base(dir), dir: dir}
	var sf scenarioFile
	if err := readYAML(filepath.Join(dir, "scenario.yaml"), &sf); err != nil {
		return nil, err
	}
	var errs []error
	s.settings, errs = server.ParseSettings(func(k string) (string, bool) {
		if v, ok := sf.Env[k]; ok {
			return v, true
		}
		return "default", k == "REVISION" // that of the control plane that was recorded
	})
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if err := s.readObjects(); err != nil {
		return nil, err
	}
	for _, o := range s.objects {
		if i := slices.Index(sf.CreatedInOrder, fmt.Sprintf("%s/%s/%s", o.Kind, o.Namespace, o.Name)); i >= 0 && o.Created.IsZero() {
			o.Created = time.Unix(int64(i)+1, 0)
		}
	}
	if err := s.readMesh(sf.Mesh); err != nil {
		return nil, err
	}
	if err := readYAML(filepath.Join(dir, "proxies.yaml"), &s.proxies); err != nil {
		return nil, err
	}
	for i := range s.proxies {
		p := &s.proxies[i]
		p.node = &corev3.Node{}
		if err := protojson.Unmarshal(p.Node, p.node); err != nil {
			return nil, fmt.Errorf("proxy %s: %w", p.Name, err)
		}
		if len(p.Types) == 0 {
			p.Types = []string{"cds", "eds", "lds", "rds", "nds"}
		}
	}
	return s, nil
}

func (s *scenario) readObjects() error {
	data, err := os.ReadFile(filepath.Join(s.dir, "input.yaml"))
	if err != nil {
		return err
	}
	objects, problems := file.Decode("input.yaml", data)
	for _, p := range problems {
		if p.Code != "kind" {
			return fmt.Errorf("input.yaml:%d: %s", p.Line, p.Message)
		}
	}
	s.objects = objects
	return nil
}

func (s *scenario) readMesh(fields map[string]any) error {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return err
	}
	if fields == nil {
		text = nil
	}
	if s.mesh, err = meshconfig.Parse(text); err != nil {
		return err
	}
	for _, o := range s.objects {
		m, ok := o.Spec.(*corev1.ConfigMap)
		if !ok || o.Name != "istio" || m.Data["meshNetworks"] == "" {
			continue
		}
		networks, err := meshconfig.ParseNetworks([]byte(m.Data["meshNetworks"]))
		if err != nil {
			return err
		}
		s.mesh = meshconfig.New(s.mesh.Config, networks)
	}
	return nil
}

func readYAML(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func readRecording(path string) (recording, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r recording
	return r, json.Unmarshal(data, &r)
}

// scenarios lists the scenario folders, or those of a list file (core.txt).
func scenarios(root, list string) ([]string, error) {
	if list != "" {
		data, err := os.ReadFile(filepath.Join(root, list))
		if err != nil {
			return nil, err
		}
		return strings.Fields(string(data)), nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}
