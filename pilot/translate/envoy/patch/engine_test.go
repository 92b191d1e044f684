package patch

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/listener"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// TestEngineReports checks that a running engine serves the good patches of an EnvoyFilter and reports the bad ones, also
// those that spoil one resource only and those that come with an edit.
func TestEngineReports(t *testing.T) {
	t.Parallel()
	m, err := meshconfig.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := xds.NewEngine(slog.New(slog.DiscardHandler), patchedSlots(), view.DefineScope, listener.Define, route.Define, Define)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go e.Run(ctx.Done())
	builder := model.NewBuilder(model.DefaultSettings(), m)
	commit := func(text string) {
		pc, keys := builder.Apply(fixture.Events(t, []byte(text)), nil)
		done := make(chan struct{})
		if err := e.Commit(pc, keys, "v", func() { close(done) }); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	commit(services)
	proxy := fixture.Proxy(t, []byte(front))
	client, err := e.Attach(proxy, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.Use(translate.ClusterType)
	client.Use(translate.ListenerType)
	<-e.Settled()
	seconds := func() int64 {
		for _, state := range client.Published().Types[translate.ClusterType] {
			for name, r := range state.Items.All() {
				c := &clusterv3.Cluster{}
				if "cds/"+name == cart && proto.Unmarshal(r.Body.Flat(), c) == nil {
					return c.GetConnectTimeout().GetSeconds()
				}
			}
		}
		return 0
	}
	invalid := `{applyTo: CLUSTER, match: {cluster: {service: cart.shop.svc.cluster.local}}, patch: {operation: MERGE, value: {connect_timeout: -1s}}}`
	unread := `{applyTo: LISTENER, patch: {operation: ADD, value: {name: [1]}}}`
	commit(envoyFilter("shop", "ef", "", timeout(4), invalid, unread))
	if n := seconds(); n != 4 {
		t.Errorf("the timeout is %d s, want 4", n)
	}
	var told strings.Builder
	for unit, text := range e.Problems() {
		told.WriteString(unit + ": " + text + "\n")
	}
	for _, want := range []string{"EnvoyFilter/shop/ef configPatches[1]: ", "EnvoyFilter/shop/ef configPatches[2]: left out: "} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%q is not reported in:\n%s", want, told.String())
		}
	}
	commit(envoyFilter("shop", "ef", "", timeout(5)))
	if p := e.Problems(); seconds() != 5 || len(p) != 0 {
		t.Errorf("after the mending: %d s, problems %v", seconds(), p)
	}
}
