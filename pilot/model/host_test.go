package model

import (
	"slices"
	"testing"
)

func TestHostMatching(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b            string
		subset, matches bool // a in b; a and b meet
	}{
		{"a.com", "a.com", true, true},
		{"a.com", "b.com", false, false},
		{"a.com", "*.com", true, true},
		{"a.com", "*", true, true},
		{"*.com", "a.com", false, true},
		{"*.a.com", "*.com", true, true},
		{"*.com", "*.a.com", false, true},
		{"*", "a.com", false, true},
		{"*", "*.com", false, true},
		{"*.com", "*", true, true},
		{"*.com", "*.org", false, false},
		{"a.com", "*.a.com", false, false},
		{"ba.com", "*.a.com", false, false},
	} {
		if got := HostSubsetOf(c.a, c.b); got != c.subset {
			t.Errorf("HostSubsetOf(%q, %q) = %v", c.a, c.b, got)
		}
		if got := HostMatches(c.a, c.b); got != c.matches {
			t.Errorf("HostMatches(%q, %q) = %v", c.a, c.b, got)
		}
		if HostMatches(c.a, c.b) != HostMatches(c.b, c.a) {
			t.Errorf("HostMatches(%q, %q) is not symmetric", c.a, c.b)
		}
	}
}

func TestMoreSpecific(t *testing.T) {
	t.Parallel()
	got := []string{"*", "*.com", "b.com", "*.b.com", "*.a.com", "a.com"}
	slices.SortFunc(got, MoreSpecific)
	want := []string{"a.com", "b.com", "*.a.com", "*.b.com", "*.com", "*"}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestResolveShortName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"reviews": "reviews.ns1.svc.cluster.local", "reviews.ns2": "reviews.ns2", "*": "*", "*.com": "*.com",
		"1.2.3.4": "1.2.3.4", "2001:db8::1": "2001:db8::1", "": "",
	} {
		if got := ResolveShortName(in, "ns1", "cluster.local"); got != want {
			t.Errorf("ResolveShortName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestResolveGateway(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"mesh": "mesh", "gw": "ns1/gw", "ns2/gw": "ns2/gw", "./gw": "ns1/gw", "gw.ns2": "ns2/gw",
		"gw.ns2.svc.cluster.local": "ns2/gw",
	} {
		if got := ResolveGateway(in, "ns1"); got != want {
			t.Errorf("ResolveGateway(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParseExportTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list, defaults []string
		public         bool
		sees           []string
	}{
		{nil, nil, true, []string{"ns1", "ns2"}},
		{nil, []string{"."}, false, []string{"ns1"}},
		{[]string{"ns2", "*"}, nil, true, []string{"ns1", "ns2", "ns3"}},
		{[]string{"~"}, nil, false, nil},
		{[]string{"~", "ns2"}, nil, false, nil},
		{[]string{".", "ns3"}, nil, false, []string{"ns1", "ns3"}},
		{[]string{"ns2", "ns3"}, nil, false, []string{"ns2", "ns3"}},
	} {
		v := ParseExportTo(c.list, c.defaults, "ns1")
		if v.Public != c.public {
			t.Errorf("%v: public %v", c.list, v.Public)
		}
		for _, ns := range []string{"ns1", "ns2", "ns3"} {
			if v.Allows(ns) != (c.public || slices.Contains(c.sees, ns)) {
				t.Errorf("%v (default %v): namespace %s sees it: %v", c.list, c.defaults, ns, v.Allows(ns))
			}
		}
	}
}
