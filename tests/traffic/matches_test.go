package traffic

import (
	"net/http"
	"testing"
)

// matches are scenarios about which route a request takes.
func matches() []scenario {
	return []scenario{
		{
			name: "match-path", backends: called("exact", "prefix", "regex", "fold", "rest"),
			objects: own("exact", "prefix", "regex", "fold", "rest") + subsets("exact", "prefix", "regex", "fold", "rest") + routed(`
  - {match: [{uri: {exact: /exact}}], route: [`+to("exact")+`]}
  - {match: [{uri: {prefix: /pre}}], route: [`+to("prefix")+`]}
  - {match: [{uri: {regex: '/re[0-9]+'}}], route: [`+to("regex")+`]}
  - {match: [{uri: {prefix: /fold}, ignoreUriCase: true}], route: [`+to("fold")+`]}
  - {route: [`+to("rest")+`]}`),
			exchanges: []exchange{
				{path: "/exact", backend: "exact"},
				{path: "/exact?q=1", backend: "exact"},
				{path: "/exact/below", backend: "rest"},
				{path: "/prefix/below", backend: "prefix"},
				{path: "/re42", backend: "regex"},
				{path: "/re42/", backend: "rest"},
				{path: "/FOLD/x", backend: "fold"},
				{path: "/PRE", backend: "rest"},
			},
		},
		{
			name: "match-request", backends: called("header", "method", "query", "without", "both", "authority", "rest"),
			objects: own("header", "method", "query", "without", "both", "authority", "rest") +
				subsets("header", "method", "query", "without", "both", "authority", "rest") + routed(`
  - {match: [{headers: {x-user: {exact: me}}, queryParams: {v: {exact: "2"}}}], route: [`+to("both")+`]}
  - {match: [{headers: {x-user: {exact: me}}}, {headers: {x-user: {prefix: a-}}}, {headers: {x-user: {regex: "[0-9]{3}"}}}, {headers: {x-any: {}}}], route: [`+to("header")+`]}
  - {match: [{method: {exact: PUT}}], route: [`+to("method")+`]}
  - {match: [{queryParams: {v: {regex: "3+"}}}], route: [`+to("query")+`]}
  - {match: [{authority: {prefix: "match-request.example:77"}}], route: [`+to("authority")+`]}
  - {match: [{uri: {prefix: /w}, withoutHeaders: {x-not: {exact: here}}}], route: [`+to("without")+`]}
  - {route: [`+to("rest")+`]}`),
			exchanges: []exchange{
				{headers: headers{"x-user": "me"}, backend: "header"},
				{headers: headers{"x-user": "a-b"}, backend: "header"},
				{headers: headers{"x-user": "123"}, backend: "header"},
				{headers: headers{"x-user": "1234"}, backend: "rest"},
				{headers: headers{"x-any": "thing"}, backend: "header"},
				{headers: headers{"x-user": "me"}, path: "/?v=2", backend: "both"},
				{method: http.MethodPut, backend: "method"},
				{path: "/?v=333", backend: "query"},
				{path: "/?v=334", backend: "rest"},
				{host: "match-request.example:7777", backend: "authority"},
				{path: "/w", backend: "without"},
				{path: "/w", headers: headers{"x-not": "there"}, backend: "without"},
				{path: "/w", headers: headers{"x-not": "here"}, backend: "rest"},
			},
		},
	}
}

// choices are scenarios about which route a request takes because of who asks, of whose it is, or by chance.
func choices() []scenario {
	return []scenario{
		{
			name: "match-source", backends: called("guests", "callers", "others"),
			objects: own("guests", "callers", "others") + subsets("guests", "callers", "others") + routed(`
  - {match: [{uri: {prefix: /labels}, sourceLabels: {app: caller}}], route: [`+to("callers")+`]}
  - {match: [{uri: {prefix: /labels}, sourceLabels: {app: guest}}], route: [`+to("guests")+`]}
  - {match: [{uri: {prefix: /namespace}, sourceNamespace: guest}], route: [`+to("guests")+`]}
  - {route: [`+to("others")+`]}`),
			exchanges: []exchange{
				{path: "/labels", backend: "callers"},
				{from: "guest", path: "/labels", backend: "guests"},
				{path: "/namespace", backend: "others"},
				{from: "guest", path: "/namespace", backend: "guests"},
				{from: "guest", path: "/", backend: "others"},
			},
		},
		{
			name: "delegates", backends: called("a", "b", "rest"),
			objects: own("a", "b", "rest") + subsets("a", "b", "rest") + routed(`
  - {match: [{uri: {prefix: /team}}], delegate: {name: delegates-team}, headers: {request: {set: {x-root: "yes"}}}}
  - {match: [{uri: {prefix: /gone}}], delegate: {name: nobody}}
  - {route: [`+to("rest")+`]}`) + networking("VirtualService", "delegates-team", `
  http:
  - {match: [{uri: {prefix: /team/a}}], route: [`+to("a")+`]}
  - {match: [{uri: {prefix: /elsewhere}}], route: [`+to("rest")+`]}
  - {route: [`+to("b")+`]}`),
			exchanges: []exchange{
				{path: "/team/a/x", backend: "a", seen: headers{"x-root": "yes"}},
				{path: "/team/other", backend: "b", seen: headers{"x-root": "yes"}},
				{path: "/elsewhere", backend: "rest", seen: headers{"x-root": ""}},
				{path: "/gone", backend: "rest"},
			},
		},
		{
			name: "weights", backends: called("none", "few", "many"),
			objects: own("none", "few", "many") + subsets("none", "few", "many") + routed(`
  - {route: [`+to("none", "weight: 0")+`, `+to("few", "weight: 25")+`, `+to("many", "weight: 75", `headers: {request: {set: {x-many: "1"}}}`)+`]}`),
			then: func(t *testing.T, r *run) {
				c := r.count(t, 400, exchange{})
				between(t, "weight 0", c["none"], 0, 0)
				between(t, "weight 25", c["few"], 50, 160)
				between(t, "together", c["few"]+c["many"], 400, 400)
				if got := r.backends["many"].Last().Headers.Get("x-many"); got != "1" {
					t.Errorf("the destination's own header is %q", got)
				}
				if got := r.backends["few"].Last().Headers.Get("x-many"); got != "" {
					t.Errorf("another destination's header is %q", got)
				}
			},
		},
	}
}
