package model

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// routeSemantics is the annotation that marks rules made from Gateway API routes.
const routeSemantics = "internal.istio.io/route-semantics"

// deriveVirtualServices prepares the rules that changed and those that delegate to a changed one.
func (b *Builder) deriveVirtualServices(c *commit) {
	dirty := b.dirtyVirtualServices(c)
	if len(dirty) == 0 {
		return
	}
	x := c.next.virtualServices.Txn()
	edits := visibleEdits{
		exported: map[string]*listEdit[*VirtualService]{}, hosts: map[string]*listEdit[*VirtualService]{},
	}
	for row := range dirty {
		old, had := x.Get(row)
		now := prepareVirtualService(c.next, row)
		switch {
		case now == nil && !had, now != nil && had && sameVirtualService(old, now):
			continue
		case now == nil:
			x.Delete(row)
		default:
			x.Set(row, now)
		}
		c.touch(TableVirtualService, row)
		if had {
			edits.each(old, func(e *listEdit[*VirtualService]) { e.remove(old) })
		}
		if now != nil {
			edits.each(now, func(e *listEdit[*VirtualService]) { e.added = append(e.added, now) })
		}
	}
	c.next.virtualServices = x.Commit()
	edits.commit(c)
}

// dirtyVirtualServices returns the rows to prepare anew, and keeps track of who delegates to whom.
func (b *Builder) dirtyVirtualServices(c *commit) rowSet {
	dirty := rowSet{}
	for _, ch := range c.changes {
		if ch.key.Kind != KindVirtualService {
			continue
		}
		row := ch.key.Row()
		dirty.add(row)
		for _, d := range delegateRows(ch.old) {
			b.roots.drop(d, row)
		}
		for _, d := range delegateRows(ch.new) {
			b.roots.add(d, row)
		}
	}
	for row := range dirty {
		for root := range b.roots[row] {
			dirty.add(root)
		}
	}
	if c.mesh && !slices.Equal(c.prev.mesh.DefaultVirtualServiceExportTo, c.next.mesh.DefaultVirtualServiceExportTo) {
		for row := range c.next.objects[KindVirtualService].All() {
			dirty.add(row)
		}
	}
	return dirty
}

// delegateRows returns the rows that o's routes delegate to.
func delegateRows(o *Object) []string {
	if o == nil {
		return nil
	}
	spec, _ := o.Spec.(*networking.VirtualService)
	if len(spec.GetHosts()) == 0 {
		return nil
	}
	var out []string
	for _, h := range spec.GetHttp() {
		if h.GetDelegate() != nil {
			out = append(out, delegateKey(h.GetDelegate(), o.Namespace).Row())
		}
	}
	return out
}

func delegateKey(d *networking.Delegate, namespace string) ObjectKey {
	if d.GetNamespace() != "" {
		namespace = d.GetNamespace()
	}
	return ObjectKey{Kind: KindVirtualService, Namespace: namespace, Name: d.GetName()}
}

func sameVirtualService(a, b *VirtualService) bool {
	return a.Object == b.Object && a.ExportTo.equal(b.ExportTo) && slices.Equal(a.Delegates, b.Delegates) &&
		proto.Equal(a.Spec, b.Spec)
}

func (v Visibility) equal(w Visibility) bool {
	if v.Public != w.Public || len(v.Namespaces) != len(w.Namespaces) {
		return false
	}
	for ns := range v.Namespaces {
		if _, ok := w.Namespaces[ns]; !ok {
			return false
		}
	}
	return true
}

// prepareVirtualService returns the rule of that row ready for use, or nil.
func prepareVirtualService(pc *PushContext, row string) *VirtualService {
	o, ok := pc.objects[KindVirtualService].Get(row)
	if !ok {
		return nil
	}
	v := resolveVirtualService(pc, o)
	if v != nil {
		mergeDelegates(pc, v)
	}
	return v
}

// resolveVirtualService returns o with full names, its delegates not yet merged in.
func resolveVirtualService(pc *PushContext, o *Object) *VirtualService {
	written, ok := o.Spec.(*networking.VirtualService)
	if !ok {
		return nil
	}
	spec, _ := proto.Clone(written).(*networking.VirtualService)
	v := &VirtualService{
		Object: o, Spec: spec, FromGatewayAPI: o.Annotations[routeSemantics] == "gateway",
		ExportTo: ParseExportTo(spec.GetExportTo(), pc.mesh.DefaultVirtualServiceExportTo, o.Namespace),
	}
	if !v.FromGatewayAPI {
		n := names{namespace: o.Namespace, domain: pc.settings.Domain}
		n.virtualService(spec)
	}
	if len(spec.Gateways) == 0 {
		spec.Gateways = []string{MeshGateway}
	}
	v.Hosts, v.Gateways = lowerAll(spec.Hosts), spec.Gateways
	return v
}

func lowerAll(hosts []string) []string {
	for i, h := range hosts {
		if l := strings.ToLower(h); l != h {
			hosts = slices.Clone(hosts)
			for ; i < len(hosts); i++ {
				hosts[i] = strings.ToLower(hosts[i])
			}
			break
		}
	}
	return hosts
}

// names resolves short names in an object of one namespace.
type names struct{ namespace, domain string }

func (n names) host(h string) string { return ResolveShortName(h, n.namespace, n.domain) }

func (n names) gateways(list []string) {
	for i, g := range list {
		list[i] = ResolveGateway(g, n.namespace)
	}
}

func (n names) destination(d *networking.Destination) {
	if d != nil {
		d.Host = n.host(d.Host)
	}
}

// virtualService resolves every name in spec in place. SNI hosts are full names by definition.
func (n names) virtualService(spec *networking.VirtualService) {
	for i, h := range spec.Hosts {
		spec.Hosts[i] = n.host(h)
	}
	n.gateways(spec.Gateways)
	for _, r := range spec.Http {
		for _, m := range r.GetMatch() {
			n.gateways(m.GetGateways())
		}
		for _, w := range r.GetRoute() {
			n.destination(w.GetDestination())
		}
		n.destination(r.GetMirror())
		for _, m := range r.GetMirrors() {
			n.destination(m.GetDestination())
		}
	}
	for _, r := range spec.Tcp {
		for _, m := range r.GetMatch() {
			n.gateways(m.GetGateways())
		}
		n.routes(r.GetRoute())
	}
	for _, r := range spec.Tls {
		for _, m := range r.GetMatch() {
			n.gateways(m.GetGateways())
		}
		n.routes(r.GetRoute())
	}
}

func (n names) routes(list []*networking.RouteDestination) {
	for _, w := range list {
		n.destination(w.GetDestination())
	}
}
