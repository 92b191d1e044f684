package simulate

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// matchString tells whether a value matches.
func matchString(m *matcherv3.StringMatcher, v string) bool {
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(v) == fold(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(v), fold(p.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(v), fold(p.Suffix))
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(v), fold(p.Contains))
	case *matcherv3.StringMatcher_SafeRegex:
		return matchRegex(p.SafeRegex.GetRegex(), v)
	}
	return false
}

// matchRegex tells whether an expression matches all of a value. RE2's syntax is that of package regexp.
func matchRegex(expression, v string) bool {
	r, err := regexp.Compile("^(?:" + expression + ")$")
	return err == nil && r.MatchString(v)
}

func (w *walker) headersMatch(list []*routev3.HeaderMatcher) bool {
	for _, m := range list {
		if !w.headerMatches(m) {
			return false
		}
	}
	return true
}

// headerMatches evaluates one matcher. A header that is not there matches nothing, not even an inverted matcher, unless
// it is to be taken as empty; only matchers of presence see that it is not there.
func (w *walker) headerMatches(m *routev3.HeaderMatcher) bool {
	v, has := w.q.header(m.GetName())
	if p, ok := m.GetHeaderMatchSpecifier().(*routev3.HeaderMatcher_PresentMatch); ok {
		has = has || m.GetTreatMissingHeaderAsEmpty()
		return (has == p.PresentMatch) != m.GetInvertMatch()
	}
	if m.GetHeaderMatchSpecifier() == nil {
		return has != m.GetInvertMatch()
	}
	if !has && !m.GetTreatMissingHeaderAsEmpty() {
		return false
	}
	return headerValue(m, v) != m.GetInvertMatch()
}

//nolint:staticcheck // the older forms are still sent to proxies that know no other
func headerValue(m *routev3.HeaderMatcher, v string) bool {
	switch p := m.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_StringMatch:
		return matchString(p.StringMatch, v)
	case *routev3.HeaderMatcher_ExactMatch:
		return v == p.ExactMatch
	case *routev3.HeaderMatcher_PrefixMatch:
		return strings.HasPrefix(v, p.PrefixMatch)
	case *routev3.HeaderMatcher_SuffixMatch:
		return strings.HasSuffix(v, p.SuffixMatch)
	case *routev3.HeaderMatcher_ContainsMatch:
		return strings.Contains(v, p.ContainsMatch)
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return matchRegex(p.SafeRegexMatch.GetRegex(), v)
	case *routev3.HeaderMatcher_RangeMatch:
		n, err := strconv.ParseInt(v, 10, 64)
		return err == nil && n >= p.RangeMatch.GetStart() && n < p.RangeMatch.GetEnd()
	}
	return false
}

func (w *walker) queryMatches(list []*routev3.QueryParameterMatcher) bool {
	_, query, _ := strings.Cut(w.q.Path, "?")
	query, _, _ = strings.Cut(query, "#")
	// what is not well formed is left out, as the proxy does
	values, _ := url.ParseQuery(query)
	for _, m := range list {
		v, has := values[m.GetName()]
		switch p := m.GetQueryParameterMatchSpecifier().(type) {
		case *routev3.QueryParameterMatcher_StringMatch:
			if !has || !matchString(p.StringMatch, v[0]) {
				return false
			}
		case *routev3.QueryParameterMatcher_PresentMatch:
			if has != p.PresentMatch {
				return false
			}
		default:
			if !has {
				return false
			}
		}
	}
	return true
}

// shareOf returns a fraction in percent.
func shareOf(p *typev3.FractionalPercent) float64 {
	per := map[typev3.FractionalPercent_DenominatorType]float64{
		typev3.FractionalPercent_HUNDRED: 1, typev3.FractionalPercent_TEN_THOUSAND: 100, typev3.FractionalPercent_MILLION: 10_000,
	}[p.GetDenominator()]
	return float64(p.GetNumerator()) / per
}

func fraction(p *typev3.FractionalPercent) string {
	return fmt.Sprintf("%.4g %%", shareOf(p))
}
