package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Stats returns the counters and gauges whose names match the regular expression.
func (e *Envoy) Stats(ctx context.Context, filter string) (map[string]int64, error) {
	text, err := e.AdminGet(ctx, "/stats?format=json&type=All&filter="+url.QueryEscape(filter))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value *int64 `json:"value"` // absent from histograms
		} `json:"stats"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("reading envoy's stats: %w", err)
	}
	stats := map[string]int64{}
	for _, s := range answer.Stats {
		if s.Value != nil {
			stats[s.Name] = *s.Value
		}
	}
	return stats, nil
}

// Stat returns one counter or gauge; one that does not exist (yet) is 0.
func (e *Envoy) Stat(ctx context.Context, name string) (int64, error) {
	stats, err := e.Stats(ctx, "^"+regexp.QuoteMeta(name)+"$")
	return stats[name], err
}

// Rejections returns the update_rejected counters of all subscriptions (clusters, endpoints, listeners, routes, virtual
// hosts, secrets, extensions) that are not 0. Why Envoy rejected something is in its log, in lines with "rejected".
func (e *Envoy) Rejections(ctx context.Context) (map[string]int64, error) {
	stats, err := e.Stats(ctx, `update_rejected$`)
	if err != nil {
		return nil, err
	}
	for name, n := range stats {
		if n == 0 {
			delete(stats, name)
		}
	}
	return stats, nil
}

// NoRejections returns an error that names what Envoy has rejected and why, or nil.
func (e *Envoy) NoRejections(ctx context.Context) error {
	rejected, err := e.Rejections(ctx)
	if err != nil || len(rejected) == 0 {
		return err
	}
	lines, err := e.Log("rejected")
	if err != nil {
		return err
	}
	return fmt.Errorf("envoy %s rejected updates: %v\n%s", e.opts.NodeID, rejected, strings.Join(lines, "\n"))
}

// ConfigDump returns the configuration in force, with the endpoints too if asked for, as decoded JSON.
func (e *Envoy) ConfigDump(ctx context.Context, endpoints bool) (map[string]any, error) {
	path := "/config_dump"
	if endpoints {
		path += "?include_eds"
	}
	text, err := e.AdminGet(ctx, path)
	if err != nil {
		return nil, err
	}
	var dump map[string]any
	if err := json.Unmarshal(text, &dump); err != nil {
		return nil, fmt.Errorf("reading envoy's configuration dump: %w", err)
	}
	return dump, nil
}

// Listeners returns the address (host:port) that each listener is bound to; listeners that bind none are left out.
func (e *Envoy) Listeners(ctx context.Context) (map[string]string, error) {
	text, err := e.AdminGet(ctx, "/listeners?format=json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("reading envoy's listeners: %w", err)
	}
	addresses := map[string]string{}
	for _, l := range answer.Statuses {
		if l.Address.Socket.Port != 0 {
			addresses[l.Name] = fmt.Sprintf("%s:%d", l.Address.Socket.Address, l.Address.Socket.Port)
		}
	}
	return addresses, nil
}
