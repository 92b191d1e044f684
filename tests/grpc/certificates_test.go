package grpc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// certificates are the files that an agent keeps for a workload.
type certificates struct{ chain, key, roots string }

// issue writes the files of a workload that runs as an account of the test's namespace.
func issue(t *testing.T, a *harness.Authority, account string) *certificates {
	t.Helper()
	chain, key := a.Issue(t, "spiffe://cluster.local/ns/"+namespace+"/sa/"+account)
	dir := t.TempDir()
	out := &certificates{filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "root-cert.pem")}
	for path, text := range map[string][]byte{out.chain: chain, out.key: key, out.roots: a.Roots()} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
