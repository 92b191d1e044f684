package differential

import (
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
)

// stream runs a proxy against a session of an engine, in the test's own time and order.
type stream struct {
	member
	delta   bool
	plane   *plane
	proxy   *proxy.Proxy
	names   *xds.NameSets
	bodies  *xds.Bodies
	timing  xds.Timing
	now     time.Time
	session *xds.Session
	client  *xds.Client
	nonces  int
	log     func(format string, args ...any)
}

// connect begins a stream.
func (s *stream) connect() error {
	if s.client != nil {
		s.client.Close()
	}
	parsed, err := view.ParseNode(s.node, view.NodeDefaults{})
	if err != nil {
		return err
	}
	parsed.Delta = s.delta
	if s.client, err = s.plane.engine.Attach(parsed, func() {}); err != nil {
		return err
	}
	s.session = xds.NewSession(xds.SessionConfig{
		Delta: s.delta, Serves: s.plane.engine.Publisher().Serves, Names: s.names, Bodies: s.bodies, Timing: s.timing,
		Nonce: func() string { s.nonces++; return fmt.Sprint("/", s.nonces) },
	})
	s.proxy.Connect()
	s.log("%s connects", s)
	s.publish()
	return nil
}

// String names the stream in the log.
func (s *stream) String() string {
	if s.delta {
		return s.name + " delta"
	}
	return s.name + " sotw"
}

// publish hands the session what the engine has published, once everything asked of that is done.
func (s *stream) publish() {
	<-s.plane.engine.Settled()
	s.session.Publish(s.now, s.client.Published())
}

// request sends the request that is due for a type.
func (s *stream) request(url string) error {
	r := s.proxy.Request(url)
	s.log("%s %s: request nonce %q names %v subscribe %v unsubscribe %v initial %v", s, short(url), r.Nonce, r.Names, r.Subscribe, r.Unsubscribe, r.Initial)
	eff := s.session.Request(s.now, r)
	if eff.Err != nil {
		return fmt.Errorf("%s: the stream was closed: %w", s, eff.Err)
	}
	if eff.Stale {
		return fmt.Errorf("%s %s: the nonce %q was called stale", s, short(url), r.Nonce)
	}
	for _, u := range eff.Use {
		s.client.Use(u)
	}
	for _, d := range eff.Demand {
		s.client.Demand(d.TypeURL, d.Names)
	}
	if len(eff.Use)+len(eff.Demand) > 0 {
		s.publish()
	}
	return nil
}

// receive takes every response that may be sent now.
func (s *stream) receive() (n int, wake time.Time, err error) {
	for {
		r, wake := s.session.Next(s.now)
		if r == nil {
			return n, wake, nil
		}
		if n++; n > 1000 {
			return n, wake, fmt.Errorf("%s: responses without end", s)
		}
		m, err := decode(s.delta, r)
		if err != nil {
			return n, wake, fmt.Errorf("%s: %w", s, err)
		}
		s.log("%s %s: response %q with %d resources, removed %v", s, short(m.TypeURL), m.Nonce, len(m.Resources), m.Removed)
		if err := s.proxy.Receive(m); err != nil {
			return n, wake, fmt.Errorf("%s: %w", s, err)
		}
	}
}

func short(url string) string {
	for i := len(url) - 1; i >= 0; i-- {
		if url[i] == '.' {
			return url[i+1:]
		}
	}
	return url
}

func decode(delta bool, r *xds.Response) (*proxy.Response, error) {
	buffers := r.Buffers()
	b := buffers.Materialize()
	if delta {
		m := &discoveryv3.DeltaDiscoveryResponse{}
		if err := proto.Unmarshal(b, m); err != nil {
			return nil, err
		}
		return proxy.FromDelta(m)
	}
	m := &discoveryv3.DiscoveryResponse{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, err
	}
	return proxy.FromState(m)
}

// settle lets the proxy answer everything, and time pass, until nothing more is due. It returns how much time passed.
func (s *stream) settle() (time.Duration, error) {
	start := s.now
	s.publish()
	for range 2000 {
		n, wake, err := s.receive()
		if err != nil {
			return 0, err
		}
		pending := s.proxy.Pending()
		for _, url := range pending {
			if err := s.request(url); err != nil {
				return 0, err
			}
		}
		switch {
		case n+len(pending) > 0:
		case wake.IsZero():
			return s.now.Sub(start), nil
		default:
			s.now = wake
		}
	}
	return 0, fmt.Errorf("%s: does not come to rest", s)
}
