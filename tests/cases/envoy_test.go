package cases

import (
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// TestEnvoyTakesCases has a stock Envoy look at what the proxies get of cases that ask for it, in the stock profile.
func TestEnvoyTakesCases(t *testing.T) {
	t.Parallel()
	harness.NeedTool(t, harness.EnvoyTool)
	eachList(t, func(t *testing.T, l *list) {
		for _, c := range l.Tests {
			if !c.Envoy {
				continue
			}
			t.Run(c.Title, func(t *testing.T) {
				t.Parallel()
				plane := c.start(t, false)
				node, err := c.Node.node()
				if err != nil {
					t.Fatal(err)
				}
				node = offline.Stock(node)
				got, err := plane.Ask(node, plane.SubscriptionOf(node, nil))
				if err != nil {
					t.Fatal(err)
				}
				text, err := got.BootstrapJSON(node)
				if err != nil {
					t.Fatal(err)
				}
				if err := harness.ValidateEnvoy(t, text); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
