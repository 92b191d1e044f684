package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
)

// bytesCodec sends and receives messages as the bytes they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// culprit is a client that says what it likes.
type culprit struct {
	delta  bool
	stream grpc.ClientStream
}

// answer is what both protocols' responses have in common.
type answer struct {
	url, nonce string
	names      []string
}

func newCulprit(t *testing.T, p *plane, delta bool, o ...grpc.DialOption) *culprit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	conn := dial(t, p.GRPC.String(), o...)
	t.Cleanup(cancel)
	method := "StreamAggregatedResources"
	if delta {
		method = "DeltaAggregatedResources"
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/"+method, grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallSendMsgSize(64<<20), grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	return &culprit{delta, s}
}

// send says a request; the names are those to subscribe to.
func (c *culprit) send(t *testing.T, r *xds.Request) {
	t.Helper()
	if err := c.raw(c.encode(t, r)); err != nil {
		t.Fatal(err)
	}
}

func (c *culprit) encode(t *testing.T, r *xds.Request) []byte {
	t.Helper()
	m := proto.Message(proxy.State(r))
	if c.delta {
		x := *r
		x.Subscribe = r.Names
		m = proxy.Delta(&x)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// raw sends bytes. That the stream has ended is no error: receive tells why.
func (c *culprit) raw(b []byte) error {
	if err := c.stream.SendMsg(b); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (c *culprit) receive() (answer, error) {
	var b []byte
	if err := c.stream.RecvMsg(&b); err != nil {
		return answer{}, err
	}
	var r *proxy.Response
	var err error
	if c.delta {
		m := &discoveryv3.DeltaDiscoveryResponse{}
		if err = proto.Unmarshal(b, m); err == nil {
			r, err = proxy.FromDelta(m)
		}
	} else {
		m := &discoveryv3.DiscoveryResponse{}
		if err = proto.Unmarshal(b, m); err == nil {
			r, err = proxy.FromState(m)
		}
	}
	if err != nil {
		return answer{}, err
	}
	out := answer{url: r.TypeURL, nonce: r.Nonce}
	for n := range r.Resources {
		out.names = append(out.names, n)
	}
	slices.Sort(out.names)
	return out, nil
}

// ask sends a request and returns the next response, which must be of its type.
func (c *culprit) ask(t *testing.T, r *xds.Request) answer {
	t.Helper()
	c.send(t, r)
	a, err := c.receive()
	if err != nil || a.url != r.TypeURL {
		t.Fatalf("%s: %+v, %v", r.TypeURL, a, err)
	}
	return a
}

// skipTo reads until a response of a type comes.
func (c *culprit) skipTo(t *testing.T, url string) answer {
	t.Helper()
	for {
		a, err := c.receive()
		if err != nil {
			t.Fatal(err)
		}
		if a.url == url {
			return a
		}
	}
}

// works fails the test unless the stream still answers.
func (c *culprit) works(t *testing.T) {
	t.Helper()
	if a := c.ask(t, &xds.Request{TypeURL: translate.ListenerType}); len(a.names) == 0 {
		t.Error("no listeners")
	}
}

// endsWith fails the test unless the stream ends with a status.
func (c *culprit) endsWith(t *testing.T, code codes.Code, text string) {
	t.Helper()
	for {
		_, err := c.receive()
		if err == nil {
			continue // sent before
		}
		if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
			t.Errorf("the stream ends with %v, want %v: %s", err, code, text)
		}
		return
	}
}

// streamCase is something bad that a client does. It checks what the client is told.
type streamCase struct {
	name string
	do   func(t *testing.T, p *plane, c *culprit)
}

func metadata(t *testing.T, fields map[string]any) *corev3.Node {
	t.Helper()
	n := goodNode("culprit")
	for k, v := range fields {
		x, err := structpb.NewValue(v)
		if err != nil {
			t.Fatal(err)
		}
		n.Metadata.Fields[k] = x
	}
	return n
}

// firstCases are bad first requests.
func firstCases() []streamCase {
	var out []streamCase
	refused := func(name, text string, node func(t *testing.T) *corev3.Node) {
		out = append(out, streamCase{name, func(t *testing.T, _ *plane, c *culprit) {
			c.send(t, &xds.Request{Node: node(t), TypeURL: translate.ClusterType})
			c.endsWith(t, codes.InvalidArgument, text)
		}})
	}
	id := func(id string) func(*testing.T) *corev3.Node {
		return func(*testing.T) *corev3.Node { n := goodNode("culprit"); n.Id = id; return n }
	}
	fields := func(f map[string]any) func(*testing.T) *corev3.Node {
		return func(t *testing.T) *corev3.Node { return metadata(t, f) }
	}
	refused("no node", "missing node information", func(*testing.T) *corev3.Node { return nil })
	refused("empty node id", "missing node information", id(""))
	refused("node id of three parts", "3 parts", id("sidecar~10.1.1.10~culprit.demo"))
	refused("node of no type", "invalid node type", id("butler~10.1.1.10~culprit.demo~demo.svc"))
	refused("node id of a megabyte", "1000000 parts", id(strings.Repeat("~", 999_999)))
	refused("node without address", "no valid IP address", func(t *testing.T) *corev3.Node {
		n := metadata(t, map[string]any{"INSTANCE_IPS": "nowhere"})
		n.Id = "sidecar~nowhere~culprit.demo~demo.svc"
		return n
	})
	refused("labels are a number", "metadata LABELS: want", fields(map[string]any{"LABELS": 7}))
	refused("namespace is a list", "metadata NAMESPACE: want", fields(map[string]any{"NAMESPACE": []any{"a"}}))
	refused("addresses are an object", "metadata INSTANCE_IPS: want", fields(map[string]any{"INSTANCE_IPS": map[string]any{"a": true}}))
	return append(out,
		streamCase{"no protobuf", func(t *testing.T, _ *plane, c *culprit) {
			if err := c.raw([]byte("\xff\xff\xff garbage")); err != nil {
				t.Fatal(err)
			}
			c.endsWith(t, codes.Internal, "unmarshal")
		}},
		streamCase{"nothing", func(t *testing.T, _ *plane, c *culprit) {
			if err := c.raw(nil); err != nil {
				t.Fatal(err)
			}
			c.endsWith(t, codes.InvalidArgument, "missing node information")
		}},
		streamCase{"unknown metadata", func(t *testing.T, _ *plane, c *culprit) {
			node := metadata(t, map[string]any{"": nil, "NONSENSE": []any{1, "a", map[string]any{"b": nil}}, strings.Repeat("k", 100_000): true})
			if a := c.ask(t, &xds.Request{Node: node, TypeURL: translate.ClusterType}); len(a.names) == 0 {
				t.Error("no clusters")
			}
		}},
	)
}

// laterCases begin with a good first request for clusters.
func laterCases() []streamCase {
	after := func(name string, do func(t *testing.T, p *plane, c *culprit, first answer)) streamCase {
		return streamCase{name, func(t *testing.T, p *plane, c *culprit) {
			first := c.ask(t, &xds.Request{Node: goodNode("culprit"), TypeURL: translate.ClusterType})
			do(t, p, c, first)
		}}
	}
	return []streamCase{
		after("unknown type", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			if a := c.ask(t, &xds.Request{TypeURL: "type.googleapis.com/none.Such"}); len(a.names) != 0 {
				t.Errorf("answered with %v", a.names)
			}
			c.works(t)
		}),
		after("long type", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			c.send(t, &xds.Request{TypeURL: strings.Repeat("x", 10_000)})
			c.endsWith(t, codes.InvalidArgument, "type URL too long")
		}),
		after("too many types", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			for i := range 100 {
				c.send(t, &xds.Request{TypeURL: fmt.Sprint("type.googleapis.com/none.", i)})
			}
			c.endsWith(t, codes.ResourceExhausted, "too many resource names or types")
		}),
		after("wrong nonce", func(t *testing.T, p *plane, c *culprit, _ answer) {
			c.stale(t, p, &xds.Request{TypeURL: translate.ClusterType, Nonce: "wrong"}, "cds")
			c.works(t)
		}),
		after("stale nonce", func(t *testing.T, p *plane, c *culprit, _ answer) {
			r := &xds.Request{TypeURL: translate.EndpointType, Names: []string{"outbound|80||s0.demo.svc.cluster.local"}}
			a := c.ask(t, r)
			r.Nonce, r.Names = a.nonce, append(r.Names, "outbound|80||s2.demo.svc.cluster.local")
			if b := c.ask(t, r); b.nonce == a.nonce {
				t.Error("two responses with one nonce")
			}
			r.Nonce = a.nonce
			c.stale(t, p, r, "eds")
			c.works(t)
		}),
		after("rejects what it never watched", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			for _, url := range []string{translate.RouteType, translate.ListenerType, "type.googleapis.com/none.Such", ""} {
				c.send(t, &xds.Request{TypeURL: url, Nonce: "x", Error: &rpcstatus.Status{Code: -7, Message: strings.Repeat("no ", 10_000)}})
			}
			c.works(t)
		}),
		after("rejects clusters", func(t *testing.T, p *plane, c *culprit, a answer) {
			const name = `pilot_total_xds_rejects{type="cds"}`
			before := p.metric(t, name)
			c.send(t, &xds.Request{TypeURL: translate.ClusterType, Nonce: a.nonce, Error: &rpcstatus.Status{Code: 13, Message: "no\x00"}})
			c.send(t, &xds.Request{TypeURL: translate.ListenerType})
			c.skipTo(t, translate.ListenerType) // clusters may come apart, to find the culprit among them
			if n := p.metric(t, name); n != before+1 {
				t.Errorf("%s went from %v to %v", name, before, n)
			}
		}),
		after("4 MiB", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			c.send(t, &xds.Request{TypeURL: translate.EndpointType, Names: []string{strings.Repeat("n", 4<<20)}})
			c.endsWith(t, codes.ResourceExhausted, "received message larger than max")
		}),
		after("30,000 names", func(t *testing.T, p *plane, c *culprit, _ answer) {
			c.send(t, &xds.Request{TypeURL: translate.EndpointType, Names: manyNames("", 30_000)})
			start := time.Now()
			p.unharmed(t)
			t.Log("meanwhile a change took", time.Since(start).Round(time.Millisecond))
			if a := c.skipTo(t, translate.EndpointType); len(a.names) != 30_000 { // what the change made of other types may come first
				t.Errorf("answered with %d names", len(a.names))
			}
			c.works(t)
		}),
		after("too many names", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			c.send(t, &xds.Request{TypeURL: translate.EndpointType, Names: manyNames("", 200_001)})
			c.endsWith(t, codes.ResourceExhausted, "too many resource names or types")
		}),
		after("strange names", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			for _, url := range []string{translate.EndpointType, translate.RouteType, translate.SecretType, translate.ExtensionType} {
				c.send(t, &xds.Request{TypeURL: url, Names: []string{"\x00", "outbound|80||s0.demo.svc.cluster.local\x00", "outbound|||", "|", "*", strings.Repeat("a", 100_000)}})
			}
			c.send(t, &xds.Request{TypeURL: translate.ListenerType})
			c.skipTo(t, translate.ListenerType)
		}),
		after("name that is no text", func(t *testing.T, _ *plane, c *culprit, _ answer) {
			b := c.encode(t, &xds.Request{TypeURL: translate.EndpointType, Names: []string{"bad?"}})
			if err := c.raw([]byte(strings.Replace(string(b), "bad?", "bad\xff", 1))); err != nil {
				t.Fatal(err)
			}
			c.endsWith(t, codes.Internal, "UTF-8")
		}),
		after("another node", func(t *testing.T, p *plane, c *culprit, _ answer) {
			c.send(t, &xds.Request{Node: goodNode("impostor"), TypeURL: translate.ListenerType})
			if a, err := c.receive(); err != nil || a.url != translate.ListenerType {
				t.Errorf("%+v, %v", a, err)
			}
			if list := p.streams(t); !slices.Contains(list, "culprit.demo") || slices.Contains(list, "impostor.demo") {
				t.Errorf("connected are %v", list)
			}
		}),
	}
}

func manyNames(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, "n", i)
	}
	return out
}

// stale sends a request whose nonce is not the last one sent, and waits until it is counted.
func (c *culprit) stale(t *testing.T, p *plane, r *xds.Request, short string) {
	t.Helper()
	name := fmt.Sprintf("pilot_xds_expired_nonce{type=%q}", short)
	before := p.metric(t, name)
	c.send(t, r)
	harness.Eventually(t, patience, func(context.Context) error {
		if n := p.metric(t, name); n != before+1 {
			return fmt.Errorf("%s went from %v to %v", name, before, n)
		}
		return nil
	})
}

// TestBadStreams has clients do bad things, one after the other, in both protocols.
func TestBadStreams(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	for _, delta := range []bool{true, false} {
		for _, c := range slices.Concat(firstCases(), laterCases(), lastingCases(delta)) {
			name := "state/" + c.name
			if delta {
				name = "delta/" + c.name
			}
			t.Run(name, func(t *testing.T) {
				start := time.Now()
				c.do(t, p, newCulprit(t, p, delta, grpc.WithInitialWindowSize(64<<10)))
				p.unharmed(t)
				t.Log("took", time.Since(start).Round(time.Millisecond))
			})
			harness.Eventually(t, patience, func(context.Context) error {
				if list := p.streams(t); !slices.Equal(list, []string{"delta.demo", "state.demo"}) {
					return fmt.Errorf("connected are %v", list)
				}
				return nil
			})
		}
	}
}
