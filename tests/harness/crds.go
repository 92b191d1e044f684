package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// CRDs names a set of custom resource definitions by the files of a Go module that hold it, so that the tree needs no
// copy of them.
type CRDs struct {
	Module string // module path, in this module's build list
	Glob   string // files, relative to the module's root
}

// IstioCRDs are Istio's own kinds, as istiod's charts install them.
func IstioCRDs() CRDs {
	return CRDs{Module: "istio.io/api", Glob: "kubernetes/customresourcedefinitions.gen.yaml"}
}

// GatewayCRDs are the Gateway API's kinds of the standard channel.
func GatewayCRDs() CRDs {
	return CRDs{Module: "sigs.k8s.io/gateway-api", Glob: "config/crd/standard/*.yaml"}
}

// ExperimentalGatewayCRDs are the Gateway API's kinds of the experimental channel.
func ExperimentalGatewayCRDs() CRDs {
	return CRDs{Module: "sigs.k8s.io/gateway-api", Glob: "config/crd/experimental/*.yaml"}
}

// Objects reads the set's definitions; what else the files hold (the standard channel has an admission policy) is
// left out.
func (c CRDs) Objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	dir, err := moduleDir(ctx, c.Module)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(c.Glob)))
	if err != nil {
		return nil, fmt.Errorf("listing %s of %s: %w", c.Glob, c.Module, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("module %s has no files %s", c.Module, c.Glob)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		read, err := readObjects(file)
		if err != nil {
			return nil, fmt.Errorf("reading CRDs of %s: %w", c.Module, err)
		}
		objects = append(objects, read...)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "CustomResourceDefinition"
	}), nil
}

// moduleDir returns the directory of a module's source, which go downloads if it is not there.
func moduleDir(ctx context.Context, module string) (string, error) {
	if _, err := goCommand(ctx, "mod", "download", module); err != nil {
		return "", err
	}
	dir, err := goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", module)
	if err == nil && dir == "" {
		err = fmt.Errorf("go knows no directory of the module %s", module)
	}
	return dir, err
}

// goCommand runs go in this module and returns what it prints.
func goCommand(ctx context.Context, args ...string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// readObjects decodes a file of YAML documents.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 64<<10)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", filepath.Base(file), err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// Install creates the CRDs and returns when the server serves them all. Those that exist stay as they are.
func (s *APIServer) Install(ctx context.Context, sets ...CRDs) error {
	client, err := dynamic.NewForConfigAndClient(s.config, s.httpClient)
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	crds := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	wanted := map[string]bool{}
	for _, set := range sets {
		objects, err := set.Objects(ctx)
		if err != nil {
			return err
		}
		for _, o := range objects {
			wanted[o.GetName()] = true
			if _, err := crds.Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("installing the CRD %s: %w", o.GetName(), err)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return Poll(ctx, func(ctx context.Context) error {
		list, err := crds.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing CRDs: %w", err)
		}
		for i := range list.Items {
			if name := list.Items[i].GetName(); wanted[name] && !established(&list.Items[i]) {
				return fmt.Errorf("the CRD %s is not served yet", name)
			}
		}
		return nil
	})
}

// established says whether the server serves a CRD.
func established(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
}
