package model

import (
	"slices"
	"strings"
	"testing"
)

const reviews = "reviews.ns1.svc.cluster.local"

// picked names what the lookup finds: "namespace/name+namespace/name..." of the objects merged, or "".
func picked(d *DestinationRule) string {
	if d == nil {
		return ""
	}
	var from []string
	for _, o := range d.From {
		from = append(from, o.Row())
	}
	return strings.Join(from, "+")
}

func subsetNames(d *DestinationRule) string {
	var out []string
	for _, s := range d.Spec.GetSubsets() {
		out = append(out, s.GetName())
	}
	return strings.Join(out, ",")
}

// ruleCase is one lookup of a destination rule.
type ruleCase struct {
	name                  string
	rules                 map[string]string // row, "@" and age -> spec
	host, client, service string
	labels                map[string]string
	inbound               bool
	want                  string
}

func (c *ruleCase) objects(t *testing.T) []*Object {
	var out []*Object
	for k, spec := range c.rules {
		row, age, _ := strings.Cut(k, "@")
		out = append(out, istioObject(t, KindDestinationRule, row, int(age[0]-'0'), spec))
	}
	return out
}

func (c *ruleCase) lookup(t *testing.T) *RuleLookup {
	r := readerOf(t, c.objects(t)...)
	return &RuleLookup{
		Candidates: r.DestinationRules(c.host), Root: "istio-system", Service: c.service, Inbound: c.inbound,
	}
}

func ruleCases() []ruleCase {
	x := map[string]string{"app": "x"}
	cases := []ruleCase{
		{name: "short name", rules: map[string]string{"ns1/a@1": `host: reviews`}, client: "ns2", want: "ns1/a"},
		{
			name: "client before service", client: "ns2", want: "ns2/wild",
			rules: map[string]string{"ns1/a@1": `host: reviews`, "ns2/wild@2": `host: "*.ns1.svc.cluster.local"`},
		},
		{
			name: "service before root", client: "ns2", want: "ns1/a",
			rules: map[string]string{"ns1/a@1": `host: reviews`, "istio-system/r@1": `host: "` + reviews + `"`},
		},
		{
			name: "root last", client: "ns2", want: "istio-system/r",
			rules: map[string]string{"ns3/a@1": `host: ` + reviews, "istio-system/r@1": `host: "*.local"`},
		},
		{
			name: "longest wildcard", client: "ns2", want: "ns1/long",
			rules: map[string]string{"ns1/short@1": `host: "*.cluster.local"`, "ns1/long@2": `host: "*.ns1.svc.cluster.local"`},
		},
		{
			name: "unexported exact rule hides an exported wildcard", client: "ns2", want: "istio-system/r",
			rules: map[string]string{
				"ns1/a@1": `{host: reviews, exportTo: [ns3]}`, "ns1/w@1": `{host: "*.ns1.svc.cluster.local", exportTo: ["*"]}`,
				"istio-system/r@1": `host: "*.local"`,
			},
		},
		{
			name: "the same seen by whom it is exported to", client: "ns3", want: "ns1/a",
			rules: map[string]string{"ns1/a@1": `{host: reviews, exportTo: [ns3]}`},
		},
		{
			name: "exported elsewhere only is not for its own namespace", client: "ns1", want: "",
			rules: map[string]string{"ns1/a@1": `{host: reviews, exportTo: [ns3]}`},
		},
		{
			name: "root proxies use private root rules first", client: "istio-system", want: "istio-system/private",
			rules: map[string]string{
				"ns1/a@1": `host: reviews`, "istio-system/private@5": `{host: "*.local", exportTo: ["."]}`,
				"istio-system/public@1": `host: "` + reviews + `"`,
			},
		},
		{
			name: "public root rules come behind the service's for root proxies", client: "istio-system", want: "ns1/a",
			rules: map[string]string{"ns1/a@1": `host: reviews`, "istio-system/public@1": `host: "` + reviews + `"`},
		},
		{
			name: "selector matches", client: "ns1", labels: x, want: "ns1/sel",
			rules: map[string]string{
				"ns1/a@1": `host: reviews`, "ns1/sel@2": `{host: reviews, workloadSelector: {matchLabels: {app: x}}}`,
			},
		},
		{
			name: "selector does not match", client: "ns1", want: "ns1/a",
			rules: map[string]string{
				"ns1/a@1": `host: reviews`, "ns1/sel@2": `{host: reviews, workloadSelector: {matchLabels: {app: x}}}`,
			},
		},
		{
			name: "selector rules stay in their namespace", client: "ns2", labels: x, want: "",
			rules: map[string]string{"ns1/sel@2": `{host: reviews, exportTo: ["*"], workloadSelector: {matchLabels: {app: x}}}`},
		},
		{
			name: "inbound ignores selectors", client: "ns1", labels: x, inbound: true, want: "ns1/a",
			rules: map[string]string{
				"ns1/a@1": `host: reviews`, "ns1/sel@2": `{host: reviews, workloadSelector: {matchLabels: {app: x}}}`,
			},
		},
		{
			name: "equal exportTo merges", client: "ns2", want: "ns1/a+ns1/b",
			rules: map[string]string{"ns1/a@1": `{host: reviews, exportTo: [ns2]}`, "ns1/b@2": `{host: reviews, exportTo: [ns2]}`},
		},
		{
			name: "unequal exportTo stays apart", client: "ns2", want: "ns1/a",
			rules: map[string]string{"ns1/a@1": `{host: reviews, exportTo: [ns2]}`, "ns1/b@2": `{host: reviews, exportTo: [ns3]}`},
		},
		{
			name: "a superset goes into the earlier entry and has none of its own", client: "ns3", want: "",
			rules: map[string]string{"ns1/a@1": `{host: reviews, exportTo: [ns2]}`, "ns1/b@2": `{host: reviews, exportTo: [ns2, ns3]}`},
		},
		{
			name: "an explicitly private rule merges into one with a selector", client: "ns1", want: "",
			rules: map[string]string{
				"ns1/a@1":   `{host: reviews, exportTo: ["."]}`,
				"ns1/sel@2": `{host: reviews, workloadSelector: {matchLabels: {app: x}}}`,
			},
		},
		{
			name: "private and public rules of one host: clients elsewhere see the public one alone", client: "ns2", want: "ns1/pub",
			rules: map[string]string{"ns1/priv@1": `{host: reviews, exportTo: ["."]}`, "ns1/pub@2": `{host: reviews, exportTo: ["*"]}`},
		},
	}
	for i := range cases {
		cases[i].host, cases[i].service = reviews, "ns1"
	}
	return cases
}

func TestDestinationRuleLookup(t *testing.T) {
	t.Parallel()
	for _, c := range ruleCases() {
		l := c.lookup(t)
		d := l.Pick(c.client, func() map[string]string { return c.labels })
		if got := picked(d); got != c.want {
			t.Errorf("%s: picked %q, want %q", c.name, got, c.want)
		}
		if common, ok := l.Everywhere(); ok && common != d {
			t.Errorf("%s: Everywhere says %q", c.name, picked(common))
		}
	}
}

func TestEverywhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules map[string]string
		ok    bool
	}{
		"public rule of the service":   {map[string]string{"ns1/a@1": `host: reviews`}, true},
		"public rule elsewhere":        {map[string]string{"ns2/a@1": `host: ` + reviews}, false},
		"private rule of the service":  {map[string]string{"ns1/a@1": `{host: reviews, exportTo: ["."]}`}, false},
		"rule with a selector":         {map[string]string{"ns1/a@1": `{host: reviews, workloadSelector: {matchLabels: {a: b}}}`}, false},
		"root rule behind the service": {map[string]string{"ns1/a@1": `host: reviews`, "istio-system/a@1": `host: "*"`}, true},
	} {
		rc := ruleCase{rules: c.rules, host: reviews, service: "ns1"}
		if _, ok := rc.lookup(t).Everywhere(); ok != c.ok {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestDestinationRuleMerge(t *testing.T) {
	t.Parallel()
	a := istioObject(t, KindDestinationRule, "ns1/a", 1, `{host: reviews, subsets: [{name: v1, labels: {v: old}}]}`)
	b := istioObject(t, KindDestinationRule, "ns1/b", 2, `
host: reviews.ns1.svc.cluster.local
trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}
subsets: [{name: v1, labels: {v: new}}, {name: v2, labels: {v: two}}]
`)
	c := istioObject(t, KindDestinationRule, "ns1/c", 3, `{host: reviews, trafficPolicy: {tls: {mode: DISABLE}}}`)
	rules := readerOf(t, c, b, a).DestinationRules(reviews)
	if len(rules) != 1 {
		t.Fatalf("%d entries", len(rules))
	}
	d := rules[0]
	if picked(d) != "ns1/a+ns1/b+ns1/c" || subsetNames(d) != "v1,v2" {
		t.Errorf("from %s, subsets %s", picked(d), subsetNames(d))
	}
	if d.Subset("v1").Labels["v"] != "old" || d.Spec.TrafficPolicy.GetTls().GetMode().String() != "ISTIO_MUTUAL" {
		t.Errorf("merged into %v", d.Spec)
	}
}

func TestDestinationRuleMergeIgnoringExports(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.EnhancedDestinationRuleMerge = false
	pc, _ := NewBuilder(s, testMesh()).Apply(present(
		istioObject(t, KindDestinationRule, "ns1/a", 1, `{host: reviews, exportTo: ["*"]}`),
		istioObject(t, KindDestinationRule, "ns1/b", 2, `{host: reviews, exportTo: [ns2]}`),
	), nil)
	l := RuleLookup{Candidates: NewReader(pc, nil).DestinationRules(reviews), Root: "istio-system", Service: "ns1"}
	if got := picked(l.Pick("ns3", nil)); got != "ns1/a+ns1/b" {
		t.Errorf("picked %s", got)
	}
}

func TestDestinationRuleKeys(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	_, keys := b.Apply(present(istioObject(t, KindDestinationRule, "ns1/a", 1, `host: reviews`)), nil)
	if !hasKey(keys, TableDestinationRule, reviews) || hasKey(keys, TableWildcardDR, "") {
		t.Errorf("keys %v", keys)
	}
	_, keys = b.Apply(present(istioObject(t, KindDestinationRule, "ns1/a", 1, `host: "*.com"`)), nil)
	for _, k := range []string{reviews, "*.com"} {
		if !hasKey(keys, TableDestinationRule, k) {
			t.Errorf("%s not reported", k)
		}
	}
	if !hasKey(keys, TableWildcardDR, "") {
		t.Error("new wildcard not reported")
	}
	pc, keys := b.Apply(present(istioObject(t, KindDestinationRule, "ns2/b", 1, `host: "*.com"`)), nil)
	if hasKey(keys, TableWildcardDR, "") || !slices.Equal(pc.wildcardRules, []string{"*.com"}) {
		t.Errorf("wildcards %v, keys %v", pc.wildcardRules, keys)
	}
}
