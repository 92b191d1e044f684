package offline

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/simulate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// tlsBackend serves TLS with a certificate of that name and returns its port.
func tlsBackend(t *testing.T, name string) int {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				var b [1]byte
				_, _ = c.Read(b[:]) // shakes hands
			}()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// peerName returns the name in the certificate that a server shows; empty if it closes the connection.
func peerName(ctx context.Context, address, serverName string) (string, error) {
	//nolint:gosec // whoever answers is asked for his name only
	d := tls.Dialer{Config: &tls.Config{ServerName: serverName, InsecureSkipVerify: true}}
	c, err := d.DialContext(ctx, "tcp", address)
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "dial" {
		return "", err
	}
	if err != nil {
		return "", nil // closed
	}
	defer func() { _ = c.Close() }()
	secure, ok := c.(*tls.Conn)
	if !ok {
		return "", errors.New("no TLS connection")
	}
	return secure.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// By server names, the walk leads where a real Envoy leads, or nowhere.
func TestWalksAgreeWithEnvoyOnServerNames(t *testing.T) {
	t.Parallel()
	out := harness.NewPort(t)
	backends, replace := map[string]string{}, []string{"$OUT", strconv.Itoa(out.Number())}
	for _, name := range []string{"ONE", "TWO", "THREE"} {
		n := tlsBackend(t, name)
		backends["127.0.0.1:"+strconv.Itoa(n)] = name
		replace = append(replace, "$"+name, strconv.Itoa(n))
	}
	text, err := os.ReadFile(filepath.Join("testdata", "names.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	p, input := startAt(t, dir)
	if len(input.Problems) > 0 {
		t.Fatal(input.Problems)
	}
	w := startTwins(t, p, "client", out.Number(), backends)
	address := "127.0.0.1:" + strconv.Itoa(out.Number())
	harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		_, err := peerName(ctx, address, "b.example.com")
		return err
	})
	reached := map[string]int{}
	for _, serverName := range []string{
		"a.example.com", "A.Example.COM", "b.example.com", "c.b.example.com", "a.deep.example.com", "b.deep.example.com", "deep.example.com", "example.com",
		"two.example.org", "three.example.org", "x.three.example.org", "nobody.example.net",
	} {
		got, err := peerName(t.Context(), address, serverName)
		if err != nil {
			t.Fatal(err)
		}
		to := netip.MustParseAddrPort(address)
		o := simulate.Walk(w.resources, simulate.Request{Source: netip.AddrPortFrom(to.Addr(), 1), Destination: to, TLS: true, ServerName: serverName}).Outcome
		var names []string
		for _, a := range o.Reached() {
			names = append(names, backends[a])
		}
		reached[got]++
		if got == "" && o.Kind != simulate.Reset || got != "" && !slices.Contains(names, got) {
			t.Errorf("%s: envoy leads to %q, the walk to %v: %s", serverName, got, names, o)
		}
	}
	if len(reached) < 4 {
		t.Errorf("the names lead to %v only", reached)
	}
	t.Log(reached)
}
