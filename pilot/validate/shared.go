package validate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// metadata checks the annotations that have rules of their own.
func (c *checker) metadata() {
	for _, f := range [][2]string{{"metadata.name", c.object.Name}, {"metadata.namespace", c.object.Namespace}} {
		if strings.ContainsFunc(f[1], func(r rune) bool { return r == '/' || unicode.IsControl(r) }) {
			c.fail(f[0], "%.100q holds a slash or a control character", f[1])
		}
	}
	for _, key := range []string{
		"internal.istio.io/webhook-always-reject", "internal.istio.io/parent-namespace", "internal.istio.io/parents",
	} {
		if _, ok := c.object.Annotations[key]; ok {
			c.fail(entry("metadata.annotations", key), "the annotation is reserved")
		}
	}
	if v, ok := c.object.Annotations[dryRun]; ok {
		field := entry("metadata.annotations", dryRun)
		if c.object.Kind != kindAuthorizationPolicy {
			c.fail(field, "only AuthorizationPolicies have a dry run")
		} else if _, err := strconv.ParseBool(v); err != nil {
			c.fail(field, "%q is neither true nor false", v)
		}
	}
}

const dryRun = "istio.io/dry-run"

// exportTo checks the visibility of a networking object.
func (c *checker) exportTo(list []string, noneAllowed bool) {
	const field = "spec.exportTo"
	seen := map[string]bool{}
	for i, v := range list {
		at := index(field, i)
		switch {
		case v == "*" && len(list) > 1:
			c.fail(at, "* makes the object public: nothing else may stand beside it")
		case v == "~" && !noneAllowed:
			c.fail(at, "~ (visible nowhere) is for ServiceEntries only")
		case v == "~" && len(list) > 1:
			c.fail(at, "~ makes the object private: nothing else may stand beside it")
		case v != "*" && v != "." && v != "~" && !dnsLabel(v):
			c.fail(at, "%q is not a namespace, nor one of *, . and ~", v)
		}
		if v == "." {
			v = c.object.Namespace
		}
		if seen[v] {
			c.fail(at, "%q is listed twice", list[i])
		}
		seen[v] = true
	}
}

// gatewayNames checks references to gateways: name, namespace/name, or mesh.
func (c *checker) gatewayNames(field string, names []string) {
	for i, n := range names {
		at := index(field, i)
		namespace, name, qualified := strings.Cut(n, "/")
		switch {
		case qualified && (namespace != "." && !dnsLabel(namespace) || domainName(name) != nil):
			c.fail(at, "%q is not namespace/name", n)
		case qualified:
		case strings.Contains(n, "."):
			c.warn(at, "%q is the old form of a gateway's name; write namespace/name", n)
			c.failIf(at, domainName(n))
		case !dnsLabel(n):
			c.fail(at, "%q is not the name of a gateway", n)
		}
	}
}

// cookieName and header names are tokens of HTTP.
func headerName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		if !isAlphanumeric(name[i]) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(name[i])) {
			return false
		}
	}
	return true
}

// variables checks that the %...% substitutions of a header value are balanced.
func variables(value string) bool {
	for {
		i := strings.IndexByte(value, '%')
		if i < 0 {
			return true
		}
		value = value[i+1:]
		if strings.HasPrefix(value, "%") {
			value = value[1:]
			continue
		}
		end := strings.IndexByte(value, '%')
		if open := strings.IndexByte(value, '('); open >= 0 && open < end {
			closing := strings.Index(value, ")%")
			if closing < 0 {
				// The format after a closing bracket: %START_TIME(%s)%, %DYNAMIC_METADATA(a:b):10%
				closing = strings.LastIndexByte(value, ')')
			}
			if closing < 0 {
				return false
			}
			if end = strings.IndexByte(value[closing:], '%'); end >= 0 {
				end += closing
			}
		}
		if end < 0 {
			return false
		}
		value = value[end+1:]
	}
}
