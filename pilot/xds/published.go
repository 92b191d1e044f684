package xds

import (
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pkg/store"
	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// Resource is one encoded resource. Equal resources are one object, however many classes of proxies hold them.
type Resource struct {
	Name    string
	Version string    // content hash
	Body    wire.Rope // the resource message's bytes
	// Wrapped is the delta form: a discovery Resource message {name, version, Any} as it stands in
	// DeltaDiscoveryResponse.resources, tag and length included.
	Wrapped wire.Rope
	typeURL string
	// Clusters are, for routes and listeners, the names of the clusters that traffic may be sent to; for others nil.
	Clusters []string
	// Origin returns what made the resource, for NACK attribution and provenance; nil if they are not known. It
	// may wait for the engine, so sessions keep it for those who ask.
	Origin func() model.Origin
}

// State is what one bundle (the resources of one slot for one class of proxies) holds at one generation. It is
// immutable.
type State struct {
	Slot *translate.Slot
	// Gen counts the bundle's states from 1.
	Gen uint64
	// Items maps names to resources. In a slot asked for by name, a name that somebody asked for and that does not
	// exist is present with a nil resource.
	Items store.Table[*Resource]
	// Recent holds the names that changed, appeared or went in the last generations, oldest first; the last entry made
	// this state. A holder of an earlier state is brought up to date by the entries after the one that made it, if that
	// is here; else by comparing Items.
	Recent []*Delta
}

// form returns the resource as it stands in a response.
func (r *Resource) form(delta bool) wire.Rope {
	if delta {
		return r.Wrapped
	}
	return r.Any()
}

// Delta is the names that differ between a generation and the one before. Of a generation that follows none, or differs
// in most of what it holds, the names are not kept, and it is the first in Recent.
type Delta struct {
	Gen   uint64
	Names []string
}

// Published is what a session may send now: for each type the states of its slots, all of one PushContext.
type Published struct {
	// Generation is the PushContext's, and Version the text that state-of-the-world responses carry.
	Generation uint64
	Version    string
	Types      map[string][]*State // by type URL
}
