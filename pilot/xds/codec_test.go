package xds

import (
	"bytes"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// TestCodecShares: the bytes of resources go out as they are held: every response shares them.
func TestCodecShares(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("x"), 4096)
	rope := wire.Bytes(body)
	res := newResource(translate.ClusterType, "a", rope, rope.Hash())
	r := &Response{TypeURL: translate.ClusterType, Nonce: "n", Version: "v", Removed: []string{"b"}, body: NewBodies().Of(time.Time{}, true, []*Resource{res})}
	out, err := NewCodec().Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	shared := false
	for _, b := range out {
		d := b.ReadOnlyData()
		shared = shared || len(d) > 0 && &d[0] == &res.Wrapped.Segments()[0][0]
	}
	if !shared {
		t.Error("the resource was copied")
	}
	var m discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(out.Materialize(), &m); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: translate.ClusterType, Nonce: "n", SystemVersionInfo: "v", RemovedResources: []string{"b"}, Resources: m.Resources}
	if !proto.Equal(&m, want) || len(m.Resources) != 1 || m.Resources[0].Version != res.Version || !bytes.Equal(m.Resources[0].Resource.Value, body) {
		t.Errorf("got %v", &m)
	}
}

// TestCodecFallback: other messages are plain protobuf.
func TestCodecFallback(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	in := &discoveryv3.DiscoveryRequest{TypeUrl: "t", ResourceNames: []string{"a"}}
	b, err := c.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out discoveryv3.DiscoveryRequest
	if err := c.Unmarshal(b, &out); err != nil || !proto.Equal(in, &out) {
		t.Errorf("%v %v", &out, err)
	}
	if c.Unmarshal(b, &Response{}) == nil {
		t.Error("a Response was decoded")
	}
}

// TestBodies: sessions of one class share a body; what nobody uses goes.
func TestBodies(t *testing.T) {
	t.Parallel()
	w, b := newFakeWorld(), NewBodies()
	w.uses[translate.ClusterType] = true
	for i := range pieceLeast {
		name := string(rune('a' + i))
		w.set(translate.ClusterType, name, fakeResource(translate.ClusterType, name, "1"))
	}
	other := fakeResource(translate.ClusterType, "z", "1")
	w.slots[1].want["z"] = other
	both := w.publish().Types[translate.ClusterType]
	if all := b.Full(epoch, true, both, nil); all.count != pieceLeast+1 || all.size != b.Full(epoch, true, both[:1], nil).size+other.Wrapped.Len() {
		t.Errorf("%d resources, %d bytes", all.count, all.size)
	}
	states := both[:1]
	one := b.Full(epoch, true, states, nil)
	if one != b.Full(epoch, true, states, nil) || one.count != pieceLeast {
		t.Error("not shared")
	}
	if one == b.Full(epoch, false, states, nil) {
		t.Error("both protocols share a body")
	}
	for i := range 3 * bodiesMost {
		w.set(translate.ClusterType, "a", fakeResource(translate.ClusterType, "a", string(rune('b'+i))))
		b.Full(epoch.Add(time.Duration(i)*time.Second), true, w.publish().Types[translate.ClusterType], nil)
	}
	if b.n > int(bodiesIdle/time.Second)+2 {
		t.Errorf("%d bodies held", b.n)
	}
	for i := range 3 * bodiesMost {
		w.set(translate.ClusterType, "a", fakeResource(translate.ClusterType, "a", string(rune('c'+i))))
		b.Full(epoch.Add(time.Hour), true, w.publish().Types[translate.ClusterType], nil)
	}
	if b.n > bodiesMost {
		t.Errorf("%d bodies held", b.n)
	}
}
