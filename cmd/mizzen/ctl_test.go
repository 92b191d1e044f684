package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The manifests and the node that the offline control plane's own tests use.
const (
	shopDir  = "../../pilot/offline/testdata/shop"
	shopNode = "../../pilot/offline/testdata/client.json"
)

// run runs a command line in this process.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	c := root(func(string) (string, bool) { return "", false })
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&problems)
	err = c.ExecuteContext(t.Context())
	return out.String(), problems.String(), err
}

func TestTranslateOutputs(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"json": `"name": "outbound|80|v1|web.shop.svc.cluster.local"`, "yaml": "- name: outbound|80|v1|web.shop.svc.cluster.local",
		"envoy-bootstrap": `"static_resources"`,
	} {
		stdout, stderr, err := run(t, "ctl", "translate", "-f", shopDir, "--proxy", shopNode, "-o", output)
		if err != nil || stderr != "" {
			t.Errorf("%s: %v, stderr %q", output, err, stderr)
		}
		if !strings.Contains(stdout, want) {
			t.Errorf("%s: the output lacks %s", output, want)
		}
		if output != "yaml" && !json.Valid([]byte(stdout)) {
			t.Errorf("%s: the output is no JSON", output)
		}
	}
}

func TestTranslateReportsMistakesAndGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shopDir)); err != nil {
		t.Fatal(err)
	}
	bad := "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: bad, namespace: shop}\nspec:\n  egress: [{hosts: ['nohost']}]\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := run(t, "ctl", "translate", "-f", dir, "--proxy", shopNode)
	if err != nil || !strings.Contains(stdout, "virtualOutbound") {
		t.Errorf("no output: %v", err)
	}
	if !strings.Contains(stderr, "bad.yaml:5: Sidecar/shop/bad: ") {
		t.Errorf("stderr is %q", stderr)
	}
}

func TestTranslateErrors(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"-f is required":           {"--proxy", shopNode},
		"--proxy is required":      {"-f", shopDir},
		"opening the directory":    {"-f", filepath.Join(shopDir, "none"), "--proxy", shopNode},
		"reading the proxy's node": {"-f", shopDir, "--proxy", shopDir + ".none"},
		"want json, yaml":          {"-f", shopDir, "--proxy", shopNode, "-o", "xml"},
		"reading the mesh":         {"-f", shopDir, "--proxy", shopNode, "--mesh-config", "none"},
		"reading the node":         {"-f", shopDir, "--proxy", filepath.Join(shopDir, "mesh.yaml")},
	} {
		stdout, _, err := run(t, append([]string{"ctl", "translate"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || stdout != "" {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}
