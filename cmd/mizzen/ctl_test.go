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

func TestSimulateText(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := run(t, "ctl", "simulate", "-f", shopDir, "--from", "shop/client", "--to", "http://web/admin/x", "-H", "x-user: jo")
	if err != nil || stderr != "" {
		t.Fatalf("%v, stderr %q", err, stderr)
	}
	for _, want := range []string{
		"note: web is 10.96.0.10, Service/shop/web", "sidecar of shop/client, outbound", "(because of VirtualService/shop/web)",
		"(because of DestinationRule/shop/web, Service/shop/web)", "sidecar of shop/web-1, inbound at 10.1.0.2:8080",
		"ends mutual TLS with spiffe://cluster.local/ns/shop/sa/client",
		"result: 90 % to 10.1.0.2:8080 of shop/web-1, denied with status 403 by AuthorizationPolicy/shop/no-admin",
		"result: 10 % to 10.1.0.3:8080 of shop/web-2, denied with status 403 by AuthorizationPolicy/shop/no-admin",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
}

func TestSimulateJSON(t *testing.T) {
	t.Parallel()
	stdout, _, err := run(t, "ctl", "simulate", "-f", shopDir, "--from", "client", "--to", "http://web/new", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Outbound struct {
			Steps   []struct{ Stage string }
			Outcome struct {
				Kind         string
				Destinations []struct{ Cluster string }
			}
		}
		Inbound []struct{ Pod string }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	o := got.Outbound.Outcome
	if o.Kind != "forwarded" || len(o.Destinations) != 1 || o.Destinations[0].Cluster != "outbound|80|v2|web.shop.svc.cluster.local" {
		t.Errorf("got %+v", o)
	}
	if len(got.Inbound) != 1 || got.Inbound[0].Pod != "shop/web-2" || len(got.Outbound.Steps) == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestSimulateErrors(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--from is required":                 {"--to", "http://web/"},
		"--to is required":                   {"--from", "client"},
		"there are shop/client, shop/web-1":  {"--from", "nobody", "--to", "http://web/"},
		"no service has the host \"nobody\"": {"--from", "client", "--to", "http://nobody/"},
		"want http, https or tcp":            {"--from", "client", "--to", "ftp://web/"},
		"needs a port":                       {"--from", "client", "--to", "tcp://web"},
		"want 'name: value'":                 {"--from", "client", "--to", "http://web/", "-H", "x"},
		"--claims":                           {"--from", "client", "--to", "http://web/", "--claims", "x"},
		"--address":                          {"--from", "client", "--to", "http://web/", "--address", "x"},
		"want text or json":                  {"--from", "client", "--to", "http://web/", "-o", "yaml"},
	} {
		stdout, _, err := run(t, append([]string{"ctl", "simulate", "-f", shopDir}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || stdout != "" {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}

// The page shows what the command prints.
func TestDocumentedOutput(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/offline.md")
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, err := run(t, "ctl", "simulate", "-f", shopDir, "--from", "shop/client", "--to", "http://web/new/internal")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "--to http://web/new/internal\n"+stdout+"```\n") {
		t.Errorf("docs/offline.md shows another output than this:\n%s", stdout)
	}
}
