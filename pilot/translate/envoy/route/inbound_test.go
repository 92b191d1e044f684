package route

import (
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func TestInbound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, "")
	for name, c := range map[string]struct {
		port      InboundPort
		operation string
		domain    string
		retried   bool
	}{
		"HTTP":        {InboundPort{Host: "a.x", Port: 80, Protocol: model.HTTP}, "a.x:80/*", "*", true},
		"gRPC":        {InboundPort{Host: "a.x", Port: 81, Protocol: model.GRPC}, "a.x:81/*", "*", false},
		"dynamic":     {InboundPort{Host: "*.x", Port: 80, Protocol: model.HTTP, Dynamic: true}, "*.x:80/*", "*.x", true},
		"passthrough": {InboundPort{}, ":0/*", "*", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Inbound(w.context(client{namespace: "x"}), "inbound|8080||", c.port)
			checkConfiguration(t, got)
			h := got.GetVirtualHosts()[0]
			r := h.GetRoutes()[0]
			if h.GetDomains()[0] != c.domain || r.GetDecorator().GetOperation() != c.operation ||
				(r.GetRoute().GetRetryPolicy() != nil) != c.retried || r.GetRoute().GetCluster() != "inbound|8080||" {
				t.Errorf("got %v", got)
			}
		})
	}
}
