package xds

import (
	"fmt"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// benchWorld has n clusters with endpoints, and routes.
func benchWorld(n int) (*fakeWorld, []string) {
	w := newFakeWorld()
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("outbound|80||service-%04d.default.svc.cluster.local", i)
		w.set(translate.ClusterType, names[i], fakeResource(translate.ClusterType, names[i], fmt.Sprintf("%0800d", i)))
		w.set(translate.EndpointType, names[i], fakeResource(translate.EndpointType, names[i], fmt.Sprintf("%0300d", i)))
	}
	w.uses[translate.ClusterType] = true
	w.demand[translate.EndpointType] = NewNameSets().Of(names)
	return w, names
}

type benchShared struct {
	names  *NameSets
	bodies *Bodies
	world  *fakeWorld
}

func (b benchShared) connect(p *Published, names []string) *Session {
	s := NewSession(SessionConfig{
		Delta: true, Serves: b.world.serves, Names: b.names, Bodies: b.bodies, Nonce: randomNonce, Timing: DefaultTiming(),
	})
	s.Publish(epoch, p)
	s.Request(epoch, &Request{TypeURL: translate.ClusterType})
	s.Request(epoch, &Request{TypeURL: translate.EndpointType, Subscribe: names})
	b.drain(s)
	return s
}

func (benchShared) drain(s *Session) {
	for {
		r, _ := s.Next(epoch)
		if r == nil {
			return
		}
		_ = r.Buffers()
		s.Request(epoch, &Request{TypeURL: r.TypeURL, Nonce: r.Nonce})
	}
}

// BenchmarkConnect is one more client of a known class: 1,000 clusters and their endpoints.
func BenchmarkConnect(b *testing.B) {
	w, names := benchWorld(1000)
	shared, p := benchShared{NewNameSets(), NewBodies(), w}, w.publish()
	b.ReportAllocs()
	for b.Loop() {
		shared.connect(p, names)
	}
}

// BenchmarkReconnect is a client that holds everything already.
func BenchmarkReconnect(b *testing.B) {
	w, names := benchWorld(1000)
	shared, p := benchShared{NewNameSets(), NewBodies(), w}, w.publish()
	b.ReportAllocs()
	for b.Loop() {
		initial := map[string]map[string]string{translate.ClusterType: {}, translate.EndpointType: {}}
		for t, m := range initial {
			for _, n := range names {
				m[n] = w.slot(t).want[n].Version
			}
		}
		s := NewSession(SessionConfig{
			Delta: true, Serves: w.serves, Names: shared.names, Bodies: shared.bodies, Nonce: randomNonce, Timing: DefaultTiming(),
		})
		s.Publish(epoch, p)
		for t, m := range initial {
			s.Request(epoch, &Request{TypeURL: t, Initial: m})
		}
		shared.drain(s)
	}
}

// BenchmarkPush is one change of endpoints for one of the sessions of a class.
func BenchmarkPush(b *testing.B) {
	w, names := benchWorld(1000)
	shared := benchShared{NewNameSets(), NewBodies(), w}
	s := shared.connect(w.publish(), names)
	states := make([]*Published, 256)
	for i := range states {
		w.set(translate.EndpointType, names[7], fakeResource(translate.EndpointType, names[7], fmt.Sprint(i)))
		states[i] = w.publish()
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		s.Publish(epoch.Add(time.Duration(i)), states[i%len(states)]) // the wrap costs a comparison of all names
		shared.drain(s)
	}
}
