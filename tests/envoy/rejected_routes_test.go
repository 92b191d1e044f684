package envoy

import (
	"fmt"
	"slices"
	"strings"
)

// oddRouteInputs are HTTP routes.
func oddRouteInputs() []oddity {
	return slices.Concat(oddHeaders(), oddMatches(), oddActions(), oddRegexes(), oddRouteFilters(), oddRouteHosts())
}

// formats are header values in Envoy's language of substitutions: wrong ones, and some right.
func formats() []string {
	return []string{
		"%NOSUCH%", "%REQ(%", "%REQ(", "%", "50% off", "100%", "%%", "%%%", "%REQ()%", "%REQ(a?b?c)%", "%REQ(a):x%", "%REQ(x-a):5%",
		"%START_TIME(%", "%START_TIME(%Q)%", "%START_TIME(%s.%3f)%", "%DYNAMIC_METADATA()%", "%DYNAMIC_METADATA(a:b:c)%",
		"%UPSTREAM_METADATA%", `%UPSTREAM_METADATA([\"a\"])%`, `%UPSTREAM_METADATA([\"a\", \"b\"])%`, "%PER_REQUEST_STATE%", "%FILTER_STATE()%",
		"%FILTER_STATE(a:TYPED)%", "%FILTER_STATE(a:NOSUCH)%", "%ENVIRONMENT(HOME)%", "%ENVIRONMENT%", "%DOWNSTREAM_PEER_CERT_V_START(%", "%PROTOCOL%",
		"%PROTOCOL()%", "%PROTOCOL(x)%", "%PROTOCOL:5%", "%RESPONSE_CODE%", "%CEL(request.headers)%", "%CEL(%", "%REQ_WITHOUT_QUERY(a)%", "%METADATA(ROUTE:a:b)%",
		"%METADATA(NOSUCH:a:b)%", "%QUERY_PARAM(a)%", "%COMMON_DURATION(a:b:c)%", "%COMMON_DURATION(DS_RX_BEG:DS_RX_END:ms)%", "%UNIQUE_ID%",
		"%hostname%", "%HOSTNAME%", "%TRAILER(a)%", "%RESP(a)%", "%RESP(:status)%", "%LOCAL_REPLY_BODY%", "%PATH(WQ:ORIG)%", "%PATH(XX)%",
		"%UPSTREAM_HOST%", "%CONNECTION_ID%", "%ACCESS_LOG_TYPE%", "%TRACE_ID%", "%SPAN_ID%", "%FILTER_CHAIN_NAME%", "%VIRTUAL_CLUSTER_NAME%",
		"%DOWNSTREAM_PEER_SUBJECT%", "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT(%", "a%2Fb", "%E4%BD%A0", "%REQ(a)% and %", `a\nb`, `a\rb`, `a\0b`, `\u00e9`,
		`\x7f`, "%SECRET(a)%", "%REQUEST_HEADER(a)%", "%GENERATE_UUID%", "%FILE_CONTENT(/etc/hosts)%", "%FILE_CONTENT(/nosuch)%",
		"%RESPONSE_FLAGS(LONG)%", "%DOWNSTREAM_LOCAL_URI_SAN:3%", "%REQ(a):99999999999999999999%", "%REQ(a):-1%", "%REQ(a):%", "%DURATION()%", "%BYTES_SENT:3%",
		"%START_TIME%", "%START_TIME()%", "%START_TIME(%E4n)%", "%EMIT_TIME(%f)%", "%START_TIME(%1f%2f%9f)%", "%START_TIME(a(b))%",
		"%START_TIME_LOCAL(%Y)%", "%DOWNSTREAM_PEER_CERT_V_END(%Y)%", "%UPSTREAM_PEER_CERT_V_START(%b)%", "%REQ(a\\tb)%",
	}
}

func oddHeaders() []oddity {
	var out []oddity
	for _, f := range formats() {
		out = append(out, oddRoutes(fmt.Sprintf(`headers: {request: {set: {x-a: "%s"}}}`, f))...)
	}
	out = append(out, oddRoutes(
		`headers: {response: {set: {x-a: "%NOSUCH%"}}}`, `headers: {response: {add: {x-a: "%"}}}`, `headers: {request: {add: {x-a: "%REQ("}}}`,
		`route: [{destination: {host: HOST}, headers: {request: {set: {x-a: "%NOSUCH%"}}}}]`,
		`route: [{destination: {host: HOST}, weight: 1, headers: {request: {set: {x-a: "%NOSUCH%"}}, response: {add: {b: "%"}}}}, {destination: {host: b}, weight: 1}]`,
		`directResponse: {status: 200}, headers: {response: {set: {x-a: "%NOSUCH%"}}}`,
		`redirect: {uri: /a}, headers: {response: {set: {x-a: "%NOSUCH%"}}}`,
		`headers: {request: {set: {"": a}}}`, `headers: {request: {set: {"a b": a}}}`, `headers: {request: {set: {"a\nb": a}}}`, `headers: {request: {set: {"ä": a}}}`,
		`headers: {request: {set: {"a\0": a}}}`, `headers: {request: {set: {":path": /a}}}`, `headers: {request: {set: {":authority": "a b"}}}`, `headers: {request: {set: {Host: "a\nb"}}}`,
		`headers: {request: {set: {x-a: ""}}}`, `headers: {response: {set: {":status": "200"}}}`, `headers: {response: {set: {HOST: a}}}`,
		`headers: {request: {remove: [""]}}`, `headers: {request: {remove: ["a b"]}}`, `headers: {request: {remove: ["a\nb"]}}`, `headers: {request: {remove: [":path", host, Host, ":authority"]}}`,
		`headers: {request: {remove: [x-envoy-original-path, x-forwarded-for, content-length]}}`, `headers: {response: {remove: ["", ":status", "a:b"]}}`,
		`headers: {request: {set: {content-length: "1", transfer-encoding: chunked, connection: close}}}`,
		fmt.Sprintf(`headers: {request: {set: {x-a: "%s"}}}`, strings.Repeat("a", 20_000)),
		fmt.Sprintf(`headers: {request: {set: {"%s": a}}}`, strings.Repeat("a", 20_000)),
		fmt.Sprintf(`headers: {request: {set: {%s}}}`, manyHeaders(1200)),
		fmt.Sprintf(`headers: {request: {remove: [%s]}}`, strings.TrimSuffix(strings.Repeat("a,", 2000), ",")),
		fmt.Sprintf(`headers: {response: {add: {%s}}}`, manyHeaders(1001)),
	)...)
	return out
}

func manyHeaders(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("x-%d: a", i)
	}
	return strings.Join(list, ", ")
}

func oddMatches() []oddity {
	var out []oddity
	for _, m := range []string{
		`uri: {exact: ""}`, `uri: {prefix: ""}`, `uri: {regex: ""}`, `uri: {exact: a}`, `uri: {prefix: a}`, `uri: {exact: "/a?b#c"}`, `uri: {prefix: "/a\nb"}`, `uri: {prefix: "/a\0b"}`, `uri: {}`,
		`uri: {exact: "*"}`, `uri: {prefix: "/é"}`, `uri: {prefix: "//"}`, `uri: {prefix: "/a/"}, ignoreUriCase: true`, `uri: {regex: "/a"}, ignoreUriCase: true`,
		`headers: {"": {exact: a}}`, `headers: {"a b": {exact: a}}`, `headers: {"a\nb": {exact: a}}`, `headers: {x: {exact: ""}}`, `headers: {x: {prefix: ""}}`, `headers: {x: {regex: ""}}`, `headers: {x: {}}`,
		`headers: {x: {regex: "["}}`, `headers: {x: {regex: "*"}}`, `headers: {x: {exact: "a\nb"}}`, `headers: {":path": {exact: a}}`, `headers: {"é": {exact: a}}`, `headers: {X-A: {exact: a}}`,
		`withoutHeaders: {"": {exact: a}}`, `withoutHeaders: {x: {regex: "("}}`, `withoutHeaders: {x: {prefix: ""}}`, `withoutHeaders: {x: {}}`,
		`headers: {"@request.auth.claims": {exact: a}}`, `headers: {"@request.auth.claims.a": {exact: a}}`, `headers: {"@request.auth.claims[a][b]": {regex: "("}}`, `headers: {"@request.auth.claims[": {exact: a}}`, `headers: {"@request.auth.claims[]": {exact: a}}`, `headers: {"@request.auth.claims.": {prefix: ""}}`, `headers: {"@request.auth.claims.a": {}}`, `headers: {"@request.auth.claims.a": {exact: ""}}`,
		`headers: {"@request.auth.other": {exact: a}}`, `withoutHeaders: {"@request.auth.claims.a": {regex: "*"}}`,
		`method: {exact: ""}`, `method: {regex: "["}`, `method: {}`, `scheme: {regex: "*"}`, `scheme: {prefix: ""}`, `authority: {exact: ""}`, `authority: {regex: "+"}`, `authority: {prefix: ""}`,
		`queryParams: {"": {exact: a}}`, `queryParams: {a: {exact: ""}}`, `queryParams: {a: {prefix: ""}}`, `queryParams: {a: {regex: "("}}`, `queryParams: {a: {}}`, `queryParams: {"a\nb": {exact: a}}`,
		`name: "a\nb", statPrefix: "a.b"`, `statPrefix: ""`, `statPrefix: "\n"`, `port: 0`, `port: 70000`, `sourceLabels: {"": a}`, `gateways: [mesh, ""]`, `sourceNamespace: "\n"`,
	} {
		out = append(out, oddRoutes("match: [{"+m+"}]")...)
	}
	long := strings.Repeat("a", 2000)
	return append(out, oddRoutes(
		fmt.Sprintf(`match: [{queryParams: {%s: {exact: a}}}]`, long), fmt.Sprintf(`match: [{headers: {%s: {exact: %s}}}]`, long, long),
		fmt.Sprintf(`match: [{uri: {prefix: /%s}}]`, strings.Repeat("a", 100_000)), fmt.Sprintf(`match: [{statPrefix: %s}]`, long),
		fmt.Sprintf(`name: %s, match: [{name: %s}]`, long, long),
	)...)
}

func oddActions() []oddity {
	mega := strings.Repeat("b", 1<<20)
	return oddRoutes(
		`rewrite: {uri: ""}`, `rewrite: {uri: "a"}`, `rewrite: {uri: "/a\nb"}`, `rewrite: {uri: "/a\0"}`, `rewrite: {uri: "/a?b#c"}`, `rewrite: {authority: ""}`, `rewrite: {authority: "a b"}`, `rewrite: {authority: "a\nb"}`, `rewrite: {authority: "a\0"}`, `rewrite: {authority: "%REQ("}`, `rewrite: {uri: "%REQ(x)%"}`, `rewrite: {}`,
		`rewrite: {uriRegexRewrite: {match: "", rewrite: ""}}`, `rewrite: {uriRegexRewrite: {match: "(", rewrite: "a"}}`, `rewrite: {uriRegexRewrite: {match: "a", rewrite: "\\1"}}`, `rewrite: {uriRegexRewrite: {match: "(a)", rewrite: "\\2"}}`, `rewrite: {uriRegexRewrite: {match: "(a)", rewrite: "\\"}}`, `rewrite: {uriRegexRewrite: {match: "(a)", rewrite: "\\x"}}`, `rewrite: {uriRegexRewrite: {match: "(a)", rewrite: "a\nb"}}`, `rewrite: {uriRegexRewrite: {match: "a", rewrite: ""}}`, `rewrite: {uriRegexRewrite: {rewrite: "/x"}}`,
		`rewrite: {uri: /b, uriRegexRewrite: {match: "a", rewrite: "b"}}`, `match: [{uri: {regex: "/a.*"}}], rewrite: {uri: /b}`, `match: [{uri: {exact: "/a"}}], rewrite: {uri: b}`, `match: [{headers: {x: {exact: a}}}], rewrite: {uri: /b}`, `rewrite: {uriRegexRewrite: {match: "(a)", rewrite: "\\\\1\\0"}}`,
		`redirect: {uri: ""}`, `redirect: {uri: "a b"}`, `redirect: {uri: "/a\nb"}`, `redirect: {uri: "/\0"}`, `redirect: {authority: "a\nb"}`, `redirect: {authority: "a b"}`, `redirect: {scheme: ""}`, `redirect: {scheme: "a\nb"}`, `redirect: {scheme: ftp}`, `redirect: {redirectCode: 200}`, `redirect: {redirectCode: 999}`, `redirect: {port: 0}`, `redirect: {port: 70000}`, `redirect: {port: 4294967295}`, `redirect: {derivePort: FROM_REQUEST_PORT}`, `redirect: {derivePort: FROM_PROTOCOL_DEFAULT}`, `redirect: {}`, `redirect: {prefixRewrite: "a\nb"}`, `redirect: {uri: "%NOSUCH%", authority: "%REQ("}`, `redirect: {prefixRewrite: /b}, match: [{uri: {regex: "/a"}}]`,
		`redirect: {uri: /x}, route: [{destination: {host: HOST}}], directResponse: {status: 200}`,
		`directResponse: {status: 0}`, `directResponse: {status: 99}`, `directResponse: {status: 100}`, `directResponse: {status: 101}`, `directResponse: {status: 199}`, `directResponse: {status: 204, body: {string: a}}`, `directResponse: {status: 599}`, `directResponse: {status: 600}`, `directResponse: {status: 4294967295}`, `directResponse: {}`,
		`directResponse: {status: 200, body: {string: ""}}`, `directResponse: {status: 200, body: {bytes: ""}}`, `directResponse: {status: 200, body: {}}`, `directResponse: {status: 200, body: {string: "a\0b"}}`, `directResponse: {status: 200, body: {string: "%NOSUCH%"}}`,
		fmt.Sprintf(`directResponse: {status: 200, body: {string: "%s"}}`, mega), fmt.Sprintf(`directResponse: {status: 200, body: {string: "%sx"}}`, mega),
		`timeout: -1s`, `timeout: 0s`, `timeout: 0.000000001s`, `timeout: 315576000000s`, `timeout: 9223372036s`, `timeout: 9223372037s`, `timeout: 100000000000s`,
		`retries: {attempts: -1}`, `retries: {attempts: 2147483647}`, `retries: {attempts: 1, perTryTimeout: -1s}`, `retries: {attempts: 1, perTryTimeout: 315576000000s}`, `retries: {attempts: 1, perTryTimeout: 0.0000001s}`,
		`retries: {attempts: 1, retryOn: "nosuch"}`, `retries: {attempts: 1, retryOn: "599,600,99,0,-1,4294967296"}`, `retries: {attempts: 1, retryOn: "503,,503, ,5xx"}`, `retries: {attempts: 1, retryOn: "a\nb"}`, `retries: {attempts: 1, retryOn: "100,101,102,103"}`, `retries: {attempts: 1, retryOn: "retriable-headers"}`,
		`retries: {attempts: 1, backoff: 0.0001s}`, `retries: {attempts: 1, backoff: -1s}`, `retries: {attempts: 1, backoff: 0.000000001s}`, `retries: {attempts: 1, backoff: 315576000000s}`, `retries: {attempts: 1, backoff: 1000000000s}`, `retries: {attempts: 1, retryRemoteLocalities: true, retryIgnorePreviousHosts: false}`,
		`mirror: {host: b}, mirrorPercentage: {value: -1}`, `mirror: {host: b}, mirrorPercentage: {value: 1e300}`, `mirror: {host: b}, mirrorPercentage: {value: NaN}`, `mirror: {host: b}, mirrorPercentage: {value: Infinity}`, `mirror: {host: b}, mirrorPercent: 101`, `mirror: {host: b}, mirrorPercent: 4294967295`, `mirror: {host: ""}`, `mirror: {}`, `mirror: {host: "a\nb"}`, `mirrors: [{percentage: {value: NaN}, destination: {host: b}}, {destination: {host: ""}}, {}]`, `mirror: {host: HOST, subset: "a|b", port: {number: 4294967295}}`,
		`route: [{destination: {host: ""}}]`, `route: [{}]`, `route: [{destination: {}}]`, `route: [{destination: {host: "a\nb"}}]`, `route: [{destination: {host: HOST, port: {number: 0}}}]`, `route: [{destination: {host: HOST, port: {number: 4294967295}}}]`, `route: [{destination: {host: HOST, subset: "\n"}}]`, `route: []`,
		`route: [{destination: {host: HOST}, weight: -1}]`, `route: [{destination: {host: HOST}, weight: -1}, {destination: {host: b}, weight: 5}]`, `route: [{destination: {host: a}, weight: 2147483647}, {destination: {host: b}, weight: 2147483647}, {destination: {host: c}, weight: 2147483647}]`, `route: [{destination: {host: a}, weight: 0}, {destination: {host: b}, weight: 0}]`, `route: [{destination: {host: HOST}, weight: 1}, {destination: {host: HOST}, weight: 1}]`, `route: [{weight: 1}, {weight: 2}]`,
		`route: [{destination: {host: HOST}, weight: 1, headers: {request: {set: {host: "a\nb"}}}}, {destination: {host: b}, weight: 1, headers: {request: {set: {"": a}, remove: ["", "a b"]}}}]`,
		`delegate: {name: nosuch}`, `delegate: {name: "\n", namespace: "/"}`, `name: "\n"`,
	)
}

func oddRegexes() []oddity {
	var out []oddity
	for _, r := range []string{
		"(", "[", "*", "+", "a**", "(?=a)", "(?!a)", "(?<=a)", "(?P<n>a)", "(?<n>a)", `\\1`, `\\d+`, `\\Q[\\E`, `\\pN`, `\\p{Greek}`, `\\p{Nosuch}`, `\\C`, `a{1001}`, `a{1000}`, `(a{100}){100}`, `(?i)abc`, `(?x)a`, `(?U)a+`, `[[:word:]]`, `[[:nosuch:]]`, `\\z`, `\\Z`, `\\A`, `\\b`, `x*+`, `(?:)`, `|`, `a||b`, `^$`, `(?s).`, `\\xff`, `\\x{10FFFF}`, `\\x{110000}`, `[\\x{100}-\\x{10FFFF}]`, `é`, `\0`, `a\nb`, `(?i)ſ`, `\\k<n>`, `(?#c)`, `\\K`, `\\G`, `\\h`, `\\R`, `\\X`, `(?>a)`, `a{2,1}`, `a{,5}`, `a{`, `[]a]`, `[^]`, `[a-]`, `[z-a]`, `(?i`, `(?P<n>a)(?P<n>b)`, `(?P<1n>a)`, `(?P=n)`, `\\07`, `\\8`, `\\c`, `\\u0041`, `(?-i)a`, `(?i-s:a)`, `(((((((((((((((((((((a)))))))))))))))))))))`, `.{500}`, `(.*a){30}`, `[^/]+/[^/]+/[^/]+/.*`, `(\\pL{30}|\\pN{30}){10}`,
	} {
		out = append(out, oddRoutes(fmt.Sprintf(`match: [{uri: {regex: "%s"}}]`, r))...)
	}
	deep := strings.Repeat("(", 1500) + "a" + strings.Repeat(")", 1500)
	wide := strings.TrimSuffix(strings.Repeat("abcdefghij|", 3000), "|")
	return append(out, oddRoutes(
		fmt.Sprintf(`match: [{uri: {regex: "%s"}}]`, deep), fmt.Sprintf(`match: [{uri: {regex: "%s"}}]`, wide), fmt.Sprintf(`match: [{headers: {x: {regex: "%s"}}}]`, wide),
		fmt.Sprintf(`match: [{uri: {regex: "%s"}}]`, strings.Repeat("(((a?)*)*)*", 300)), `match: [{uri: {regex: "/(?i)([a-z]{1,60}|[0-9]{1,60})/[\\p{L}]{1,60}"}}]`,
		fmt.Sprintf(`rewrite: {uriRegexRewrite: {match: "%s", rewrite: a}}`, wide), fmt.Sprintf(`corsPolicy: {allowOrigins: [{regex: "%s"}]}`, wide),
		fmt.Sprintf(`match: [{uri: {regex: "%s"}}]`, strings.Repeat("[a-z0-9]", 40_000)),
	)...)
}

func oddRouteFilters() []oddity {
	var out []oddity
	for _, c := range []string{
		``, `allowOrigins: [{}]`, `allowOrigins: [{exact: ""}]`, `allowOrigins: [{prefix: ""}]`, `allowOrigins: [{regex: ""}]`, `allowOrigins: [{regex: "("}]`, `allowOrigins: [{regex: "*"}]`, `allowOrigin: [""]`, `allowOrigin: ["a\nb"]`,
		`allowMethods: [""]`, `allowMethods: ["a\nb"]`, `allowHeaders: ["a\nb", ""]`, `exposeHeaders: ["\0"]`, `maxAge: -5s`, `maxAge: 315576000000s`, `maxAge: 0.5s`, `allowCredentials: true, allowOrigins: [{exact: "*"}]`, `unmatchedPreflights: IGNORE`,
	} {
		out = append(out, oddRoutes("corsPolicy: {"+c+"}")...)
	}
	for _, f := range []string{
		`delay: {}`, `delay: {fixedDelay: 0s}`, `delay: {fixedDelay: -1s}`, `delay: {fixedDelay: 315576000000s, percentage: {value: 1}}`, `delay: {fixedDelay: 0.0000001s}`, `delay: {fixedDelay: 1s, percentage: {value: NaN}}`, `delay: {fixedDelay: 1s, percentage: {value: 1e300}}`, `delay: {fixedDelay: 1s, percentage: {value: -1}}`, `delay: {fixedDelay: 1s, percent: 101}`, `delay: {fixedDelay: 1s, percent: -5}`, `delay: {fixedDelay: 1s, percent: 2147483647}`, `delay: {exponentialDelay: 1s}`,
		`abort: {}`, `abort: {httpStatus: 0}`, `abort: {httpStatus: 199}`, `abort: {httpStatus: 200}`, `abort: {httpStatus: 599}`, `abort: {httpStatus: 600}`, `abort: {httpStatus: -1}`, `abort: {httpStatus: 2147483647}`, `abort: {grpcStatus: NOSUCH}`, `abort: {grpcStatus: ""}`, `abort: {grpcStatus: "5"}`, `abort: {grpcStatus: "OK"}`, `abort: {grpcStatus: UNAVAILABLE, percentage: {value: NaN}}`, `abort: {http2Error: "a"}`, `abort: {httpStatus: 500, percentage: {value: -Infinity}}`, `delay: {fixedDelay: 1s}, abort: {httpStatus: 600}`,
	} {
		out = append(out, oddRoutes("fault: {"+f+"}")...)
	}
	return out
}

// oddRouteHosts are VirtualServices for hosts that no service has, or that clash.
func oddRouteHosts() []oddity {
	long := strings.Repeat("a", 300)
	hosts := []string{
		`""`, `"*"`, `"*.HOST"`, `"*HOST"`, `"a.*"`, `"*.*.HOST"`, `"a b.HOST"`, `"a\nb.HOST"`, `"a\0.HOST"`, `"A.HOST"`, `"a.HOST", "A.HOST"`, `"a.HOST", "a.HOST."`, `"a.HOST", "a.HOST:PORT"`, `"a.HOST:80"`, `"[::1]"`, `"::1"`, `"::ffff:1.2.3.4"`, `"1.2.3.4"`, `"1.2.3.4", "1.2.3.4:PORT"`, `"é.HOST"`, `"HOST", "HOST"`, `"HOST", "*.example"`, `"a|b.HOST"`, `"a/b.HOST"`, `"."`, `".HOST"`, `"HOST."`, `"HOST.", "HOST"`, `"a..HOST"`, `"-a.HOST"`, `"a_b.HOST"`, `"*.HOST", "*.HOST"`, `"10.0.0.0/8"`, `"*a"`, `"*."`, `"%41.HOST"`, `"` + long + `.HOST"`, `"*-x.HOST"`, `"x-*"`,
	}
	var out []oddity
	for _, h := range hosts {
		out = append(out, oddSpecs("VirtualService", "", []string{"hosts: [" + h + "], http: [{route: [{destination: {host: HOST}}]}]"})...)
		out = append(out, oddObjects("networking.istio.io/v1", "ServiceEntry", "hosts: ["+h+"], resolution: STATIC, ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}, {number: 9999, name: tcp, protocol: TCP}], endpoints: [{address: 127.0.0.1}]")...)
		out = append(out, oddObjects("networking.istio.io/v1", "ServiceEntry", "hosts: ["+h+"], resolution: DNS, ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}]")...)
		out = append(out, oddObjects("networking.istio.io/v1", "ServiceEntry", "hosts: ["+h+"], resolution: DYNAMIC_DNS, ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}]")...)
	}
	return out
}
