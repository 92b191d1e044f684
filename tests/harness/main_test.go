package harness

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// shared is the API server of this package's tests.
var shared = SharedAPIServer{Options: APIServerOptions{CRDs: []CRDs{IstioCRDs(), GatewayCRDs()}}}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
