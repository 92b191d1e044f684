package route

import "testing"

// A host that is no name takes no other's domains.
func TestHostsOfSeveralLines(t *testing.T) {
	t.Parallel()
	rule := func(namespace string) string {
		return "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: r, namespace: " + namespace + "}\n" +
			"spec: {hosts: [\"bad\\nhost\"], http: [{directResponse: {status: 200}}]}\n"
	}
	w := newWorld(t, nil, serviceManifest("ns-0", "bad", 80)+rule("ns-1")+rule("ns-2"))
	c := w.rds(client{namespace: "ns-0"}, "80")
	if len(c.GetVirtualHosts()) != 2 || host(c, "bad.ns-0.svc.cluster.local:80") == nil {
		t.Errorf("got %v", c.GetVirtualHosts())
	}
}
