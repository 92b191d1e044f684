package cases

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
)

// list is a file of testdata.
type list struct {
	// Spec is the file of the specification.
	Spec string `json:"spec"`
	// Cases and Traps are how many the specification numbers.
	Cases int `json:"cases"`
	Traps int `json:"traps"`
	// Covered are, by number ("case 3", "trap 4"), tests of other packages: "dir.TestX" or, of an archive in testdata,
	// "dir.TestX/archive"; several separated by blanks.
	Covered map[string]string `json:"covered"`
	// Skipped are the reasons of those that nothing is to test yet, by number.
	Skipped map[string]string `json:"skipped"`
	Tests   []*acceptance     `json:"tests"`
}

// acceptance is one case.
type acceptance struct {
	// Of are the numbers it is for.
	Of    []string       `json:"of"`
	Title string         `json:"title"`
	Mesh  map[string]any `json:"mesh"`
	// Networks are the mesh networks.
	Networks map[string]any    `json:"networks"`
	Env      map[string]string `json:"env"`
	// Objects are manifests, a template of the functions of macros. Each object is younger than the one before.
	Objects string `json:"objects"`
	// Envoy says that a real one shall look at what the first proxy gets.
	Envoy bool `json:"envoy"`
	// Edit are manifests that come later, new ones or in place of others; Changes say what becomes of them.
	Edit string `json:"edit"`
	ask
	// Also are further proxies.
	Also []ask `json:"also"`
}

// ask is one proxy.
type ask struct {
	Node proxy `json:"node"`
	// Targets are what a gRPC library asks for; none means every port of every service.
	Targets []string `json:"targets"`
	// Names are further names that the proxy asks for: "rds/NAME".
	Names []string `json:"names"`
	// Verified says that it proved its identity.
	Verified bool `json:"verified"`
	// Expect are the claims, one a line; see claim.
	Expect string `json:"expect"`
	// Changes are all the resources, TYPE/NAME, that the edit makes, changes or takes away.
	Changes []string `json:"changes"`
}

func readList(t *testing.T, path string) *list {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &list{}
	if err := yaml.UnmarshalStrict(text, l); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return l
}

// eachList runs f for each list.
func eachList(t *testing.T, f func(t *testing.T, l *list)) {
	t.Helper()
	fixture.EachFile(t, "testdata/*.yaml", func(t *testing.T, path string) { f(t, readList(t, path)) })
}

// TestCases runs every case.
func TestCases(t *testing.T) {
	t.Parallel()
	eachList(t, func(t *testing.T, l *list) {
		for _, c := range l.Tests {
			t.Run(strings.Join(c.Of, ",")+" "+c.Title, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	})
}

func (c *acceptance) run(t *testing.T) {
	t.Helper()
	plane := c.start(t, false)
	var edited *offline.Plane
	if c.Edit != "" {
		edited = c.start(t, true)
	}
	for _, a := range append([]ask{c.ask}, c.Also...) {
		claims := claimsOf(t, a.Expect)
		if len(claims) == 0 && (edited == nil || a.Changes == nil) {
			t.Fatal("a case that claims nothing")
		}
		got := a.get(t, plane)
		for _, k := range claims {
			if why := k.check(got); why != "" {
				t.Errorf("%s\n  %s", k.text, why)
			}
		}
		if edited == nil {
			continue
		}
		if changed := differences(got, a.get(t, edited)); !slices.Equal(changed, a.Changes) {
			t.Errorf("%s.%s: %q change, want %q", a.Node.Name, a.Node.Namespace, changed, a.Changes)
		}
	}
}

// differences returns what is not the same in both, sorted.
func differences(x, y map[string]map[string]any) []string {
	out := []string{}
	for kind := range x {
		all := maps.Clone(x[kind])
		maps.Copy(all, y[kind])
		for name := range all {
			if !reflect.DeepEqual(x[kind][name], y[kind][name]) {
				out = append(out, kind+"/"+name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// start starts a control plane on the case's input.
func (c *acceptance) start(t *testing.T, edited bool) *offline.Plane {
	t.Helper()
	settings, errs := server.ParseSettings(func(k string) (string, bool) { v, ok := c.Env[k]; return v, ok })
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	objects := decode(t, c.Objects, nil)
	if edited {
		objects = decode(t, c.Edit, objects)
	}
	mesh, err := c.mesh()
	if err != nil {
		t.Fatal(err)
	}
	plane, err := offline.Start(settings, mesh, objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	return plane
}

// decode reads manifests, which come after others or in place of them.
func decode(t *testing.T, manifests string, before []*model.Object) []*model.Object {
	t.Helper()
	text, err := expand(manifests)
	if err != nil {
		t.Fatal(err)
	}
	objects, problems := file.Decode("objects", text)
	for _, p := range problems {
		t.Fatalf("objects:%d: %s\n%s", p.Line, p.Message, text)
	}
	out := slices.Clone(before)
	for _, o := range objects {
		same := slices.IndexFunc(before, func(x *model.Object) bool { return x.ObjectKey == o.ObjectKey })
		if same >= 0 {
			o.Created, out[same] = before[same].Created, o
			continue
		}
		o.Created = time.Unix(int64(len(out))+1, 0)
		out = append(out, o)
	}
	return out
}

func (c *acceptance) mesh() (*model.Mesh, error) {
	var text, networks []byte
	var err error
	if c.Mesh != nil {
		if text, err = yaml.Marshal(c.Mesh); err != nil {
			return nil, err
		}
	}
	mesh, err := meshconfig.Parse(text)
	if err != nil || c.Networks == nil {
		return mesh, err
	}
	if networks, err = yaml.Marshal(map[string]any{"networks": c.Networks}); err != nil {
		return nil, err
	}
	parsed, err := meshconfig.ParseNetworks(networks)
	if err != nil {
		return nil, err
	}
	return meshconfig.New(mesh.Config, parsed), nil
}

// get returns what the proxy gets, by short type and name, as JSON values.
func (a *ask) get(t *testing.T, plane *offline.Plane) map[string]map[string]any {
	t.Helper()
	node, err := a.Node.node()
	if err != nil {
		t.Fatal(err)
	}
	s := plane.SubscriptionOf(node, a.Targets)
	s.Verified = a.Verified
	if s.Names == nil {
		s.Names = map[string][]string{}
	}
	urls := typeURLs()
	for _, n := range a.Names {
		kind, name, _ := strings.Cut(n, "/")
		s.Names[urls[kind]] = append(s.Names[urls[kind]], name)
	}
	got, err := plane.Ask(node, s)
	if err != nil {
		t.Fatal(err)
	}
	return values(t, got)
}

// TestEveryNumberIsAccountedFor checks that no number of a list is forgotten or accounted for twice in different ways.
func TestEveryNumberIsAccountedFor(t *testing.T) {
	t.Parallel()
	eachList(t, func(t *testing.T, l *list) {
		seen := map[string]string{}
		for _, c := range l.Tests {
			for _, n := range c.Of {
				seen[n] = "case"
			}
		}
		for what, rows := range map[string]map[string]string{"covered": l.Covered, "skipped": l.Skipped} {
			for n, text := range rows {
				if strings.TrimSpace(text) == "" {
					t.Errorf("%s is %s without saying by what or why", n, what)
				}
				if seen[n] != "" {
					t.Errorf("%s is %s and a %s", n, what, seen[n])
				}
				seen[n] = what
			}
		}
		for kind, count := range map[string]int{"case": l.Cases, "trap": l.Traps} {
			for i := range count {
				n := kind + " " + strconv.Itoa(i+1)
				if seen[n] == "" {
					t.Errorf("%s of %s is forgotten", n, l.Spec)
				}
				delete(seen, n)
			}
		}
		for n := range seen {
			t.Errorf("%s is not in %s", n, l.Spec)
		}
	})
}

// TestCoveringTestsExist checks that the tests exist that rows name.
func TestCoveringTestsExist(t *testing.T) {
	t.Parallel()
	eachList(t, func(t *testing.T, l *list) {
		for n, names := range l.Covered {
			for _, name := range strings.Fields(names) {
				dir, test, _ := strings.Cut(name, ".")
				test, archive, part := strings.Cut(test, "/")
				dir = filepath.Join("..", "..", filepath.FromSlash(dir))
				if !hasTest(t, dir, test) || part && !hasArchive(t, dir, archive) {
					t.Errorf("%s is covered by %s, which does not exist", n, name)
				}
			}
		}
	})
}

func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(test, "Test") && bytes.Contains(text, []byte("\nfunc "+test+"(")) {
			return true
		}
	}
	return false
}

func hasArchive(t *testing.T, dir, name string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "testdata", "*", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// TestListsAreThoseOfTheSpecifications compares the numbers with the specifications, where these are to be had.
func TestListsAreThoseOfTheSpecifications(t *testing.T) {
	t.Parallel()
	root := os.Getenv("MIZZEN_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	numbered := regexp.MustCompile(`(?m)^(\d+)\. `)
	eachList(t, func(t *testing.T, l *list) {
		text, err := os.ReadFile(filepath.Join(root, "spec", l.Spec))
		if err != nil {
			t.Skip("no specifications: MIZZEN_SHARED names no folder with spec/")
		}
		for heading, want := range map[string]int{"## Traps\n": l.Traps, "## Acceptance cases\n": l.Cases} {
			_, section, _ := strings.Cut(string(text), heading)
			section, _, _ = strings.Cut(section, "\n## ")
			if got := len(numbered.FindAllString(section, -1)); got != want {
				t.Errorf("%s has %d numbers under %q, the list %d", l.Spec, got, strings.TrimSpace(heading), want)
			}
		}
	})
}
