package simulate

import (
	"fmt"
	"strings"
)

// Stage says what of a proxy a step is about.
type Stage string

// The stages, in the order of the walk.
const (
	StageListener Stage = "listener"
	StageInspect  Stage = "inspection"
	StageChain    Stage = "filter chain"
	StageNetwork  Stage = "network filter"
	StageHost     Stage = "virtual host"
	StageRoute    Stage = "route"
	StageHTTP     Stage = "HTTP filter"
	StageAction   Stage = "action"
	StageCluster  Stage = "cluster"
	StageEndpoint Stage = "endpoints"
)

// Step is one decision.
type Step struct {
	Stage Stage `json:"stage"`
	// Name is that of the resource or part: a listener's, a filter's.
	Name string `json:"name"`
	// Text says what was decided.
	Text string `json:"text,omitempty"`
	// Because names the users' objects that decided it, as far as they are known.
	Because []string `json:"becauseOf,omitempty"`
}

// Kind says how a walk ended.
type Kind string

// The ends.
const (
	// Forwarded requests leave the proxy for one of the Destinations.
	Forwarded Kind = "forwarded"
	// Answered requests get a response of the proxy's own.
	Answered Kind = "answered"
	// Denied requests are refused by a policy: with a status, or for TCP by closing the connection.
	Denied Kind = "denied"
	// Reset connections are closed: nothing is there for them.
	Reset Kind = "reset"
)

// Outcome is how a walk ended.
type Outcome struct {
	Kind Kind `json:"kind"`
	// Status is that of an answer; 0 where there is none.
	Status int `json:"status,omitempty"`
	// Reason says why, and By names what denied or answered.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Location is where a redirect leads.
	Location string `json:"location,omitempty"`
	// Destinations are where the request may go, and Mirrors where copies go.
	Destinations []Destination `json:"destinations,omitempty"`
	Mirrors      []Destination `json:"mirrors,omitempty"`
	// Request is the request as it leaves the proxy.
	Request Request `json:"-"`
}

// Destination is one cluster.
type Destination struct {
	Cluster string `json:"cluster"`
	// Weight is the share among the destinations, in percent.
	Weight float64 `json:"weight"`
	// Problem says why nothing can be sent there; empty if something can.
	Problem string `json:"problem,omitempty"`
	// Protocol is what the proxy speaks there.
	Protocol Protocol `json:"protocol,omitempty"`
	// Endpoints are all that the cluster has, also those that get nothing.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is one member of a cluster.
type Endpoint struct {
	Address  string `json:"address"`
	Priority uint32 `json:"priority"`
	Locality string `json:"locality,omitempty"`
	Health   string `json:"health,omitempty"`
	Weight   uint32 `json:"weight"`
	// Share is how much of the cluster's load goes there, in percent.
	Share float64 `json:"share"`
	// Transport is how the proxy speaks to it.
	Transport Transport `json:"transport"`
}

// Transport is the encryption of a connection from a proxy.
type Transport struct {
	// Mode is "plaintext", "TLS", or "mTLS" where the client has a certificate.
	Mode       string   `json:"mode"`
	ServerName string   `json:"serverName,omitempty"`
	ALPN       []string `json:"alpn,omitempty"`
}

// The modes of a Transport.
const (
	Plaintext = "plaintext"
	SimpleTLS = "TLS"
	MutualTLS = "mTLS"
)

// Trace is what happened to a request.
type Trace struct {
	Steps   []Step  `json:"steps"`
	Outcome Outcome `json:"outcome"`
}

// Reached returns the addresses of the endpoints that may get the request.
func (o *Outcome) Reached() []string {
	var out []string
	for _, d := range o.Destinations {
		for _, e := range d.Endpoints {
			if e.Share > 0 {
				out = append(out, e.Address)
			}
		}
	}
	return out
}

// String says in a line how a walk ended.
func (o Outcome) String() string {
	text := string(o.Kind)
	if o.Status != 0 {
		text += fmt.Sprintf(" with status %d", o.Status)
	}
	if o.Location != "" {
		text += " to " + o.Location
	}
	if o.By != "" {
		text += " by " + o.By
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// String says what there is to know of an endpoint but its address and share.
func (e Endpoint) String() string {
	parts := []string{e.Transport.Mode}
	if e.Health != "" {
		parts = append(parts, strings.ToLower(e.Health))
	}
	parts = append(parts, fmt.Sprintf("priority %d", e.Priority))
	if e.Locality != "" {
		parts = append(parts, e.Locality)
	}
	return strings.Join(parts, ", ")
}
