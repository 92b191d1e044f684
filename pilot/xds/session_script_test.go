package xds

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
)

// TestScripts runs the scenarios of testdata/session. Each is a script and the transcript it gives; UPDATE_GOLDEN=1
// writes the transcripts anew. The commands are in script.run.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/session/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var source, want string
			for _, f := range a.Files {
				switch f.Name {
				case "script":
					source = string(f.Data)
				case "want":
					want = string(f.Data)
				}
			}
			got := newScript(t).runAll(source)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				a.Files = []txtar.File{{Name: "script", Data: []byte(source)}, {Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil { //nolint:gosec // test data
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("transcript differs (UPDATE_GOLDEN=1 accepts it)\n--- got\n%s--- want\n%s", got, want)
			}
		})
	}
}

type script struct {
	t       *testing.T
	world   *fakeWorld
	delta   bool
	byName  bool
	auto    bool // publish as soon as something is demanded
	session *Session
	now     time.Time
	sent    map[string]string   // type URL to the last nonce
	names   map[string][]string // state of the world: last names
	out     strings.Builder
}

func newScript(t *testing.T) *script {
	s := &script{t: t, delta: true, auto: true, now: epoch}
	s.reset()
	return s
}

func (s *script) reset() {
	if s.world == nil {
		s.world = newFakeWorld()
	}
	s.world.demand, s.world.uses = map[string]Names{}, map[string]bool{}
	s.session = newTestSession(s.delta, s.world, DefaultTiming())
	s.session.cfg.ByName = s.byName
	for _, slot := range s.world.slots {
		if listed(slot.slot.TypeURL) {
			slot.named = s.byName
		}
	}
	s.sent, s.names = map[string]string{}, map[string][]string{}
}

func (s *script) runAll(source string) string {
	for i, line := range strings.Split(source, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&s.out, "%s\n", line)
		if err := s.run(fields(line)); err != nil {
			s.t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
	}
	return s.out.String()
}

// fields splits at spaces outside double quotes.
func fields(line string) []string {
	var out []string
	var cur strings.Builder
	quoted := false
	for _, r := range line {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			if cur.Len() > 0 {
				out = append(out, cur.String())
				cur.Reset()
			}
		default:
			cur.WriteRune(r)
		}
	}
	if cur.Len() > 0 {
		out = append(out, cur.String())
	}
	return out
}

// run executes one command:
//
//	protocol delta|sotw [grpc]     a new stream; the world stays; of a client that asks for clusters and listeners by name
//	auto on|off                    whether demands are published at once (on)
//	set TYPE NAME=CONTENT[@C,C]…   makes resources; C are the clusters they lead to
//	del TYPE NAME…                 takes resources away
//	fill TYPE PREFIX N             makes N resources
//	publish                        publishes the world
//	miss                           the same while the stream is busy: the session sees the next one only
//	request TYPE [sub=a,b] [unsub=a] [init=a:CONTENT,…] [names=a,b] [version=v] [nonce=last|TEXT] [error=TEXT]
//	ack TYPE [sub=…] [names=…]     a request with the last nonce
//	nack TYPE TEXT                 the same with an error; a single quote stands for a double one
//	advance DURATION
//	status | rejections
func (s *script) run(f []string) error {
	switch f[0] {
	case "protocol":
		s.delta, s.byName = f[1] == "delta", len(f) > 2
		s.reset()
		return nil
	case "auto":
		s.auto = f[1] == "on"
		return nil
	case "set", "del", "fill":
		return s.edit(f)
	case "miss":
		s.world.publish()
	case "publish":
		s.session.Publish(s.now, s.world.publish())
	case "request":
		return s.request(f[1], f[2:])
	case "ack":
		return s.request(f[1], append([]string{"nonce=last"}, f[2:]...))
	case "nack":
		return s.request(f[1], []string{"nonce=last", "error=" + f[2]})
	case "advance":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		s.now = s.now.Add(d)
	case "status":
		for _, t := range s.session.Status() {
			fmt.Fprintf(&s.out, "  %s %s sent=%s acked=%s error=%q\n", shortType(t.TypeURL), t.Status, t.Sent, t.Acked, t.Error)
		}
		return nil
	case "rejections":
		for _, r := range s.session.Rejections() {
			fmt.Fprintf(&s.out, "  %s %s %q from %v\n", shortType(r.TypeURL), r.Resource, r.Message, r.Origin().Rows)
		}
		return nil
	default:
		return fmt.Errorf("unknown command")
	}
	s.responses()
	return nil
}

func (s *script) edit(f []string) error {
	url := fakeTypes[f[1]]
	if f[0] == "fill" {
		n, err := strconv.Atoi(f[3])
		for i := range n {
			name := fmt.Sprintf("%s%03d", f[2], i)
			s.world.set(url, name, fakeResource(url, name, "1"))
		}
		return err
	}
	for _, arg := range f[2:] {
		if f[0] == "del" {
			s.world.set(url, arg, nil)
			continue
		}
		name, content, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("want NAME=CONTENT")
		}
		content, clusters, has := strings.Cut(content, "@")
		r := fakeResource(url, name, content)
		if has {
			r.Clusters = strings.Split(clusters, ",")
		}
		s.world.set(url, name, r)
	}
	return nil
}

func (s *script) request(typ string, args []string) error {
	url, ok := fakeTypes[typ]
	if !ok {
		url = typ
	}
	r := &Request{TypeURL: url, Names: s.names[url]}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		list := strings.Split(v, ",")
		if v == "" {
			list = nil
		}
		switch k {
		case "sub":
			r.Subscribe = list
		case "unsub":
			r.Unsubscribe = list
		case "names":
			r.Names = list
			s.names[url] = list
		case "version":
			r.Version = v
		case "init":
			r.Initial = map[string]string{}
			for _, p := range list {
				name, content, _ := strings.Cut(p, ":")
				r.Initial[name] = fakeResource(url, name, content).Version
			}
		case "nonce":
			r.Nonce = v
			if v == "last" {
				r.Nonce = s.sent[url]
			}
		case "error":
			r.Error = &rpcstatus.Status{Code: 13, Message: strings.ReplaceAll(v, "'", `"`)}
		default:
			return fmt.Errorf("unknown argument %s", k)
		}
	}
	eff := s.session.Request(s.now, r)
	s.effects(eff)
	if s.world.apply(eff) && s.auto {
		s.session.Publish(s.now, s.world.current())
	}
	s.responses()
	return nil
}

func (s *script) effects(eff Effects) {
	var words []string
	if eff.Stale {
		words = append(words, "stale")
	}
	if eff.Rejected {
		words = append(words, "rejected")
	}
	if eff.Err != nil {
		words = append(words, "close: "+eff.Err.Error())
	}
	for _, d := range eff.Demand {
		var names []string
		for n := range d.Names.All() {
			names = append(names, n)
		}
		words = append(words, fmt.Sprintf("demand %s [%s]", shortType(d.TypeURL), abbreviate(names)))
	}
	if len(words) > 0 {
		fmt.Fprintf(&s.out, "  %s\n", strings.Join(words, "; "))
	}
}

func abbreviate(names []string) string {
	if len(names) > 8 {
		return fmt.Sprintf("%s … %s (%d)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, " ")
}

// responses writes what the session sends now.
func (s *script) responses() {
	for {
		r, wake := s.session.Next(s.now)
		if r == nil {
			if !wake.IsZero() {
				fmt.Fprintf(&s.out, "  wake in %s\n", wake.Sub(s.now))
			}
			return
		}
		m := decode(s.t, s.delta, r)
		s.sent[m.typeURL] = m.nonce
		var put []string
		for _, n := range m.order {
			put = append(put, strconv.Quote(n)[1:len(strconv.Quote(n))-1]+"="+m.resources[n])
		}
		fmt.Fprintf(&s.out, "  -> %s %s [%s]", shortType(m.typeURL), m.nonce, abbreviate(put))
		if len(m.removed) > 0 {
			fmt.Fprintf(&s.out, " removed [%s]", abbreviate(m.removed))
		}
		fmt.Fprintln(&s.out)
	}
}
