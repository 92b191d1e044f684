// Package format reads Envoy's language of substitutions, in which header values and access logs are written: commands
// such as %REQ(x-id)% among literal text. Envoy refuses all that comes along with a text that it does not understand, so
// that such a text must be found before.
package format

import (
	"slices"
	"strconv"
	"strings"
)

// Valid tells whether Envoy understands text.
func Valid(text string) bool {
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			return true
		}
		text = text[i+1:]
		if rest, ok := strings.CutPrefix(text, "%"); ok {
			text = rest
			continue
		}
		c, rest, ok := read(text)
		if !ok || !c.valid() {
			return false
		}
		text = rest
	}
}

// Header returns text if Envoy understands it, and else what yields text as it is written: a header that is set must be
// set to something, since what the client sent under its name must not get through.
func Header(text string) string {
	if Valid(text) {
		return text
	}
	return strings.ReplaceAll(text, "%", "%%")
}

// command is one substitution.
type command struct {
	name, params     string
	hasParams, limit bool
}

// maxDigits is how long a limit may be, so that it is a number that Envoy can hold.
const maxDigits = 18

// read reads a command up to its closing %, after the opening one. Parameters go to the first parenthesis that leaves
// a command.
func read(text string) (c command, rest string, ok bool) {
	n := 0
	for n < len(text) && (text[n] >= 'A' && text[n] <= 'Z' || text[n] >= '0' && text[n] <= '9' || text[n] == '_') {
		n++
	}
	if n == 0 {
		return c, "", false
	}
	c.name, text = text[:n], text[n:]
	if !strings.HasPrefix(text, "(") {
		rest, ok = c.end(text)
		return c, rest, ok
	}
	c.hasParams = true
	for i := 1; i < len(text); i++ {
		if text[i] == '\n' {
			break
		}
		if text[i] != ')' {
			continue
		}
		if rest, ok = c.end(text[i+1:]); ok {
			c.params = text[1:i]
			return c, rest, true
		}
	}
	return c, "", false
}

// end reads what may stand between the parameters and the closing %: a limit.
func (c *command) end(text string) (rest string, ok bool) {
	if digits, limited := strings.CutPrefix(text, ":"); limited {
		n := 0
		for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
			n++
		}
		if n == 0 || n > maxDigits {
			return "", false
		}
		c.limit, text = true, digits[n:]
	}
	return strings.CutPrefix(text, "%")
}

func (c *command) valid() bool {
	switch c.name {
	case "REQ", "RESP", "TRAILER", "REQUEST_HEADER", "RESPONSE_HEADER", "RESPONSE_TRAILER":
		return headerNames(c.params)
	case "QUERY_PARAM", "ENVIRONMENT", "DYNAMIC_METADATA", "CEL":
		return c.params != ""
	case "CLUSTER_METADATA", "UPSTREAM_METADATA":
		return c.params != "" && !c.limit
	case "START_TIME", "START_TIME_LOCAL", "EMIT_TIME", "EMIT_TIME_LOCAL", "RESPONSE_CODE_DETAILS", "DOWNSTREAM_PEER_CERT_V_START",
		"DOWNSTREAM_PEER_CERT_V_END", "UPSTREAM_PEER_CERT_V_START", "UPSTREAM_PEER_CERT_V_END":
		return !c.limit
	case "GRPC_STATUS":
		return !c.limit && slices.Contains([]string{"", "CAMEL_STRING", "SNAKE_STRING", "NUMBER"}, c.params)
	case "FILTER_STATE", "UPSTREAM_FILTER_STATE":
		return filterState(c.params)
	case "METADATA":
		kind, _, _ := strings.Cut(c.params, ":")
		return !c.limit && slices.Contains([]string{"DYNAMIC", "CLUSTER", "ROUTE", "UPSTREAM_HOST", "LISTENER", "VIRTUAL_HOST", "LISTENER_FILTER_CHAIN"}, kind)
	case "COMMON_DURATION":
		parts := strings.Split(c.params, ":")
		return len(parts) == 3 && parts[0] != "" && parts[1] != "" && slices.Contains([]string{"ms", "us", "ns"}, parts[2])
	case "PATH":
		query, kind, both := strings.Cut(c.params, ":")
		return slices.Contains([]string{"", "WQ", "NQ"}, query) && (!both || slices.Contains([]string{"ORIG", "PATH", "ORIG_OR_PATH"}, kind))
	}
	if _, mask, ok := strings.Cut(c.params, "MASK_PREFIX_LEN:"); ok && strings.HasSuffix(c.name, "_ADDRESS_WITHOUT_PORT") {
		n, err := strconv.Atoi(mask)
		return err == nil && n >= 0 && n <= 32 && !c.limit
	}
	return c.params == "" && !c.limit && slices.Contains(strings.Fields(plain()), c.name)
}

// headerNames tells whether params are a header's name, and another for when the first is not there.
func headerNames(params string) bool {
	first, second, both := strings.Cut(params, "?")
	return headerName(first) && (!both || headerName(second))
}

func headerName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '?' || s[i] == '(' || s[i] == ')' {
			return false
		}
	}
	return s != ""
}

// filterState reads "key[:PLAIN|TYPED|FIELD:name]".
func filterState(params string) bool {
	parts := strings.Split(params, ":")
	switch {
	case parts[0] == "" || len(parts) > 3:
		return false
	case len(parts) == 1:
		return true
	case len(parts) == 2:
		return parts[1] == "PLAIN" || parts[1] == "TYPED"
	}
	return parts[1] == "FIELD" && parts[2] != ""
}
