package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

const pods = `apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: one
  labels: {app: a, topology.istio.io/network: net}
  annotations: {proxy.istio.io/config: 'proxyMetadata: {ISTIO_META_DNS_CAPTURE: "true", OTHER: x}', sidecar.istio.io/interceptionMode: TPROXY}
spec:
  serviceAccountName: sa
  nodeName: n
  containers: [{name: app, image: app, ports: [{name: web, containerPort: 8080}]}, {name: istio-proxy, image: p, args: [proxy, sidecar], ports: [{name: probe, containerPort: 15021}]}]
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: one}
spec: {containers: [{name: app, image: app}]}
status: {podIP: 10.0.0.2}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: two}
spec: {containers: [{name: app, image: app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: edge, namespace: two}
spec: {containers: [{name: istio-proxy, image: p, args: [proxy, router]}]}
status: {podIP: 10.0.0.9, podIPs: [{ip: 10.0.0.9}]}
`

func podPlane(t *testing.T) *Plane {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pods.yaml"), []byte(pods), 0o600); err != nil {
		t.Fatal(err)
	}
	p, in := startAt(t, dir)
	if len(in.Problems) > 0 {
		t.Fatal(in.Problems)
	}
	return p
}

func TestPodNames(t *testing.T) {
	t.Parallel()
	p := podPlane(t)
	for name, want := range map[string]string{"a": "one/a", "one/a": "one/a", "a.one": "one/a", "two/b": "two/b", "b.two": "two/b"} {
		pod, err := p.Pod(name)
		if err != nil || pod.Namespace+"/"+pod.Name != want {
			t.Errorf("%s: %v, %v", name, pod, err)
		}
	}
	for name, want := range map[string]string{"b": "several namespaces", "c": "no pod", "three/a": "no pod", "a.two": "no pod"} {
		if _, err := p.Pod(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}

func TestNodeOfPod(t *testing.T) {
	t.Parallel()
	p := podPlane(t)
	pod, err := p.Pod("a")
	if err != nil {
		t.Fatal(err)
	}
	n, err := p.NodeOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	if want := "sidecar~10.0.0.1~a.one~one.svc.cluster.local"; n.GetId() != want {
		t.Errorf("the id is %s, want %s", n.GetId(), want)
	}
	fields := n.GetMetadata().GetFields()
	for k, want := range map[string]string{
		"NAMESPACE": "one", "INSTANCE_IPS": "10.0.0.1,fd00::1", "SERVICE_ACCOUNT": "sa", "CLUSTER_ID": "Kubernetes", "NODE_NAME": "n",
		"INTERCEPTION_MODE": "TPROXY", "NETWORK": "net", "DNS_CAPTURE": "true", "OTHER": "",
		"POD_PORTS": `[{"name":"web","containerPort":8080,"protocol":"TCP"}]`,
	} {
		if got := fields[k].GetStringValue(); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
	labels := fields["LABELS"].GetStructValue().GetFields()
	if labels["app"].GetStringValue() != "a" || labels[nameLabel].GetStringValue() != "a" || labels[revisionLabel].GetStringValue() != "latest" {
		t.Errorf("the labels are %v", labels)
	}
	if proxy, err := view.ParseNode(n, view.NodeDefaults{}); err != nil || proxy.PodPorts["web/TCP"] != 8080 {
		t.Errorf("the control plane reads %+v, %v", proxy, err)
	}
}

func TestWhoHasASidecar(t *testing.T) {
	t.Parallel()
	p := podPlane(t)
	for name, want := range map[string]bool{"one/a": true, "one/b": false, "two/edge": false} {
		pod, err := p.Pod(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := HasSidecar(pod); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for from, want := range map[string]string{"two/edge": "is a gateway", "two/b": "has no address"} {
		if _, err := p.Simulate(Call{From: from, To: "http://10.0.0.2/"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", from, err, want)
		}
	}
	s, err := p.Simulate(Call{From: "one/a", To: "http://10.0.0.2:8080/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "one/b has no sidecar") {
		t.Errorf("the notes are %q", s.Notes)
	}
}
