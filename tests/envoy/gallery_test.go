package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// Numbers of a gallery's services: how many, which one is bad, and which ones are changed while it is.
const (
	exhibits = 52
	bad      = 7
)

// gallery is a caller with a sidecar and many like services, each with a cluster, endpoints, a listener and a route
// configuration of its own; with one port for all they share listener and route configuration, and have virtual hosts
// of their own.
type gallery struct {
	dir    string
	ports  []int
	app    int
	plane  *plane
	caller *harness.Envoy
	client *harness.Client
}

// fault makes the bad service's resource of one type one that Envoy rejects, although it passes our validation.
type fault struct {
	typeURL string
	name    func(g *gallery) string
	// manifest is what a user writes for it. Where no legal input leads to such a resource, corrupt makes one of a good
	// one instead.
	manifest func(g *gallery) string
	corrupt  func(proto.Message)
	// sharedPort: one port for all services.
	sharedPort bool
	change     change
}

// change alters one good service's resource of the type, and says how that shows.
type change struct {
	apply func(t *testing.T, g *gallery, i int)
	shows func(*harness.Reply) error
}

// newGallery starts a gallery whose bad service is bad from the start.
func newGallery(t *testing.T, f fault, protocol harness.XDSProtocol) *gallery {
	t.Helper()
	harness.NeedTool(t, harness.EnvoyTool)
	g := &gallery{dir: t.TempDir(), client: harness.NewClient(harness.ClientOptions{NewConnections: true})}
	p, err := world.NewPorts()
	if err != nil {
		t.Fatal(err)
	}
	g.app = p.App
	for w := 1; w <= 2; w++ {
		harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: answerOf(w, 0), Listen: net.JoinHostPort(world.VersionIP(w), strconv.Itoa(g.app))})
	}
	for i := range exhibits {
		if i == 0 || !f.sharedPort {
			g.ports = append(g.ports, harness.NewPort(t).Number())
			continue
		}
		g.ports = append(g.ports, g.ports[0])
	}
	for i := range exhibits {
		write(t, g.dir, fmt.Sprintf("s%02d.yaml", i), g.service(i, 1))
	}
	write(t, g.dir, "sidecar.yaml", g.sidecar())
	g.set(t, f, true)
	g.plane = startPlane(t, g.dir, "127.0.0.1:0", func(s *model.Settings) {
		if f.sharedPort {
			s.VHDS = model.VHDSOn
		}
	}, corrupted(f, g))
	g.caller = callerEnvoy(t, g.plane.GRPC.String(), protocol)
	return g
}

// corruptLabel on the namespace makes the bad resource of a fault without a manifest.
const corruptLabel = "corrupt"

// set makes the fault or mends it.
func (g *gallery) set(t *testing.T, f fault, on bool) {
	t.Helper()
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s: '%v'}}\n", world.Namespace, corruptLabel, on && f.manifest == nil)
	if on && f.manifest != nil {
		manifest += "---\n" + f.manifest(g)
	}
	write(t, g.dir, "fault.yaml", manifest)
}

// corrupted wraps the slots of the fault's type: while the label says so, the bad resource is spoiled.
func corrupted(f fault, g *gallery) func([]*translate.Slot) []*translate.Slot {
	return func(slots []*translate.Slot) []*translate.Slot {
		if f.corrupt == nil {
			return slots
		}
		out := make([]*translate.Slot, len(slots))
		for i, s := range slots {
			out[i] = s
			if s.TypeURL != f.typeURL {
				continue
			}
			spoiled := *s
			spoiled.Build = func(c *view.Context, unit any) ([]*translate.Message, error) {
				messages, err := s.Build(c, unit)
				if labels, _ := c.Namespace(world.Namespace); err != nil || labels[corruptLabel] != "true" {
					return messages, err
				}
				return spoil(f, f.name(g), messages)
			}
			out[i] = &spoiled
		}
		return out
	}
}

// spoil returns messages with the one of that name corrupted.
func spoil(f fault, name string, messages []*translate.Message) ([]*translate.Message, error) {
	out := make([]*translate.Message, len(messages))
	for i, m := range messages {
		out[i] = m
		if m.Name != name {
			continue
		}
		body, err := translate.Encode(m)
		if err != nil {
			return nil, err
		}
		p := emptyOf(f.typeURL)
		if err := proto.Unmarshal(body.Flat(), p); err != nil {
			return nil, err
		}
		f.corrupt(p)
		out[i] = &translate.Message{Name: name, Proto: p}
	}
	return out, nil
}

func exhibit(i int) string { return fmt.Sprintf("s%02d.example", i) }

// service is the i-th service with one endpoint.
func (g *gallery) service(i, workload int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%02[1]d, namespace: %[2]s}
spec:
  hosts: [%[3]s]
  resolution: STATIC
  ports: [{number: %[4]d, name: http, protocol: HTTP}]
  endpoints: [{address: %[5]s, ports: {http: %[6]d}}]
`, i, world.Namespace, exhibit(i), g.ports[i], world.VersionIP(workload), g.app)
}

// sidecar is the caller's: a listener for each port, those of raw services without HTTP.
func (g *gallery) sidecar(raw ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: caller, namespace: %s}
spec:
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
`, world.Namespace)
	for i, p := range g.ports {
		if i > 0 && p == g.ports[i-1] {
			break
		}
		protocol := "HTTP"
		for _, r := range raw {
			if r == i {
				protocol = "TCP"
			}
		}
		fmt.Fprintf(&b, "  - {port: {number: %d, protocol: %s, name: http}, bind: 127.0.0.1, captureMode: NONE, hosts: ['./*']}\n", p, protocol)
	}
	return b.String()
}

// get calls the i-th service.
func (g *gallery) get(ctx context.Context, i int) (*harness.Reply, error) {
	r, err := g.client.Get(ctx, "http://127.0.0.1:"+strconv.Itoa(g.ports[i])+"/", exhibit(i))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", exhibit(i), err)
	}
	if r.Status != 200 {
		return nil, fmt.Errorf("%s: status %d: %.100s", exhibit(i), r.Status, r.Body)
	}
	return r, nil
}

// serves fails until every good service answers, and the bad one too if it is to.
func (g *gallery) serves(badToo bool) func(context.Context) error {
	return func(ctx context.Context) error {
		for i := range exhibits {
			if i == bad && !badToo {
				continue
			}
			if _, err := g.get(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// held is a resource in the list of those that proxies rejected.
type held struct {
	Type, Resource, Message string
	Objects                 []string
}

// quarantined fails until what is held back is exactly the named resource of the type, or nothing for an empty name.
func (g *gallery) quarantined(typeURL, name string) func(context.Context) error {
	return func(context.Context) error {
		var status struct{ Rejected map[string][]held }
		if err := json.Unmarshal([]byte(g.plane.get("/debug/push_status")), &status); err != nil {
			return err
		}
		var all []held
		for _, list := range status.Rejected {
			all = append(all, list...)
		}
		if name == "" && len(all) == 0 {
			return nil
		}
		if len(all) == 1 && all[0].Type == typeURL && all[0].Resource == name && all[0].Message != "" {
			return g.blamed(typeURL, all[0].Objects)
		}
		return fmt.Errorf("held back is %v, want %q", all, name)
	}
}

// blamed fails unless the bad service, whose resource is held back, is among the objects that the resource is made from,
// or for a listener, which knows no services, the Sidecar that asks for it. A cluster and its endpoints are made from no
// other service.
func (g *gallery) blamed(typeURL string, objects []string) error {
	culprit := fmt.Sprintf("ServiceEntry/%s/s%02d", world.Namespace, bad)
	if typeURL == translate.ListenerType {
		culprit = "Sidecar/" + world.Namespace + "/caller"
	}
	others := slices.DeleteFunc(slices.Clone(objects), func(o string) bool { return o == culprit || !strings.HasPrefix(o, "ServiceEntry/") })
	single := typeURL == translate.ClusterType || typeURL == translate.EndpointType
	if !slices.Contains(objects, culprit) || single && len(others) > 0 {
		return fmt.Errorf("%s is said to be made from %v, want %s", typeURL, objects, culprit)
	}
	return nil
}
