package envoy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// emptyOf returns an empty message of a type.
func emptyOf(typeURL string) proto.Message {
	switch typeURL {
	case translate.ClusterType:
		return &clusterv3.Cluster{}
	case translate.EndpointType:
		return &endpointv3.ClusterLoadAssignment{}
	case translate.ListenerType:
		return &listenerv3.Listener{}
	case translate.RouteType:
		return &routev3.RouteConfiguration{}
	default:
		return &routev3.VirtualHost{}
	}
}

func badCluster(g *gallery) string { return fmt.Sprintf("outbound|%d||%s", g.ports[bad], exhibit(bad)) }

// faults are one for each type.
func faults() map[string]fault {
	return map[string]fault{
		// A file that the proxy does not have: nobody but the proxy can know.
		"CDS": {typeURL: translate.ClusterType, name: badCluster, change: upgraded(), manifest: func(*gallery) string {
			return destinationRule(bad, "tls: {mode: SIMPLE, caCertificates: /nonexistent/ca.pem}")
		}},
		"EDS": {typeURL: translate.EndpointType, name: badCluster, change: moved(), corrupt: func(m proto.Message) {
			a := m.(*endpointv3.ClusterLoadAssignment).GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress()
			a.GetSocketAddress().Address = "not-an-address"
		}},
		"LDS": {
			typeURL: translate.ListenerType, change: raw(),
			name: func(g *gallery) string { return fmt.Sprintf("127.0.0.1_%d", g.ports[bad]) },
			corrupt: func(m proto.Message) {
				f := m.(*listenerv3.Listener).GetFilterChains()[0].GetFilters()[0]
				f.Name, f.ConfigType = "no.such.filter", &listenerv3.Filter_TypedConfig{TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/no.such.Filter"}}
			},
		},
		"RDS": {
			typeURL: translate.RouteType, change: marked(),
			name:    func(g *gallery) string { return fmt.Sprint(g.ports[bad]) },
			corrupt: func(m proto.Message) { spoilHost(m.(*routev3.RouteConfiguration).GetVirtualHosts()[0]) },
		},
		"VHDS": {
			typeURL: translate.VirtualHostType, change: marked(), sharedPort: true,
			name:    func(g *gallery) string { return fmt.Sprintf("%[1]d~vhds/%[2]s:%[1]d", g.ports[bad], exhibit(bad)) },
			corrupt: func(m proto.Message) { spoilHost(m.(*routev3.VirtualHost)) },
		},
	}
}

// spoilHost gives a virtual host a domain twice, which no check of a single field finds.
func spoilHost(h *routev3.VirtualHost) { h.Domains = append(h.Domains, h.Domains[0]) }

func destinationRule(i int, policy string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: s%02d, namespace: %s}\nspec: {host: %s, trafficPolicy: {%s}}\n",
		i, world.Namespace, exhibit(i), policy)
}

// upgraded makes a cluster speak HTTP/2.
func upgraded() change {
	return change{
		apply: func(t *testing.T, g *gallery, i int) {
			write(t, g.dir, fmt.Sprintf("change%d.yaml", i), destinationRule(i, "connectionPool: {http: {h2UpgradePolicy: UPGRADE}}"))
		},
		shows: func(r *harness.Reply) error {
			if r.Echo.Proto != "HTTP/2.0" {
				return fmt.Errorf("the backend was asked by %s", r.Echo.Proto)
			}
			return nil
		},
	}
}

// moved gives a service another endpoint.
func moved() change {
	return change{
		apply: func(t *testing.T, g *gallery, i int) { write(t, g.dir, fmt.Sprintf("s%02d.yaml", i), g.service(i, 2)) },
		shows: func(r *harness.Reply) error {
			if r.Echo.Backend != answerOf(2, 0) {
				return fmt.Errorf("%s answered", r.Echo.Backend)
			}
			return nil
		},
	}
}

// raw makes a listener proxy bytes instead of requests.
func raw() change {
	return change{
		apply: func(t *testing.T, g *gallery, i int) {
			raws := []int{}
			for _, r := range changed() {
				if raws = append(raws, r); r == i {
					break
				}
			}
			write(t, g.dir, "sidecar.yaml", g.sidecar(raws...))
		},
		shows: func(r *harness.Reply) error {
			if s := r.Header.Get("Server"); s != "" {
				return fmt.Errorf("%s added headers to the response", s)
			}
			return nil
		},
	}
}

// marked makes a route add a header to responses.
func marked() change {
	return change{
		apply: func(t *testing.T, g *gallery, i int) {
			write(t, g.dir, fmt.Sprintf("change%d.yaml", i), fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s%02[1]d, namespace: %[2]s}
spec: {hosts: [%[3]s], http: [{route: [{destination: {host: %[3]s}}], headers: {response: {set: {x-marked: "yes"}}}}]}
`, i, world.Namespace, exhibit(i)))
		},
		shows: func(r *harness.Reply) error {
			if r.Header.Get("X-Marked") != "yes" {
				return fmt.Errorf("the response is not marked")
			}
			return nil
		},
	}
}

// changed are the services that are changed, in turn.
func changed() []int { return []int{3, 11, 20} }

// G3: one resource that Envoy rejects among 52 of its type. The others serve, also when Envoy gets all of them for the
// first time; only the bad one is held back, and named; later changes of the others come into force; and so does the bad
// one when it is mended.
func TestOneBadResourceHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, f := range faults() {
		for _, protocol := range []harness.XDSProtocol{harness.DeltaXDS, harness.SotWXDS} {
			if f.typeURL == translate.VirtualHostType && protocol == harness.SotWXDS {
				continue // virtual hosts exist in delta only
			}
			t.Run(name+"/"+string(protocol), func(t *testing.T) {
				t.Parallel()
				g := newGallery(t, f, protocol)
				ready := time.Now()
				t.Cleanup(g.client.Close)
				harness.Eventually(t, 20*time.Second, g.serves(false))
				t.Logf("all good ones serve %v after Envoy is ready", time.Since(ready).Round(time.Millisecond))
				if _, err := g.get(context.Background(), bad); err == nil {
					t.Error("the bad one serves: it is not bad")
				}
				l := harness.NewLoad(t, harness.LoadOptions{Rate: 200}, g.rotate())
				g.badThenMended(t, f, changed()[0])
				g.badThenMended(t, f, changed()[1:]...)
				r := l.Stop()
				t.Log(r)
				if r.Failed > 0 || r.Sent == 0 {
					t.Errorf("%d of %d requests to good services failed", r.Failed, r.Sent)
				}
			})
		}
	}
}

// badThenMended begins with the bad resource, sees it held back while others are changed, and mends it. With two
// changes it makes it bad first, as an update: then what Envoy had before goes on.
func (g *gallery) badThenMended(t *testing.T, f fault, changes ...int) {
	t.Helper()
	if len(changes) > 1 {
		g.set(t, f, true)
	}
	name := f.name(g)
	harness.Eventually(t, 15*time.Second, g.quarantined(f.typeURL, name))
	rejects := g.rejects(t)
	if rejects == 0 {
		t.Error("no metric counts the rejection")
	}
	for _, i := range changes {
		f.change.apply(t, g, i)
		harness.Eventually(t, 15*time.Second, func(ctx context.Context) error {
			r, err := g.get(ctx, i)
			if err != nil {
				return err
			}
			return f.change.shows(r)
		})
	}
	if err := g.quarantined(f.typeURL, name)(context.Background()); err != nil {
		t.Error(err)
	}
	if n := g.rejects(t); n != rejects {
		t.Errorf("Envoy rejected %d more responses: the bad resource is not held back", n-rejects)
	}
	if len(changes) > 1 {
		if _, err := g.get(context.Background(), bad); err != nil {
			t.Errorf("the version before the bad one is lost: %v", err)
		}
	}
	g.set(t, f, false)
	harness.Eventually(t, 15*time.Second, g.quarantined(f.typeURL, ""))
	harness.Eventually(t, 15*time.Second, g.serves(true))
}

// rejects is how many responses were rejected, by the control plane's metric.
func (g *gallery) rejects(t *testing.T) int {
	t.Helper()
	total := 0
	for line := range strings.Lines(g.plane.get("/metrics")) {
		if !strings.HasPrefix(line, "pilot_total_xds_rejects{") {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// rotate calls the good services in turn.
func (g *gallery) rotate() harness.Call {
	next := make(chan int, exhibits)
	for i := range exhibits {
		if i != bad {
			next <- i
		}
	}
	return func(ctx context.Context) (string, error) {
		i := <-next
		next <- i
		r, err := g.get(ctx, i)
		if err != nil {
			return "", err
		}
		return r.Echo.Backend, nil
	}
}
