package xds

import (
	"errors"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// The types that have rules of their own, beside those of package translate.
const (
	HealthType  = "type.googleapis.com/istio.v1.HealthInformation"
	debugPrefix = "istio.io/debug"
)

// Bounds of what one stream may make the server remember.
const (
	maxNames     = 200_000 // of one type
	maxNameBytes = 16 << 20
	maxTypes     = 64
	maxTypeURL   = 512 // bytes
	maxErrorText = 2048
)

// Timing holds the waits of the push order. Why they exist is in the design's section on what Envoy demands.
type Timing struct {
	// ClusterWait is how long listeners and routes wait for the ACK of the clusters they need.
	ClusterWait time.Duration
	// RemovalDelay is the time between the ACK of routes and the removal of the clusters they no longer use, because
	// Envoy acknowledges before its workers follow. A cluster that is gone stays that long at least, for routes that
	// are changed right after.
	RemovalDelay time.Duration
	// ClusterAck and Ack are how long an unacknowledged response keeps later ones of its type back. Envoy withholds
	// ACKs of clusters while one warms, 15 seconds at most by default.
	ClusterAck, Ack time.Duration
	// Isolate is the time between two searches for the culprit of a rejected response of one type, which send its
	// members apart: a client that rejects everything is not to keep the server busy.
	Isolate time.Duration
	// Reconnect is how long the removals of a reconnecting client's clusters wait for its listeners and routes to be
	// asked for, which Envoy does in the same burst.
	Reconnect time.Duration
}

// DefaultTiming returns the waits used in production.
func DefaultTiming() Timing {
	return Timing{
		ClusterWait: 5 * time.Second, RemovalDelay: time.Second, ClusterAck: 20 * time.Second, Ack: 10 * time.Second,
		Isolate: 500 * time.Millisecond, Reconnect: 50 * time.Millisecond,
	}
}

// SessionConfig is what a session is made with.
type SessionConfig struct {
	// Delta selects the protocol: incremental, else state of the world.
	Delta bool
	// Serves tells whether the engine has resources of a type.
	Serves func(typeURL string) bool
	// ByName is set for clients that ask for clusters and listeners by name and never for all of them, as gRPC clients do.
	ByName bool
	// Names and Bodies are shared by all sessions of a process.
	Names  *NameSets
	Bodies *Bodies
	// Nonce returns a random text that makes a nonce unique.
	Nonce  func() string
	Timing Timing
}

// Request is a DiscoveryRequest or DeltaDiscoveryRequest.
type Request struct {
	TypeURL string
	Node    *corev3.Node
	// Version and Nonce are the last accepted version_info (state of the world only) and response_nonce.
	Version, Nonce string
	// Names are the resource_names of the state of the world, else nil.
	Names []string
	// Subscribe, Unsubscribe and Initial are the changes and initial_resource_versions of a delta request.
	Subscribe, Unsubscribe []string
	Initial                map[string]string
	// Error is the error_detail: the request is a NACK.
	Error *rpcstatus.Status
}

// Demand says which names of a type the session wants from now, in place of what it wanted.
type Demand struct {
	TypeURL string
	Names   *NameSet
}

// Effects are what a request causes beside responses.
type Effects struct {
	// Use are wildcard types that the session watches from now, Demand the names it wants.
	Use    []string
	Demand []Demand
	// Rejected is set for a NACK, Stale for a nonce that is not the last one sent.
	Rejected, Stale bool
	// Err closes the stream.
	Err error
}

// Session is one ADS stream as a state machine: requests, published states and the time go in, responses come out. It
// has no goroutine, lock, clock or I/O and is not safe for concurrent use.
//
// It remembers what the client holds as the published states that it was brought up to, plus the exceptions: names
// whose newest version the client does not hold yet.
type Session struct {
	cfg       SessionConfig
	watches   map[string]*watch
	order     []*watch // in the order of pushes
	published *Published
	seq       uint64 // counts what changes the pending work, for "was it pending before the other"
	unknown   int
	wake      time.Time
	settled   settledMemo
	voided    map[string]struct{} // see sentEarly
}

// NewSession returns the session of a new stream.
func NewSession(cfg SessionConfig) *Session {
	return &Session{cfg: cfg, watches: map[string]*watch{}}
}

// mode says how the names of a type are understood.
type mode uint8

const (
	wildcard mode = iota // everything, unless the client names what it wants
	named                // only what the client names
	followed             // virtual hosts: everything that belongs to the routes the client watches
)

// watch is the state of one type on the stream.
type watch struct {
	url    string
	mode   mode
	served bool
	// byName: the engine is told the names, and has only those.
	byName bool
	// everything is the wildcard of a wildcard type; names are what the client asked for by name.
	everything bool
	names      *NameSet

	// states is what the engine published last; the client holds it but for except. ready is false until the first.
	states []*State
	ready  bool
	except map[string]*exception
	// fresh: nothing was sent yet, everything is owed. claims are the versions that a reconnecting client says it holds.
	fresh     bool
	reconnect bool
	asked     time.Time // when the first request came
	claims    map[string]string
	stuck     []*State // a reconnecting client rejected all of these, and they are not sent again
	holdUntil time.Time
	// answer: a response is owed even if it says nothing new. always: so is one to the next request.
	answer, always bool
	brought        *NameSet            // routes that a reconnecting client says it holds
	routes         map[string]struct{} // followed: routes whose virtual hosts are owed
	empty          []string            // followed: routes to be released because they have none
	left           []string            // followed: virtual hosts of routes that the client has left

	flight *flight
	nonces nonces
	sentAt time.Time
	err    rejection

	quarantine map[string]*Rejection
	isolation
}

// exception is a name of which the client does not hold the newest version.
type exception struct {
	// held is what it holds: nil if nothing, a Resource without bodies if only the version is known.
	held *Resource
	// seq and noted say since when; force sends an equal version too. doubt: the client may hold something else, since
	// it rejected a response and nobody knows which part of it is in force.
	seq   uint64
	noted time.Time
	force bool
	doubt bool
	// waited and settled belong to the removal of clusters.
	waited  bool
	settled time.Time
}

// flight is a response that is not acknowledged yet.
type flight struct {
	nonce string
	at    time.Time
	seq   uint64
	// members are what it carried; if it was not full: everything of states, or what of it is in names.
	members    map[string]member
	full       bool
	states     []*State
	names      *NameSet
	everything bool
	// removal: it only removes.
	removal  bool
	isolated bool
	// empty and left are a watch's of that time.
	empty, left []string
}

// member is one name of a response: what the client held before, perhaps, and what it was sent (nil: the removal).
type member struct {
	before, sent *Resource
	doubt        bool
}

// nonces remembers what was sent and acknowledged.
type nonces struct {
	sent, acked string
	older       [2]string // sent before, for acknowledgements that come late
}

func (n *nonces) send(nonce string) {
	n.older[1], n.older[0] = n.older[0], n.sent
	n.sent = nonce
}

func (n *nonces) late(nonce string) bool {
	for _, o := range n.older {
		if o != "" && o == nonce {
			return true
		}
	}
	return false
}

// pushRank orders the types of one push; others come behind in the order they were asked for.
var pushRank = map[string]int{
	translate.ClusterType: 1, translate.EndpointType: 2, translate.ListenerType: 3, translate.RouteType: 4,
	translate.VirtualHostType: 5, translate.SecretType: 6, translate.ExtensionType: 7, translate.NameTableType: 8,
}

func rank(url string) int {
	if r, ok := pushRank[url]; ok {
		return r
	}
	return 100
}

func (s *Session) modeOf(url string) mode {
	switch url {
	case translate.EndpointType, translate.RouteType, translate.SecretType, translate.ExtensionType:
		return named
	case translate.VirtualHostType:
		if s.cfg.Delta {
			return followed
		}
	}
	return wildcard
}

// byName tells whether the names of a type are asked of the engine one by one.
func (s *Session) byName(url string) bool {
	return s.modeOf(url) == named || s.cfg.ByName && listed(url)
}

// errTooMuch closes a stream that asks to remember more than the bounds allow.
var errTooMuch = status.Error(codes.ResourceExhausted, "too many resource names or types on one stream")

// Request takes a request.
func (s *Session) Request(now time.Time, r *Request) Effects {
	s.seq++
	switch {
	case len(r.TypeURL) > maxTypeURL:
		return Effects{Err: status.Error(codes.InvalidArgument, "type URL too long")}
	case r.TypeURL == HealthType:
		return Effects{}
	case strings.HasPrefix(r.TypeURL, debugPrefix):
		return s.debug(r)
	case s.watches[r.TypeURL] == nil && r.Error == nil && len(s.watches) >= maxTypes:
		return Effects{Err: errTooMuch}
	case s.cfg.Delta:
		return s.requestDelta(now, r)
	default:
		return s.requestSotw(now, r)
	}
}

// debug answers a debug type once and empty: nothing serves debug over xDS yet, and an empty answer keeps the stream.
func (s *Session) debug(r *Request) Effects {
	if r.Error != nil || r.Nonce != "" {
		return Effects{}
	}
	w := s.watches[r.TypeURL]
	if w == nil {
		if len(s.watches) >= maxTypes {
			return Effects{Err: errTooMuch}
		}
		w = s.open(r.TypeURL)
	}
	w.answer = true
	return Effects{}
}

// open starts to watch a type.
func (s *Session) open(url string) *watch {
	w := &watch{url: url, mode: s.modeOf(url), served: s.serves(url), byName: s.byName(url), except: map[string]*exception{}}
	if !w.served {
		w.ready = true
	}
	s.watches[url] = w
	i := len(s.order)
	for i > 0 && rank(s.order[i-1].url) > rank(url) {
		i--
	}
	s.order = append(s.order, nil)
	copy(s.order[i+1:], s.order[i:])
	s.order[i] = w
	if s.published != nil {
		s.take(time.Time{}, w)
	}
	return w
}

// serves tells whether the engine has resources of a type for this protocol; virtual hosts exist in delta only.
func (s *Session) serves(url string) bool {
	return s.cfg.Serves(url) && (s.cfg.Delta || url != translate.VirtualHostType)
}

// closeWatch forgets a type.
func (s *Session) closeWatch(w *watch) {
	delete(s.watches, w.url)
	for i, o := range s.order {
		if o == w {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

// Publish takes what may be sent from now.
func (s *Session) Publish(now time.Time, p *Published) {
	if p == nil {
		return
	}
	s.published = p
	s.seq++
	for _, w := range s.order {
		s.take(now, w)
	}
}

// take brings one watch to the published states and notes what the client does not hold.
func (s *Session) take(now time.Time, w *watch) {
	states := s.published.Types[w.url]
	if !w.served || states == nil {
		return
	}
	old, was := w.states, w.ready
	w.states, w.ready = states, true
	if !was || w.fresh && w.nonces.sent == "" {
		return
	}
	for n := range changed(old, states) {
		if w.covers(n) {
			s.note(now, w, n, old)
		}
	}
}

// note compares what the client holds of a name with what it should.
func (s *Session) note(now time.Time, w *watch, name string, old []*State) {
	ex := w.except[name]
	before, _ := lookup(old, name)
	target, known := lookup(w.states, name)
	switch {
	case ex == nil:
		ex = &exception{held: before, seq: s.seq, noted: now}
	case before != nil && target == nil:
		// What led to it is pending since now, not since its last change.
		ex.seq, ex.noted, ex.waited, ex.settled = s.seq, now, false, time.Time{}
	}
	if (known || !w.byName) && ex.holds(target) && !ex.force {
		delete(w.except, name)
		delete(w.quarantine, name)
		return
	}
	w.except[name] = ex
}

// owe makes the session send a name whatever the client holds.
func (s *Session) owe(now time.Time, w *watch, name string) {
	ex := w.except[name]
	if ex == nil {
		held, _ := lookup(w.states, name)
		ex = &exception{held: held, seq: s.seq, noted: now}
		w.except[name] = ex
	}
	ex.force = true
}

// holds tells whether the client surely holds target; with nil, surely nothing.
func (ex *exception) holds(target *Resource) bool {
	if ex.doubt {
		return false
	}
	return ex.held == target || ex.held != nil && target != nil && ex.held.Version == target.Version
}

// covers tells whether the client wants the name.
func (w *watch) covers(name string) bool {
	switch w.mode {
	case named:
		return w.names.Has(name)
	case followed:
		return w.names.Has(routeOf(name))
	default:
		return w.everything || w.names.Has(name)
	}
}

// TypeStatus is the state of one type for people: the words of syncz.
type TypeStatus struct {
	TypeURL     string
	Status      string // SYNCED, STALE, NOT_SENT or ERROR
	Sent, Acked string // nonces
	SentAt      time.Time
	Error       string
	ErrorAt     time.Time
	Names       int // asked for by name
}

// Status returns the state of each watched type, in push order.
func (s *Session) Status() []TypeStatus {
	out := make([]TypeStatus, 0, len(s.order))
	for _, w := range s.order {
		if strings.HasPrefix(w.url, debugPrefix) {
			continue
		}
		t := TypeStatus{
			TypeURL: w.url, Sent: w.nonces.sent, Acked: w.nonces.acked, SentAt: w.sentAt,
			Error: w.err.text, ErrorAt: w.err.at, Names: w.names.Len(),
		}
		switch {
		case w.err.is:
			t.Status = "ERROR"
		case t.Sent == "":
			t.Status = "NOT_SENT"
		case t.Sent == t.Acked:
			t.Status = "SYNCED"
		default:
			t.Status = "STALE"
		}
		out = append(out, t)
	}
	return out
}

var errNoNode = errors.New("missing node information")
