package server

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mizzen-mesh/mizzen/pilot/source/jwks"
)

const (
	varRemoteKeys  = "PILOT_JWT_ENABLE_REMOTE_JWKS"
	varKeyRefresh  = "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL"
	varKeysBlocked = "BLOCKED_CIDRS_IN_JWKS_URIS"
	varKeysAllowed = "MIZZEN_JWKS_ALLOWED_CIDRS"
	// extraAuthorities are authorities that issuers are trusted by besides the system's, where the installation mounts
	// them.
	extraAuthorities = "/cacerts/extra.pem"
)

// keyVariables are those about the keys for tokens.
func keyVariables() []Variable {
	ranges := func(v string) error { _, err := addressRanges(v); return err }
	return []Variable{
		raw(varRemoteKeys, "false", "compatible", "who fetches keys for tokens: the control plane (false, istiod); proxies if the host is a service (true, hybrid) or always (envoy)", func(v string) error {
			if !slices.Contains([]string{"false", "istiod", "true", "hybrid", "envoy"}, v) {
				return fmt.Errorf("%q is not false, istiod, true, hybrid or envoy", v)
			}
			return nil
		}),
		raw(varKeyRefresh, "20m", "compatible", "how often keys for tokens are fetched anew", func(v string) error {
			if d, err := time.ParseDuration(v); err != nil || d <= 0 {
				return fmt.Errorf("%q is not a duration above 0", v)
			}
			return nil
		}),
		raw(varKeysBlocked, "", "compatible", "ranges of addresses, by commas, where keys for tokens are never fetched", ranges),
		raw(varKeysAllowed, "", "experimental", "ranges of addresses of this machine, its link or a cloud's metadata, by commas, where keys may be fetched nevertheless", ranges),
	}
}

// addressRanges reads ranges of addresses with commas between them.
func addressRanges(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses: %w", part, err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// newFetcher returns the fetcher of keys that the settings ask for; what does not parse has been reported before.
func newFetcher(o *Options, r prometheus.Registerer) (*jwks.Fetcher, error) {
	raw := o.Settings.Raw
	options := jwks.Options{Log: o.Log, Remote: raw[varRemoteKeys] == "envoy", Metrics: r}
	if d, err := time.ParseDuration(raw[varKeyRefresh]); err == nil {
		options.Refresh = d
	}
	var err error
	if options.Block, err = addressRanges(raw[varKeysBlocked]); err != nil {
		return nil, fmt.Errorf("%s: %w", varKeysBlocked, err)
	}
	if options.Allow, err = addressRanges(raw[varKeysAllowed]); err != nil {
		return nil, fmt.Errorf("%s: %w", varKeysAllowed, err)
	}
	if options.Roots, err = os.ReadFile(extraAuthorities); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("additional authorities for fetching keys: %w", err)
	}
	return jwks.New(options)
}
