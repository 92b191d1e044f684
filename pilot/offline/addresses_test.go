package offline

import (
	"bytes"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	nds "github.com/mizzen-mesh/mizzen/pkg/api/nds"
)

// entries are two TCP services on one port, which addresses alone can tell apart, and one whose manifest brings a status.
const entries = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: one, namespace: shop}
spec: {hosts: [one.example], resolution: DNS, ports: [{number: 5432, name: tcp, protocol: TCP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: shop}
spec: {hosts: [two.example], resolution: DNS, ports: [{number: 5432, name: tcp, protocol: TCP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: kept, namespace: shop}
spec: {hosts: [kept.example], resolution: DNS, ports: [{number: 5432, name: tcp, protocol: TCP}]}
status: {addresses: [{value: 240.240.7.7, host: kept.example}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: without, namespace: shop, labels: {networking.istio.io/enable-autoallocate-ip: "false"}}
spec: {hosts: [off.example], resolution: DNS, ports: [{number: 5433, name: tcp, protocol: TCP}]}
`

// TestDirectoryGivesAddresses wants names and listeners at addresses of their own for ServiceEntries of a directory, the
// same each time it is read, for a proxy that captures DNS.
func TestDirectoryGivesAddresses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "entries.yaml"), []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	node := bytes.Replace(nodeFile(t, "client.json"), []byte(`"metadata": {`), []byte(`"metadata": {"DNS_CAPTURE": "true",`), 1)
	tables := map[string]string{}
	for range 2 {
		p, in := startAt(t, dir)
		if len(in.Problems) > 0 {
			t.Error(in.Problems)
		}
		got := ask(t, p, node)
		table, ok := got[translate.NameTableType][""].Message.(*nds.NameTable)
		if !ok {
			t.Fatalf("no name table among %v", got[translate.NameTableType])
		}
		for _, host := range []string{"one.example", "two.example", "kept.example"} {
			ips := table.GetTable()[host].GetIps()
			if len(ips) != 1 || !netip.MustParsePrefix("240.240.0.0/16").Contains(netip.MustParseAddr(ips[0])) {
				t.Fatalf("%s has %v", host, ips)
			}
			if before := tables[host]; before != "" && before != ips[0] {
				t.Errorf("%s had %s and has %s", host, before, ips[0])
			}
			tables[host] = ips[0]
			r := got[translate.ListenerType][ips[0]+"_5432"]
			if r == nil {
				t.Fatalf("no listener at %s among %v", ips[0], slices.Sorted(maps.Keys(got[translate.ListenerType])))
			}
			l, _ := r.Message.(*listenerv3.Listener)
			if at := l.GetAddress().GetSocketAddress().GetAddress(); at != ips[0] {
				t.Errorf("%s's listener is at %s", host, at)
			}
		}
		if off := table.GetTable()["off.example"].GetIps(); len(off) > 0 {
			t.Errorf("one that wants none has %v", off)
		}
	}
	if tables["kept.example"] != "240.240.7.7" || tables["one.example"] == tables["two.example"] {
		t.Errorf("addresses %v", tables)
	}
	plain := map[string]string{}
	p, _ := startAt(t, dir)
	for name := range ask(t, p, nodeFile(t, "client.json"))[translate.ListenerType] {
		plain[name] = name
	}
	if plain["0.0.0.0_5432"] == "" || plain["240.240.7.7_5432"] != "" {
		t.Errorf("a proxy that does not capture DNS has %v", plain)
	}
}

// TestAddressesAreSettings wants the ranges of the settings, or no addresses at all.
func TestAddressesAreSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "entries.yaml"), []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	narrow, none := model.DefaultSettings(), model.DefaultSettings()
	narrow.Raw = map[string]string{"PILOT_IP_AUTOALLOCATE_IPV4_PREFIX": "10.99.0.0/31"}
	none.EnableIPAutoallocate = false
	in, err := Read(t.Context(), Files{Dir: dir, Settings: narrow})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Problems) != 1 || in.Problems[0].Object.Name != "two" || in.Problems[0].Code != "addresses" {
		t.Errorf("three names, one of them with an address, and one address: %v", in.Problems)
	}
	if in, err = Read(t.Context(), Files{Dir: dir, Settings: none}); err != nil {
		t.Fatal(err)
	}
	for _, o := range in.Objects {
		if o.Name != "kept" && o.Status != nil {
			t.Errorf("%s has %v", o.ObjectKey, o.Status)
		}
	}
}
