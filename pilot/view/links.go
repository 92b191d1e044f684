package view

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Links is a set of abilities that a proxy may have or not, by the extensions that its node lists.
type Links uint8

// The abilities.
const (
	// LinksStats counts requests and connections in its access log, with tags that are CEL or state of the connection.
	LinksStats Links = 1 << iota
	// LinksPeerHeaders tells its peers who it is in headers, and reads what they say.
	LinksPeerHeaders
)

func linksOf(extensions []*corev3.Extension) Links {
	all := func(names ...string) bool {
		for _, want := range names {
			if !slices.ContainsFunc(extensions, func(e *corev3.Extension) bool { return e.GetName() == want }) {
				return false
			}
		}
		return true
	}
	var out Links
	// The formatter is built in (envoy.built_in_formatters.cel) or an extension of its own (envoy.formatter.cel).
	if all("envoy.access_loggers.stats", "envoy.filters.network.set_filter_state") &&
		(all("envoy.built_in_formatters.cel") || all("envoy.formatter.cel")) {
		out |= LinksStats
	}
	if all("envoy.filters.http.header_mutation", "envoy.filters.http.header_to_metadata") {
		out |= LinksPeerHeaders
	}
	return out
}

// Links tells whether the proxy has all abilities of l.
func (c *Context) Links(l Links) bool { c.use(PropLinks); return c.view.proxy.Links&l == l }
