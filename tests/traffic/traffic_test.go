package traffic

import (
	"slices"
	"testing"
)

// Every scenario's requests have the outcome that its table says, and that walks say, through Envoys that reject nothing.
func TestTraffic(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	var runs []*run
	for _, s := range slices.Concat(
		matches(), choices(), answers(), changes(), disturbances(), retries(), balance(), stickiness(), failovers(), shares(), pools(), origination(),
		entries(), scopes(), tunnels(), denials(), conditions(), tcpPolicies(), policies(), custom(), customGRPC(), tokens(), filters(),
	) {
		runs = append(runs, prepare(t, m, &s))
	}
	m.start(t, runs)
	t.Run("scenarios", func(t *testing.T) {
		for _, r := range runs {
			t.Run(r.name, r.test)
		}
	})
	m.noRejections(t)
	m.oracle.report(t, runs)
}
