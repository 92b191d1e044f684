package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Reply is what came back for a request.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Echo   Echo // filled if an HTTPBackend answered
	Took   time.Duration
}

// Request is a request to send.
type Request struct {
	Method string // empty means GET
	URL    string
	Host   string // the authority, if not the URL's
	Header http.Header
	Body   string
}

// Client sends requests, over kept connections unless told otherwise.
type Client struct {
	http http.Client
}

// ClientOptions chooses how a client speaks. The zero value is HTTP/1.1 over kept connections.
type ClientOptions struct {
	HTTP2          bool // HTTP/2 without TLS, prior knowledge
	NewConnections bool // one connection a request
	Timeout        time.Duration
}

// NewClient makes a client; a zero timeout means 10 s.
func NewClient(opts ClientOptions) *Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!opts.HTTP2)
	protocols.SetUnencryptedHTTP2(opts.HTTP2)
	transport := &http.Transport{
		Protocols: protocols, DisableKeepAlives: opts.NewConnections, DisableCompression: true, MaxIdleConnsPerHost: 256,
	}
	if opts.Timeout == 0 {
		opts.Timeout = 10 * time.Second
	}
	return &Client{http: http.Client{Transport: transport, Timeout: opts.Timeout, CheckRedirect: keepRedirect}}
}

// keepRedirect hands redirects to the caller.
func keepRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Do sends a request. Any status is a reply; only a request without one is an error.
func (c *Client) Do(ctx context.Context, r Request) (*Reply, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("making a request to %s: %w", r.URL, err)
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Host = r.Host
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err // names the method and the URL
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the reply of %s: %w", r.URL, err)
	}
	reply := &Reply{Status: resp.StatusCode, Header: resp.Header, Body: string(body), Took: time.Since(start)}
	if resp.Header.Get("Content-Type") == "application/json" {
		// Something else that answers JSON leaves Echo.Backend empty.
		_ = json.Unmarshal(body, &reply.Echo)
	}
	return reply, nil
}

// Get sends a GET for the URL with the host as authority.
func (c *Client) Get(ctx context.Context, url, host string) (*Reply, error) {
	return c.Do(ctx, Request{URL: url, Host: host})
}

// Close ends the kept connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
