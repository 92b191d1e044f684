package patch

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"
)

// listenerEditor applies the patches that match one listener, from the outside to the inside.
type listenerEditor struct {
	listener *listenerv3.Listener
	patches  []*patch
	fail     func(*patch, error)
}

func editListener(m proto.Message, patches []*patch, fail func(*patch, error)) proto.Message {
	l, ok := m.(*listenerv3.Listener)
	if !ok {
		return m
	}
	e := &listenerEditor{listener: l, patches: patches, fail: fail}
	if !e.itself() {
		return nil
	}
	if of := e.of(networking.EnvoyFilter_LISTENER_FILTER, nil); len(of) > 0 {
		of = slices.DeleteFunc(of, func(p *patch) bool { return p.merges() && p.listenerFilter() == "" })
		l.ListenerFilters = editFilters(l.ListenerFilters, of, (*patch).listenerFilter, fail)
	}
	l.FilterChains = slices.DeleteFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool { return !e.chain(c) })
	if c := l.DefaultFilterChain; c != nil && !e.chain(c) {
		l.DefaultFilterChain = nil
	}
	for _, p := range e.of(networking.EnvoyFilter_FILTER_CHAIN, nil) {
		if c, ok := p.value.(*listenerv3.FilterChain); ok && p.op == networking.EnvoyFilter_Patch_ADD {
			l.FilterChains = append(l.FilterChains, cloned(c))
		}
	}
	return l
}

// of returns the patches for one kind of thing; in a chain, those that match it.
func (e *listenerEditor) of(to networking.EnvoyFilter_ApplyTo, c *listenerv3.FilterChain) []*patch {
	var out []*patch
	for _, p := range e.patches {
		if p.applyTo == to && p.matchesListener(e.listener) && (c == nil || p.matchesChain(e.listener, c)) {
			out = append(out, p)
		}
	}
	return out
}

// itself applies the patches of the listener as a whole and tells whether it stays.
func (e *listenerEditor) itself() bool {
	for _, p := range e.patches {
		if p.applyTo != networking.EnvoyFilter_LISTENER || !p.matchesListener(e.listener) {
			continue
		}
		switch {
		case p.op == networking.EnvoyFilter_Patch_REMOVE:
			return false
		case p.merges():
			merge(e.listener, p.value, p.replacesLists())
		}
	}
	return true
}

// chain applies the patches of one chain and tells whether it stays.
func (e *listenerEditor) chain(c *listenerv3.FilterChain) bool {
	for _, p := range e.patches {
		if p.applyTo != networking.EnvoyFilter_FILTER_CHAIN || !p.matchesListener(e.listener) || !p.matchesChain(e.listener, c) {
			continue
		}
		switch {
		case p.op == networking.EnvoyFilter_Patch_REMOVE:
			return false
		case p.merges():
			if err := mergeChain(c, p); err != nil {
				e.fail(p, err)
			}
		}
	}
	if of := e.of(networking.EnvoyFilter_NETWORK_FILTER, c); len(of) > 0 {
		c.Filters = editFilters(c.Filters, of, (*patch).networkFilter, e.fail)
	}
	e.httpFilters(c)
	return true
}

func mergeChain(c *listenerv3.FilterChain, p *patch) error {
	src, _ := cloned(p.value).(*listenerv3.FilterChain)
	if socket := src.GetTransportSocket(); socket != nil {
		merged, err := mergeSocket(c.GetTransportSocket(), socket)
		if err != nil {
			return err
		}
		src.TransportSocket, c.TransportSocket = nil, merged
	}
	merge(c, src, p.replacesLists())
	return nil
}

// httpFilters applies patches to the filters of a chain's connection managers.
func (e *listenerEditor) httpFilters(c *listenerv3.FilterChain) {
	of := e.of(networking.EnvoyFilter_HTTP_FILTER, c)
	if len(of) == 0 {
		return
	}
	for _, f := range c.Filters {
		mine := slices.DeleteFunc(slices.Clone(of), func(p *patch) bool {
			return p.networkFilter() != "" && !sameFilter(p.networkFilter(), f.GetName())
		})
		if len(mine) == 0 {
			continue
		}
		err := editManager(f, func(m *hcmv3.HttpConnectionManager) {
			m.HttpFilters = editFilters(m.HttpFilters, mine, (*patch).httpFilter, e.fail)
		})
		if err != nil {
			for _, p := range mine {
				e.fail(p, err)
			}
		}
	}
}

// editManager changes the connection manager that a filter is, if it is one.
func editManager(f *listenerv3.Filter, change func(*hcmv3.HttpConnectionManager)) error {
	m := &hcmv3.HttpConnectionManager{}
	if !f.GetTypedConfig().MessageIs(m) {
		return nil
	}
	if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
		return fmt.Errorf("the filter %q: %w", f.GetName(), err)
	}
	change(m)
	a, err := packed(m)
	if err != nil {
		return fmt.Errorf("the filter %q: %w", f.GetName(), err)
	}
	f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: a}
	return nil
}

// editInlineRoutes applies patches of routes to the configurations that a listener holds itself.
func editInlineRoutes(m proto.Message, patches []*patch, fail func(*patch, error)) proto.Message {
	l, ok := m.(*listenerv3.Listener)
	if !ok {
		return m
	}
	chains := l.GetFilterChains()
	if l.GetDefaultFilterChain() != nil {
		chains = append(slices.Clone(chains), l.GetDefaultFilterChain())
	}
	for _, c := range chains {
		for _, f := range c.GetFilters() {
			err := editManager(f, func(m *hcmv3.HttpConnectionManager) {
				if m.GetRouteConfig() == nil {
					return
				}
				if of := forConfiguration(patches, m.GetRouteConfig().GetName()); len(of) > 0 {
					editRoutes(m.GetRouteConfig(), of, fail)
				}
			})
			if err != nil {
				for _, p := range patches {
					fail(p, err)
				}
			}
		}
	}
	return l
}
