package filter

import (
	"fmt"
	"strings"

	rulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	tometadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_to_metadata/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Peer says how the other end of an inbound chain's connections is known.
type Peer uint8

// How peers are known.
const (
	// PeerUnknown peers have not proved who they are: what they say of themselves is not believed.
	PeerUnknown Peer = iota
	// PeerMutual peers have a certificate of the mesh.
	PeerMutual
	// PeerTunnel peers had one at the end of the tunnel that their connection came through.
	PeerTunnel
)

// The headers in which sidecars tell each other who they are, and where that is noted.
const (
	requestPeer   = "x-mesh-peer"
	responsePeer  = "x-mesh-peer-r"
	peerNamespace = "mesh.peer"
	ownPrefix     = "mesh.own."

	// Who was at the ends of an HBONE tunnel (package listener).
	statePeerPrincipal  = "io.istio.peer_principal"
	stateLocalPrincipal = "io.istio.local_principal"
)

// ownState is a part of the proxy's own workload's name, from the state of the connection.
func ownState(field string) string { return "%FILTER_STATE(" + ownPrefix + field + ":PLAIN)%" }

// tellsPeers tells whether the proxy's sidecar and those of others exchange names over headers: where anybody may want
// them in metrics.
func (s *Set) tellsPeers() bool {
	return s.stock && s.c.Settings().EnableMetadataExchange && s.c.Links(view.LinksStats|view.LinksPeerHeaders) &&
		(len(s.mesh.GetDefaultProviders().GetMetrics()) > 0 || s.c.HasObjects(model.KindTelemetry))
}

// own returns the network filter that notes who the proxy's own workload is: once a connection, for all that is counted
// on it. There is none where nobody asks.
func (s *Set) own(needed bool) []*listenerv3.Filter {
	if !needed {
		return nil
	}
	c := &setstatev3.Config{}
	for _, f := range workloadFields() {
		c.OnNewConnection = append(c.OnNewConnection, &statev3.FilterStateValue{
			Key:        &statev3.FilterStateValue_ObjectKey{ObjectKey: ownPrefix + f},
			FactoryKey: "envoy.string",
			Value: &statev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
					Specifier: &corev3.DataSource_InlineString{InlineString: cel(ownField(f))},
				}},
			}},
		})
	}
	return []*listenerv3.Filter{s.NetworkFilter(nameSetState, c)}
}

// peerFilters returns the HTTP filters that exchange names with the peer; they stand first.
func (s *Set) peerFilters(o HTTP) []*hcmv3.HttpFilter {
	switch {
	case !s.tellsPeers():
		return nil
	case o.Direction == Outbound:
		return s.peerOfEndpoint()
	case o.Peer == PeerUnknown:
		// what such a peer says is not for the application either, nor what that says for the peer
		return []*hcmv3.HttpFilter{s.mutation("mesh.peer", &mutationv3.Mutations{
			RequestMutations: []*rulesv3.HeaderMutation{remove(requestPeer)}, ResponseMutations: []*rulesv3.HeaderMutation{remove(responsePeer)},
		})}
	}
	rules := fieldRules(requestPeer)
	for _, r := range rules {
		r.OnHeaderMissing = note(r.GetOnHeaderPresent().GetKey(), unknown)
	}
	rules[len(rules)-1].Remove = true
	return []*hcmv3.HttpFilter{
		s.HTTPFilter(nameToMetadata, &tometadatav3.Config{RequestRules: rules}),
		s.mutation("mesh.own", &mutationv3.Mutations{ResponseMutations: []*rulesv3.HeaderMutation{set(responsePeer, ownHeader())}}),
	}
}

// peerOfEndpoint returns the filters of outbound chains. Responses pass them from the last to the first: one says whose
// endpoint answered, unless that has said so itself, one notes it, and the first hides it from the application.
func (s *Set) peerOfEndpoint() []*hcmv3.HttpFilter {
	// until there is a response nothing is known
	var before []*tometadatav3.Config_Rule
	for _, f := range workloadFields() {
		before = append(before, &tometadatav3.Config_Rule{Header: responsePeer, OnHeaderMissing: note(f, unknown)})
	}
	return []*hcmv3.HttpFilter{
		s.mutation("mesh.own", &mutationv3.Mutations{
			RequestMutations:  []*rulesv3.HeaderMutation{set(requestPeer, ownHeader()), remove(responsePeer)},
			ResponseMutations: []*rulesv3.HeaderMutation{remove(responsePeer)},
		}),
		s.HTTPFilter(nameToMetadata, &tometadatav3.Config{RequestRules: before, ResponseRules: fieldRules(responsePeer)}),
		s.mutation("mesh.peer", &mutationv3.Mutations{ResponseMutations: []*rulesv3.HeaderMutation{set(responsePeer, answeredBy())}}),
	}
}

// answeredBy is the name of the workload that answered: as it says itself if it has proved to be of the mesh, and else
// as its endpoint says, which leaves out the usual revision. Envoy's CEL does not join strings.
func answeredBy() string {
	named := func(pattern, name string) string {
		return "re.extract(" + endpointWorkload + ", '" + pattern + "', '" + name + "')"
	}
	const start, part = "^([^;]*);([^;]*);([^;]*);", `\\1|\\2|` + unknown + "|" + unknown + `|\\3|`
	return cel("has(upstream.uri_san_peer_certificate) && upstream.uri_san_peer_certificate.startsWith('spiffe://') && '" +
		responsePeer + "' in response.headers ? response.headers['" + responsePeer + "'] : !has(" + endpointMetadata + ".istio) ? '' : " +
		endpointWorkload + ".matches('^[^;]*;[^;]*;[^;]*;;') ? " + named(start+";(.*)$", part+`latest|\\4`) + " : " +
		named(start+"([^;]*);(.*)$", part+`\\4|\\5`))
}

// ownHeader is the proxy's own workload's name as it travels.
func ownHeader() string {
	var parts []string
	for _, f := range workloadFields() {
		parts = append(parts, ownState(f))
	}
	return strings.Join(parts, "|")
}

// fieldRules note the parts of a header that names a workload.
func fieldRules(header string) []*tometadatav3.Config_Rule {
	var out []*tometadatav3.Config_Rule
	for i, f := range workloadFields() {
		present := note(f, "")
		present.RegexValueRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern:      &matcherv3.RegexMatcher{Regex: fmt.Sprintf(`^(?:[^|]*\|){%d}([^|]*).*$`, i)},
			Substitution: `\1`,
		}
		out = append(out, &tometadatav3.Config_Rule{Header: header, OnHeaderPresent: present})
	}
	return out
}

func note(key, value string) *tometadatav3.Config_KeyValuePair {
	return &tometadatav3.Config_KeyValuePair{MetadataNamespace: peerNamespace, Key: key, Value: value}
}

func (s *Set) mutation(name string, m *mutationv3.Mutations) *hcmv3.HttpFilter {
	return s.HTTPFilter(name, &mutationv3.HeaderMutation{Mutations: m})
}

func remove(header string) *rulesv3.HeaderMutation {
	return &rulesv3.HeaderMutation{Action: &rulesv3.HeaderMutation_Remove{Remove: header}}
}

func set(header, value string) *rulesv3.HeaderMutation {
	return &rulesv3.HeaderMutation{Action: &rulesv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: header, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}
