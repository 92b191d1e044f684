package validate

import (
	"fmt"
	"strconv"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingbeta "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Issue is one mistake in an object.
type Issue struct {
	// Field is the path from the root of the object, such as "spec.http[0].route[1].weight".
	Field   string
	Message string
	// Warning says that the object works all the same.
	Warning bool
}

// Object returns what is wrong with o, errors and warnings in the order of the fields. Kinds without rules have no
// issues. It may be called from several goroutines.
func Object(o *model.Object) []Issue {
	c := &checker{object: o}
	c.metadata()
	switch s := o.Spec.(type) {
	case *networking.VirtualService:
		c.virtualService(s)
	case *networking.DestinationRule:
		c.destinationRule(s)
	case *networking.Gateway:
		c.gateway(s)
	case *networking.ServiceEntry:
		c.serviceEntry(s)
	case *networking.Sidecar:
		c.sidecar(s)
	case *networking.WorkloadEntry:
		c.workloadEntry(s, "spec", false)
	case *networking.WorkloadGroup:
		c.workloadGroup(s)
	case *networking.EnvoyFilter:
		c.envoyFilter(s)
	case *networkingbeta.ProxyConfig:
		c.proxyConfig(s)
	case *security.AuthorizationPolicy:
		c.authorizationPolicy(s)
	case *security.PeerAuthentication:
		c.peerAuthentication(s)
	case *security.RequestAuthentication:
		c.requestAuthentication(s)
	case *telemetry.Telemetry:
		c.telemetry(s)
	case *extensions.WasmPlugin:
		c.wasmPlugin(s)
	case *extensions.TrafficExtension:
		c.trafficExtension(s)
	}
	return c.issues
}

// checker collects the issues of one object.
type checker struct {
	object *model.Object // nil for mesh configuration
	issues []Issue
}

func (c *checker) fail(field, format string, args ...any) {
	c.issues = append(c.issues, Issue{Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) warn(field, format string, args ...any) {
	c.issues = append(c.issues, Issue{Field: field, Message: fmt.Sprintf(format, args...), Warning: true})
}

// failIf adds an error if err is not nil.
func (c *checker) failIf(field string, err error) {
	if err != nil {
		c.fail(field, "%s", err.Error())
	}
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

func entry(field, key string) string { return field + "[" + key + "]" }
