package server

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mizzen-mesh/mizzen/pilot/allocate"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/status"
)

const (
	varAllocateV4 = "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX"
	varAllocateV6 = "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX"
	varPodName    = "POD_NAME"
	varElect      = "ENABLE_LEADER_ELECTION"
)

// addressVariables are those about allocated addresses and about who among control planes writes to the cluster.
func addressVariables() []Variable {
	usual := allocate.DefaultRanges()
	return []Variable{
		raw(varAllocateV4, usual.V4.String(), "compatible", "range of the IPv4 addresses that ServiceEntries get", func(v string) error { _, err := allocate.ParseRange(v, false); return err }),
		raw(varAllocateV6, usual.V6.String(), "compatible", "range of the IPv6 addresses that ServiceEntries get", func(v string) error { _, err := allocate.ParseRange(v, true); return err }),
		raw(varPodName, "", "compatible", "the control plane's pod, its name in elections", nil),
		raw(varElect, "true", "compatible", "one control plane at a time writes to the cluster; false: this one does", func(v string) error {
			if _, err := strconv.ParseBool(v); err != nil {
				return fmt.Errorf("%q is not true or false", v)
			}
			return nil
		}),
	}
}

// AddressRanges returns what ServiceEntries get addresses from.
func AddressRanges(s *model.Settings) allocate.Ranges {
	r := allocate.DefaultRanges()
	if p, err := allocate.ParseRange(s.Raw[varAllocateV4], false); err == nil {
		r.V4 = p
	}
	if p, err := allocate.ParseRange(s.Raw[varAllocateV6], true); err == nil {
		r.V6 = p
	}
	return r
}

// NewAddressWriter returns what writes the addresses of ServiceEntries to a cluster, or nil if the settings want none. It
// writes those that the named source delivers.
func NewAddressWriter(log *slog.Logger, s *model.Settings, config *rest.Config, source string) (*status.Addresses, error) {
	if !s.EnableIPAutoallocate {
		return nil, nil
	}
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	client, err := dynamic.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	o := status.AddressOptions{
		Log: log, Client: client, Source: source, Ranges: AddressRanges(s), Close: connections.CloseIdleConnections,
	}
	if elect, err := strconv.ParseBool(cmp.Or(s.Raw[varElect], "true")); err != nil || elect {
		o.Election = &status.Election{
			Client: client, Namespace: s.SystemNamespace, Name: status.AddressesLock,
			Identity: identity(s), Key: s.Revision, Log: log,
		}
	}
	return status.NewAddresses(o), nil
}

// identity returns the control plane's name in elections: its pod's, or outside of pods one that no other process has.
func identity(s *model.Settings) string {
	if name := s.Raw[varPodName]; name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "mizzen"
	}
	return host + "-" + rand.Text()[:8]
}
