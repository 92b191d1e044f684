package view

import (
	"slices"
	"strings"
	"sync"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The properties of a view, in the order of View.props.
const (
	PropType cell.Prop = iota
	PropNamespace
	PropClusterID
	PropNetwork
	PropNetworkView
	PropNodeName
	PropServiceAccount
	PropLocality
	PropFamily
	PropIPs
	PropLabels // restricted to tested labels
	PropTelemetryLabels
	PropSidecar // which Sidecar object applies
	PropTargets
	PropProfile
	PropVersion
	PropInterception
	PropDNSCapture
	PropGenerator
	PropDNSDomain
	PropMeta        // the metadata that replicas of a workload have in common, as one canonical string
	PropOwnMeta     // the metadata that names the single proxy or its workload
	PropSettings    // the metadata that sets how listeners and clusters work; seldom given
	PropProxyConfig // the metadata PROXY_CONFIG
	PropCanonical   // the canonical name and revision of the workload
	PropHeaderCase  // whether HTTP/1 header names keep their case
	PropCertificate // whether the proxy holds a mesh certificate
	PropDelta       // whether the proxy's stream is incremental
	PropVerified    // whether the proxy has proved who it is
	PropLinks       // which optional extensions the proxy links

	// Which patches of EnvoyFilters apply to the proxy, in the order of PatchGroup.
	PropClusterPatches
	PropListenerPatches
	PropRoutePatches
	PropExtensionPatches

	numProps
)

// View is the values of the properties of one class of proxies. It is immutable.
type View struct {
	proxy    *Proxy
	family   Family
	locality string
	labels   map[string]string
	// telemetry holds the labels that name the workload in metrics.
	telemetry map[string]string
	sidecar   *model.Sidecar
	targets   []model.ServiceTarget
	nodeName  string
	certified bool
	patches   [numPatchGroups][]PatchRef
	props     [numProps]string

	projections projections
}

// projections remembers what Project returned: a view is asked for the same few masks at every lookup of a cell.
type projections struct {
	mu    sync.Mutex
	masks []cell.Mask
	texts []string
}

// Project implements cell.Env.
func (v *View) Project(m cell.Mask) string {
	if m == 0 {
		return ""
	}
	p := &v.projections
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.masks, m); i >= 0 {
		return p.texts[i]
	}
	text := v.project(m)
	p.masks, p.texts = append(p.masks, m), append(p.texts, text)
	return text
}

// Rows returns the rows of users' objects that stand behind the properties of m.
func (v *View) Rows(m cell.Mask) []cell.Key {
	var out []cell.Key
	if m.Has(PropSidecar) && v.sidecar != nil && v.sidecar.Object != nil {
		out = append(out, cell.Key{Table: model.TableObject, Name: v.sidecar.String()})
	}
	if m.Has(PropTargets) {
		for _, t := range v.targets {
			out = append(out, cell.Key{Table: model.TableService, Name: t.Service.String()})
		}
	}
	for g, patches := range v.patches {
		if m.Has(PropClusterPatches + cell.Prop(g)) { //nolint:gosec // few groups
			for _, p := range patches {
				out = append(out, cell.Key{Table: model.TableObject, Name: p.Object.String()})
			}
		}
	}
	return out
}

// Origin returns what something was computed from for the view, given the rows and properties that were read.
func (v *View) Origin(rows []cell.Key, m cell.Mask) model.Origin {
	return model.Origin{Rows: append(rows, v.Rows(m)...), Namespace: v.proxy.Namespace, Labels: v.labels}
}

func (v *View) project(m cell.Mask) string {
	var b strings.Builder
	for p := range numProps {
		if m.Has(p) {
			b.WriteString(v.props[p])
			b.WriteByte(0)
		}
	}
	return b.String()
}
