package endpoint

import (
	"fmt"
	"slices"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

func TestPlaceMatchesPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		place, pattern string
		want           bool
	}{
		{"eu/eu-1/r1", "eu/eu-1/r1", true},
		{"eu/eu-1/r1", "eu/*", true},
		{"eu/eu-1/r1", "eu", true},
		{"eu/eu-1/r1", "*", true},
		{"", "*", true},
		{"eu/eu-1", "eu/eu-2", false},
		{"eu", "eu/eu-1", false},
		{"us/eu-1", "eu/*", false},
	} {
		if got := localityMatches(c.place, c.pattern); got != c.want {
			t.Errorf("place %q, pattern %q: %v", c.place, c.pattern, got)
		}
	}
}

func TestDistanceGrowsWithThePartThatDiffers(t *testing.T) {
	t.Parallel()
	for place, want := range map[string]uint32{
		"eu/eu-1/r1": 0, "eu/eu-1/r2": 1, "eu/eu-1": 1, "eu/eu-2/r1": 2, "us/eu-1/r1": 3, "": 3,
	} {
		if got := distance("eu/eu-1/r1", place); got != want {
			t.Errorf("to %q: %d, want %d", place, got, want)
		}
	}
}

func TestPriorityIsTheFirstLabelThatDiffers(t *testing.T) {
	t.Parallel()
	own := []label{{traffic.LabelNetwork, "n1"}, {traffic.LabelRegion, "r1"}}
	for _, c := range []struct {
		network, region string
		want            uint32
	}{{"n1", "r1", 0}, {"n1", "r2", 1}, {"n2", "r1", 2}, {"n2", "r2", 3}} {
		e := &model.Endpoint{Labels: map[string]string{traffic.LabelNetwork: c.network, traffic.LabelRegion: c.region}}
		if got := mismatch(own, e); got != c.want {
			t.Errorf("network %s, region %s: %d, want %d", c.network, c.region, got, c.want)
		}
	}
	if got := mismatch([]label{{"a", "x"}, {"b", "y"}, {"c", "z"}}, &model.Endpoint{Labels: map[string]string{"a": "x"}}); got != 2 {
		t.Errorf("the second of three labels differs: %d", got)
	}
}

func groupsOf(sizes map[string]uint32) *builder {
	b := &builder{}
	for place, n := range sizes {
		g := &group{locality: place}
		for range n {
			g.put(&model.Endpoint{}, &endpointv3.LbEndpoint{LoadBalancingWeight: wrapperspb.UInt32(1)})
		}
		b.groups = append(b.groups, g)
	}
	slices.SortFunc(b.groups, func(x, y *group) int { return slices.Compare([]byte(x.locality), []byte(y.locality)) })
	return b
}

func TestWeightIsSharedInProportionRoundedUp(t *testing.T) {
	t.Parallel()
	b := groupsOf(map[string]uint32{"r1/z1": 1, "r1/z2": 2, "r2/z1": 5, "r3": 1})
	left := b.groups
	to := map[string]uint32{"r1": 80, "r2/*": 20}
	for _, place := range destinations(to) {
		left = share(left, place, to[place])
	}
	var got []string
	for _, g := range b.groups {
		got = append(got, fmt.Sprintf("%s=%d", g.locality, g.weight))
	}
	want := []string{"r1/z1=27", "r1/z2=54", "r2/z1=20", "r3=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(left) != 1 || left[0].locality != "r3" {
		t.Errorf("left over: %v", left)
	}
}

func TestTheMostExactDestinationTakesAPlaceFirst(t *testing.T) {
	t.Parallel()
	got := destinations(map[string]uint32{"*": 1, "a/*": 2, "a/b/c": 3, "a/b": 4})
	if want := []string{"a/b/c", "a/b", "a/*", "*"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPrioritiesHaveNoHoles(t *testing.T) {
	t.Parallel()
	b := &builder{groups: []*group{{priority: 7}, {priority: 0}, {priority: 3}, {priority: 7}}}
	b.compact()
	var got []uint32
	for _, g := range b.groups {
		got = append(got, g.priority)
	}
	if want := []uint32{2, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
