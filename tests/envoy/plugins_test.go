package envoy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// answersStatus fails until a request is answered with that status; 200 wants an answer of the application.
func answersStatus(m *world.Mesh, status int) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := m.Call(ctx)
		switch {
		case status == 200:
			return err
		case err == nil:
			return fmt.Errorf("answered well, want %d", status)
		case !strings.Contains(err.Error(), fmt.Sprint(status)):
			return fmt.Errorf("want %d: %w", status, err)
		}
		return nil
	}
}

func plugin(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: extensions.istio.io/v1alpha1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: %s\n", kind, name, world.Namespace, spec)
}

// Plugins come and go on a stock Envoy without harm to listeners, and each that cannot work does what it says for that.
func TestPlugins(t *testing.T) {
	t.Parallel()
	p, m := small(t, 1, nil)
	harness.Eventually(t, 20*time.Second, answersStatus(m, 200))
	lua := func(code string) string {
		return plugin("TrafficExtension", "script", fmt.Sprintf("{match: [{mode: CLIENT}], lua: {inlineCode: %q}}", code))
	}
	wasm := func(strategy, kind string) string {
		return plugin("WasmPlugin", "module", fmt.Sprintf("{match: [{mode: CLIENT}], url: registry.example/module, failStrategy: %s, type: %s}", strategy, kind))
	}
	respond := func(status int) string {
		return fmt.Sprintf(`function envoy_on_request(h) h:respond({[":status"] = "%d"}, "script") end`, status)
	}
	steps := []struct {
		name, object string
		status       int
	}{
		{"a script that answers", lua(respond(418)), 418},
		{"changed", lua(respond(429)), 429},
		{"one that does not compile leaves the last good one", lua("function ("), 429},
		{"mended", lua(respond(418)), 418},
		{"none", "", 200},
		{"remote code that fails open", wasm("FAIL_OPEN", "HTTP"), 200},
		{"remote code that fails closed", wasm("FAIL_CLOSE", "HTTP"), 403},
		{"none again", "", 200},
		{"one that never compiled", strings.ReplaceAll(lua("function ("), "script", "fresh"), 500},
		{"none at the end", "", 200},
	}
	for _, s := range steps {
		t.Log(s.name)
		before := p.Generation()
		write(t, p.dir, "plugin.yaml", s.object)
		harness.Eventually(t, 20*time.Second, func(context.Context) error {
			if g := p.Generation(); g == before {
				return fmt.Errorf("generation %d still", g)
			}
			return nil
		})
		harness.Eventually(t, 20*time.Second, answersStatus(m, s.status))
	}
	for _, stat := range []string{"listener_manager.lds.update_rejected", "listener_manager.listener_create_failure"} {
		if n, err := m.Caller.Stat(context.Background(), stat); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", stat, n, err)
		}
	}
}
