package validate

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

const (
	maxLabel     = 63
	maxDomain    = 255
	maxRegex     = 1024
	maxLabelName = 63
)

func isAlphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// dnsLabel says whether s is [A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])? of at most 63 bytes.
func dnsLabel(s string) bool {
	if s == "" || len(s) > maxLabel || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// wildcardLabel is a label that may hold a wildcard: *, *-x, *x.
func wildcardLabel(s string) bool {
	if s == "*" {
		return true
	}
	rest, ok := strings.CutPrefix(s, "*")
	if ok && rest[0] == '-' {
		rest = rest[1:]
	}
	return dnsLabel(rest)
}

// domainName checks a fully qualified or short domain name without wildcards.
func domainName(s string) error {
	if err := domainLength(s); err != nil {
		return err
	}
	return labels(strings.Split(strings.TrimSuffix(s, "."), "."), dnsLabel, s)
}

// wildcardDomain checks a domain name that may start with a wildcard.
func wildcardDomain(s string) error {
	if err := domainLength(s); err != nil {
		return err
	}
	first, rest, more := strings.Cut(strings.TrimSuffix(s, "."), ".")
	if !wildcardLabel(first) {
		return fmt.Errorf("%q is not a domain name", s)
	}
	if !more {
		return nil
	}
	return labels(strings.Split(rest, "."), dnsLabel, s)
}

func domainLength(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > maxDomain:
		return fmt.Errorf("%q is longer than %d bytes", s, maxDomain)
	}
	return nil
}

func labels(parts []string, valid func(string) bool, name string) error {
	for _, p := range parts {
		if !valid(p) {
			return fmt.Errorf("%q is not a domain name", name)
		}
	}
	if last := parts[len(parts)-1]; len(parts) > 1 && strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("%q is not a domain name: its last part must not be a number", name)
	}
	return nil
}

// partialWildcard says whether the host's first label mixes a wildcard with text, which matches literally in proxies.
func partialWildcard(host string) bool {
	return strings.HasPrefix(host, "*") && host != "*" && !strings.HasPrefix(host, "*.")
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func isPrefix(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// ipOrPrefix checks an address or a block of addresses.
func ipOrPrefix(s string) error {
	if !isIP(s) && !isPrefix(s) {
		return fmt.Errorf("%q is neither an IP address nor a CIDR block", s)
	}
	return nil
}

func portNumber[N int | int32 | uint32 | int64](n N) error {
	if n < 1 || n > 65535 {
		return fmt.Errorf("%d is not a port: it must be between 1 and 65535", n)
	}
	return nil
}

// duration checks that d is at least a millisecond and has no finer part.
func duration(d *durationpb.Duration) error {
	v := d.AsDuration()
	switch {
	case d == nil:
		return nil
	case v < time.Millisecond:
		return fmt.Errorf("%v is shorter than 1ms", v)
	case v%time.Millisecond != 0:
		return fmt.Errorf("%v has parts shorter than 1ms", v)
	}
	return nil
}

// percent checks a percentage of the precision that Envoy has.
func percent(p float64) error {
	if !(p >= 0 && p <= 100) || p > 0 && p < 0.0001 { // what is no number is neither
		return fmt.Errorf("%v is not a percentage: it must be 0 or between 0.0001 and 100", p)
	}
	return nil
}

func regularExpression(s string) error {
	if len(s) > maxRegex {
		return fmt.Errorf("the regular expression is longer than %d bytes", maxRegex)
	}
	if _, err := regexp.Compile(s); err != nil {
		return fmt.Errorf("%q is not an RE2 regular expression: %w", s, err)
	}
	if err := format.Regex(s); err != nil {
		return fmt.Errorf("the regular expression %.100q, which Envoy refuses: %w", s, err)
	}
	return nil
}

// labelKey checks a label's key: an optional domain prefix and a name.
func labelKey(key string) error {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		prefix, name = "", key
	} else if domainName(prefix) != nil {
		return fmt.Errorf("%q is not a label key", key)
	}
	if name == "" || len(name) > maxLabelName || !labelText(name) {
		return fmt.Errorf("%q is not a label key", key)
	}
	return nil
}

// labelText says whether s is made of letters, digits, and -_. inside.
func labelText(s string) bool {
	if !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && !strings.ContainsRune("-_.", rune(s[i])) {
			return false
		}
	}
	return true
}

// labelMap checks the keys and values of labels. Values may be longer than in Kubernetes.
func (c *checker) labelMap(field string, m map[string]string) {
	for _, k := range sortedKeys(m) {
		c.failIf(entry(field, k), labelKey(k))
		if v := m[k]; v != "" && !labelText(v) {
			c.fail(entry(field, k), "%q is not a label value", v)
		}
	}
}

func isUnixAddress(s string) bool { return strings.HasPrefix(s, "unix://") }

// unixAddress checks the path of a socket: absolute, or abstract.
func unixAddress(s string) error {
	path := strings.TrimPrefix(s, "unix://")
	if path == "" {
		return errors.New("the path of the unix socket is missing")
	}
	if path[0] != '/' && path[0] != '@' {
		return fmt.Errorf("%q is not an absolute or abstract unix socket", s)
	}
	const longest = 107 // bytes, of what a socket address holds on Linux
	if len(path) > longest {
		return fmt.Errorf("the path of the unix socket has %d bytes, more than %d", len(path), longest)
	}
	return nil
}
