package model

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// mergeDelegates puts in place of every route that delegates the routes of its delegate that agree with it. A delegate
// that is missing, has hosts of its own, or is not exported to the root's namespace takes only its route along. There
// is one level: a delegate's routes that delegate further are left out.
func mergeDelegates(pc *PushContext, v *VirtualService) {
	if len(v.Hosts) == 0 || !slices.ContainsFunc(v.Spec.Http, delegates) {
		return
	}
	var out []*networking.HTTPRoute
	for _, root := range v.Spec.Http {
		if !delegates(root) {
			out = append(out, root)
			continue
		}
		key := delegateKey(root.Delegate, v.Namespace)
		d := usableDelegate(pc, key, v.Namespace)
		if d == nil {
			continue
		}
		for _, r := range d.Spec.Http {
			if !delegates(r) && inheritRoute(root, r) {
				out = append(out, r)
			}
		}
		if !slices.Contains(v.Delegates, key) {
			v.Delegates = append(v.Delegates, key)
		}
	}
	v.Spec.Http = out
}

func delegates(r *networking.HTTPRoute) bool { return r.GetDelegate() != nil }

// usableDelegate returns a copy of the delegate with full names, or nil.
func usableDelegate(pc *PushContext, key ObjectKey, namespace string) *VirtualService {
	o, ok := pc.objects[KindVirtualService].Get(key.Row())
	if !ok {
		return nil
	}
	d := resolveVirtualService(pc, o)
	if d == nil || len(d.Hosts) > 0 || !d.ExportTo.Allows(namespace) {
		return nil
	}
	return d
}

// inheritRoute completes the delegate's route r by what root says, and tells whether the two agree.
func inheritRoute(root, r *networking.HTTPRoute) bool {
	matches, ok := combineMatches(root.GetMatch(), r.GetMatch())
	if !ok {
		return false
	}
	r.Match = matches
	r.Name = joinNames(root.GetName(), r.GetName())
	inherit(&r.Rewrite, root.Rewrite)
	inherit(&r.DirectResponse, root.DirectResponse)
	inherit(&r.Timeout, root.Timeout)
	inherit(&r.Retries, root.Retries)
	inherit(&r.Fault, root.Fault)
	inherit(&r.Mirror, root.Mirror)
	inherit(&r.MirrorPercent, root.MirrorPercent) //nolint:staticcheck // users still write it
	inherit(&r.MirrorPercentage, root.MirrorPercentage)
	inherit(&r.CorsPolicy, root.CorsPolicy)
	inherit(&r.Headers, root.Headers)
	if len(r.Mirrors) == 0 {
		r.Mirrors = root.Mirrors
	}
	return true
}

// inherit sets what the delegate leaves open. Roots and delegates are copies made for this merge, and nobody modifies
// them later, so that parts may be shared.
func inherit[T any](field **T, root *T) {
	if *field == nil {
		*field = root
	}
}

func joinNames(root, delegate string) string {
	if root == "" || delegate == "" {
		return root + delegate
	}
	return root + "-" + delegate
}

// combineMatches returns the matches that satisfy one of roots and one of delegates, and whether each of delegates agrees
// with some root: one that goes beyond all of them spoils its route. Every pair that agrees gives one; without a match on
// one side the other's count.
func combineMatches(roots, delegates []*networking.HTTPMatchRequest) ([]*networking.HTTPMatchRequest, bool) {
	if len(roots) == 0 {
		return delegates, true
	}
	if len(delegates) == 0 {
		return roots, true
	}
	var out []*networking.HTTPMatchRequest
	for _, d := range delegates {
		before := len(out)
		for _, r := range roots {
			if !matchesConflict(r, d) {
				out = append(out, combineMatch(r, d))
			}
		}
		if len(out) == before {
			return nil, false
		}
	}
	return out, true
}

func combineMatch(r, d *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	out := d.DeepCopy()
	out.Name = joinNames(r.Name, d.Name)
	inherit(&out.Uri, r.Uri)
	inherit(&out.Scheme, r.Scheme)
	inherit(&out.Method, r.Method)
	inherit(&out.Authority, r.Authority)
	out.Headers = underlay(out.Headers, r.Headers)
	out.WithoutHeaders = underlay(out.WithoutHeaders, r.WithoutHeaders)
	out.QueryParams = underlay(out.QueryParams, r.QueryParams)
	out.SourceLabels = underlay(out.SourceLabels, r.SourceLabels)
	if out.Port == 0 {
		out.Port = r.Port
	}
	if len(out.Gateways) == 0 {
		out.Gateways = r.Gateways
	}
	if out.SourceNamespace == "" {
		out.SourceNamespace = r.SourceNamespace
	}
	if out.StatPrefix == "" {
		out.StatPrefix = r.StatPrefix
	}
	return out
}

func underlay[V any](m, below map[string]V) map[string]V {
	if len(below) == 0 {
		return m
	}
	out := maps.Clone(below)
	maps.Copy(out, m)
	return out
}

// matchesConflict tells whether the delegate's match asks for something that root's match rules out.
func matchesConflict(root, d *networking.HTTPMatchRequest) bool {
	if stringsConflict(root.Uri, d.Uri) || stringsConflict(root.Scheme, d.Scheme) ||
		stringsConflict(root.Method, d.Method) || stringsConflict(root.Authority, d.Authority) {
		return true
	}
	if root.IgnoreUriCase != d.IgnoreUriCase {
		return true
	}
	if mapsConflict(root.Headers, d.Headers) || mapsConflict(root.WithoutHeaders, d.WithoutHeaders) ||
		mapsConflict(root.QueryParams, d.QueryParams) {
		return true
	}
	if root.Port != 0 && d.Port != 0 && root.Port != d.Port {
		return true
	}
	for k, v := range root.SourceLabels {
		if w, ok := d.SourceLabels[k]; ok && w != v {
			return true
		}
	}
	if root.SourceNamespace != "" && d.SourceNamespace != "" && root.SourceNamespace != d.SourceNamespace {
		return true
	}
	return gatewaysConflict(root.Gateways, d.Gateways)
}

// gatewaysConflict tells whether a delegate names a gateway that its root does not.
func gatewaysConflict(root, d []string) bool {
	if len(root) == 0 {
		return false
	}
	return slices.ContainsFunc(d, func(g string) bool { return !slices.Contains(root, g) })
}

func mapsConflict(root, d map[string]*networking.StringMatch) bool {
	for k, m := range root {
		if n, ok := d[k]; ok && stringsConflict(m, n) {
			return true
		}
	}
	return false
}

// stringsConflict tells whether d asks for more, or other, values than root. Regular expressions are not compared:
// with one of them on either side there is always a conflict.
func stringsConflict(root, d *networking.StringMatch) bool {
	if root == nil || d == nil {
		return false
	}
	switch r := root.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		e, ok := d.GetMatchType().(*networking.StringMatch_Exact)
		return !ok || e.Exact != r.Exact
	case *networking.StringMatch_Prefix:
		switch m := d.GetMatchType().(type) {
		case *networking.StringMatch_Exact:
			return !strings.HasPrefix(m.Exact, r.Prefix)
		case *networking.StringMatch_Prefix:
			return !strings.HasPrefix(m.Prefix, r.Prefix)
		}
		return true
	case *networking.StringMatch_Regex:
		return true
	}
	return false // root asks for presence only
}
