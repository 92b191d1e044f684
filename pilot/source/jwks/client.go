package jwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
)

const (
	// maxBody bounds an answer, in bytes after decompression.
	maxBody = 1 << 20
	// maxHeader bounds its header, in bytes.
	maxHeader = 64 << 10
	// maxRedirects is how many redirects are followed.
	maxRedirects = 5
)

// client asks for keys. It connects to no address that is not public in the sense of filter.
type client struct {
	http    *http.Client
	timeout time.Duration
}

// newClient returns a client that trusts the system's authorities, and those in extra, PEM.
func newClient(f filter, extra []byte, timeout time.Duration) (*client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(extra) > 0 && !roots.AppendCertsFromPEM(extra) {
		return nil, errors.New("no certificate in the additional authorities for fetching keys")
	}
	dialer := &net.Dialer{Timeout: timeout, Control: f.control}
	return &client{timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			// no proxy: it would connect where this process may not
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    timeout,
			MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives:      true,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: redirect,
	}}, nil
}

func redirect(next *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https":
		return errors.New("a redirect from https to " + next.URL.Scheme)
	case !keyset.Fetchable(next.URL.String()):
		return errors.New("a redirect to what is not of HTTP")
	}
	return nil
}

// fetch returns the keys behind r.
func (c *client) fetch(ctx context.Context, r keyset.Request) (*keyset.Set, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	uri := r.URI
	if r.Discovery {
		body, err := c.get(ctx, uri)
		if err != nil {
			return nil, err
		}
		if uri, err = keyset.ParseDiscovery(body); err != nil {
			return nil, fmt.Errorf("fetch %s: %w", r.URI, err)
		}
	}
	body, err := c.get(ctx, uri)
	if err != nil {
		return nil, err
	}
	set, err := keyset.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", uri, err)
	}
	return set, nil
}

func (c *client) get(ctx context.Context, uri string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", uri, err)
	}
	q.Header.Set("Accept", "application/json")
	a, err := c.http.Do(q)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", uri, err)
	}
	body, err := read(a)
	if e := a.Body.Close(); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", uri, err)
	}
	return body, nil
}

func read(a *http.Response) ([]byte, error) {
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered with status %d", a.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("answered with more than %d bytes", maxBody)
	}
	return body, nil
}

// filter says which addresses may be connected to. Allow wins over what is blocked by default, and Block over all.
type filter struct{ allow, block []netip.Prefix }

// control is called by the dialer with each address that it is about to connect to.
func (f filter) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if f.blocked(at.Addr()) {
		return errors.New("the address may not be connected to")
	}
	return nil
}

func (f filter) blocked(a netip.Addr) bool {
	a = real4(a.WithZone("").Unmap())
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return in(f.block) || !in(f.allow) && byDefault(a)
}

// byDefault tells whether an address is of this machine or its link, where clouds answer with credentials, or of the
// few other places where they do.
func byDefault(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return true
	}
	switch a.String() {
	case "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254":
		return true
	}
	first := a.AsSlice()
	return a.Is4() && (first[0] == 0 || first[0] >= 240)
}

// real4 returns the IPv4 address that an address of the well-known NAT64 prefix stands for.
func real4(a netip.Addr) netip.Addr {
	b := a.As16()
	if !a.Is4() && netip.PrefixFrom(netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b}), 96).Contains(a) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}
