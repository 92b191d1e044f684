package meshconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

func TestBuildKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	in := func(name, config, networks string) Texts {
		x := Texts{Name: name, Config: []byte(config)}
		if networks != "" {
			x.Networks = []byte(networks)
		}
		return x
	}
	good, problems := Build(nil, []Texts{in("a", "trustDomain: one", "networks: {n: {}}")})
	if len(problems) > 0 || good.TrustDomain() != "one" || len(good.Networks.Networks) != 1 {
		t.Fatal(good, problems)
	}
	// One input that breaks: the last good value, for each of the two.
	bad := in("a", "\ntrustDomain: two\nconnectTimeout: 2h\n", "network: {}")
	got, problems := Build(good, []Texts{bad})
	if got.TrustDomain() != "one" || len(got.Networks.Networks) != 1 {
		t.Error("the last good value is gone", got)
	}
	if len(problems) != 2 || problems[0].Field != "network" || problems[1].Line != 3 || problems[1].Code != "invalid" {
		t.Errorf("%+v", problems)
	}
	// At first there is no last good value.
	if got, _ := Build(nil, []Texts{bad}); got.TrustDomain() != "cluster.local" {
		t.Error(got)
	}
	// Of two inputs only the bad one is left out; networks are the first's that has them.
	got, problems = Build(good, []Texts{in("shared", "rootNamespace: root", "networks: {a: {}, b: {}}"), in("base", "nope: 1", "networks: {}")})
	if got.RootNamespace() != "root" || got.TrustDomain() != "cluster.local" || len(got.Networks.Networks) != 2 || len(problems) != 1 {
		t.Error(got, problems)
	}
}

// follow runs a watcher and returns a function that waits for a state.
func follow(t *testing.T, inputs ...Input) (wait func(want string)) {
	t.Helper()
	states := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Watcher{Inputs: inputs}.Run(ctx, func(m *model.Mesh, problems []source.Problem) {
			s := fmt.Sprintf("%s %d", m.TrustDomain(), len(m.Networks.Networks))
			for _, p := range problems {
				s += " !" + p.Code
			}
			states <- s
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return func(want string) {
		t.Helper()
		var seen []string
		deadline := time.After(20 * time.Second)
		for {
			select {
			case s := <-states:
				if seen = append(seen, s); s == want {
					return
				}
			case <-deadline:
				t.Fatalf("want %q, got %q", want, seen)
			}
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := Files{Config: filepath.Join(dir, "mesh"), Networks: filepath.Join(dir, "meshNetworks")}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
	}
	if f.Exist() {
		t.Error("the file is there before it is written")
	}
	wait := follow(t, f)
	wait("cluster.local 0")
	write(f.Config, "trustDomain: one")
	wait("one 0")
	write(f.Networks, "networks: {a: {}}")
	wait("one 1")
	write(f.Config, "trustDomian: two")
	wait("one 1 !field")
	write(f.Config, "trustDomain: two")
	wait("two 1")
	if err := os.Remove(f.Config); err != nil {
		t.Fatal(err)
	}
	wait("two 1 !read")
	write(f.Config, "trustDomain: three")
	wait("three 1")
}

func TestConfigMaps(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := fake.NewClientset()
	maps := client.CoreV1().ConfigMaps("istio-system")
	put := func(name, config string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{ConfigKey: config}}
		if _, err := maps.Update(ctx, cm, metav1.UpdateOptions{}); err == nil {
			return
		}
		if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return maps.List(ctx, o)
		},
		WatchFuncWithContext: maps.Watch,
	}, client)
	put("shared", "trustDomain: shared")
	put("istio", "trustDomain: other-revision")
	wait := follow(t,
		ConfigMap{Source: all, Namespace: "istio-system", Name: "shared"},
		ConfigMap{Source: all, Namespace: "istio-system", Name: BaseName("canary")})
	wait("shared 0")
	put("istio-canary", "trustDomain: mine")
	wait("mine 0")
	put("istio-canary", "trustDomain: [")
	wait("shared 0 !yaml")
	if err := maps.Delete(ctx, "istio-canary", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("shared 0")
	if BaseName("") != "istio" || BaseName("default") != "istio" || !strings.HasSuffix(BaseName("x"), "-x") {
		t.Error(BaseName(""))
	}
}
