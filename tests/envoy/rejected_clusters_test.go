package envoy

import (
	"fmt"
	"slices"
	"strings"
)

// oddConnectionInputs are TCP and TLS routes.
func oddConnectionInputs() []oddity {
	long := strings.Repeat("a", 300)
	var out []oddity
	for _, m := range []string{
		`sniHosts: [""]`, `sniHosts: []`, `sniHosts: ["*"]`, `sniHosts: ["*.*.HOST"]`, `sniHosts: ["a*b.HOST"]`, `sniHosts: ["*a.HOST"]`, `sniHosts: ["a.*"]`, `sniHosts: [HOST, HOST]`, `sniHosts: ["A.HOST", "a.HOST"]`, `sniHosts: ["a.HOST."]`, `sniHosts: ["a\nb"]`, `sniHosts: ["a\0"]`, `sniHosts: ["é.HOST"]`, `sniHosts: ["1.2.3.4"]`, `sniHosts: ["::1"]`, `sniHosts: ["a b"]`, `sniHosts: ["` + long + `"]`, `sniHosts: ["*."]`, `sniHosts: ["."]`,
		`sniHosts: [HOST], destinationSubnets: ["10.0.0.0/33"]`, `sniHosts: [HOST], destinationSubnets: [""]`, `sniHosts: [HOST], destinationSubnets: ["nosuch"]`, `sniHosts: [HOST], destinationSubnets: ["10.0.0.1", "::1/64", "0.0.0.0/0", "::/0"]`, `sniHosts: [HOST], destinationSubnets: ["fe80::1%eth0"]`, `sniHosts: [HOST], destinationSubnets: ["::ffff:1.2.3.4/96", "::ffff:1.2.3.4"]`, `sniHosts: [HOST], destinationSubnets: ["10.1.2.3/8", "10.0.0.0/8"]`, `sniHosts: [HOST], destinationSubnets: ["10.0.0.0/08"]`, `sniHosts: [HOST], destinationSubnets: ["010.0.0.0/8"]`, `sniHosts: [HOST], destinationSubnets: ["0.0.0.0/0"]`,
		`sniHosts: [HOST], sourceLabels: {"": ""}, gateways: [""]`, `sniHosts: [HOST], port: 4294967295`,
	} {
		out = append(out, oddRules("tls: [{match: [{"+m+"}], route: [{destination: {host: HOST, port: {number: 9443}}}]}]")...)
	}
	for _, m := range []string{
		`destinationSubnets: [""]`, `destinationSubnets: ["10.0.0.0/33"]`, `destinationSubnets: ["nosuch"]`, `destinationSubnets: ["10.0.0.1", "::1/64"]`, `destinationSubnets: ["fe80::1%eth0"]`, `destinationSubnets: ["::ffff:1.2.3.4/96"]`, `destinationSubnets: ["0.0.0.0/0"]`, `destinationSubnets: ["VIP/32"]`, `destinationSubnets: ["VIP"]`, `port: 0`, `sourceSubnet: "x"`, ``,
	} {
		out = append(out, oddRules("tcp: [{match: [{"+m+"}], route: [{destination: {host: HOST, port: {number: 9090}}}]}]")...)
	}
	for _, r := range []string{
		`{}`, `{destination: {}}`, `{destination: {host: ""}}`, `{destination: {host: "a\nb"}}`, `{destination: {host: HOST, subset: "\n"}}`, `{destination: {host: a}, weight: -1}, {destination: {host: b}, weight: 1}`, `{destination: {host: a}, weight: 2147483647}, {destination: {host: b}, weight: 2147483647}, {destination: {host: c}, weight: 2147483647}`, `{destination: {host: a}, weight: 0}, {destination: {host: b}, weight: 0}`, `{weight: 1}, {weight: 1}`, `{destination: {host: a}, weight: 1}, {destination: {host: a}, weight: 1}`, `{destination: {host: ` + strings.Repeat("a", 3000) + `}}`,
	} {
		out = append(out, oddRules("tcp: [{route: ["+r+"]}]", "tls: [{match: [{sniHosts: [HOST]}], route: ["+r+"]}]")...)
	}
	return append(out, oddRules(
		`tcp: [{}]`, `tls: [{}]`, `tls: [{match: [{sniHosts: [HOST]}, {sniHosts: [HOST]}], route: [{destination: {host: HOST}}]}, {match: [{sniHosts: [HOST, x.HOST]}], route: [{destination: {host: HOST}}]}]`,
		`tls: [{match: [{sniHosts: ["*.HOST", "*.HOST"]}], route: [{destination: {host: HOST}}]}, {match: [{sniHosts: ["*.HOST", "*.x.HOST"]}], route: [{destination: {host: HOST}}]}]`,
		`tcp: [{match: [{destinationSubnets: [10.0.0.0/8]}], route: [{destination: {host: HOST}}]}, {match: [{destinationSubnets: [10.0.0.0/8, 11.0.0.0/8]}], route: [{destination: {host: HOST}}]}]`,
		`http: [{}]`, `http: [{match: [{}]}]`, ``, `gateways: [""], http: [{route: [{destination: {host: HOST}}]}]`, `exportTo: ["", "~", "\n"], http: [{route: [{destination: {host: HOST}}]}]`,
	)...)
}

// oddClusterInputs are destination rules.
func oddClusterInputs() []oddity {
	return slices.Concat(oddPools(), oddBalancers(), oddTLS(), oddSubsets())
}

func oddPools() []oddity {
	var out []oddity
	for _, p := range []string{
		`maxConnections: -1`, `maxConnections: 2147483647`, `connectTimeout: 0s`, `connectTimeout: -1s`, `connectTimeout: 0.0000001s`, `connectTimeout: 315576000000s`, `idleTimeout: -1s`, `idleTimeout: 0s`, `idleTimeout: 315576000000s`, `idleTimeout: 0.0000001s`, `maxConnectionDuration: -1s`, `maxConnectionDuration: 0s`, `maxConnectionDuration: 0.0001s`, `maxConnectionDuration: 0.0000001s`, `maxConnectionDuration: 315576000000s`,
		`tcpKeepalive: {}`, `tcpKeepalive: {probes: 4294967295}`, `tcpKeepalive: {time: -1s, interval: -5s}`, `tcpKeepalive: {time: 315576000000s, interval: 315576000000s}`, `tcpKeepalive: {time: 0.5s}`,
	} {
		out = append(out, oddPolicies("connectionPool: {tcp: {"+p+"}}")...)
	}
	for _, p := range []string{
		`http1MaxPendingRequests: -1`, `http2MaxRequests: -2147483648`, `maxRequestsPerConnection: -1`, `maxRequestsPerConnection: 2147483647`, `maxRetries: -1`, `maxRetries: 2147483647`, `idleTimeout: -1s`, `idleTimeout: 315576000000s`, `idleTimeout: 0.0000001s`, `h2UpgradePolicy: UPGRADE, maxConcurrentStreams: -1`, `h2UpgradePolicy: UPGRADE, maxConcurrentStreams: 2147483647`, `h2UpgradePolicy: UPGRADE, useClientProtocol: true`, `maxConcurrentStreams: 1`,
		`h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: -1s, timeout: -1s}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 0s, timeout: 0s}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 0.0001s, timeout: 0.0001s}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 5s}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {timeout: 5s}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 315576000000s, timeout: 315576000000s}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {}`, `h2UpgradePolicy: UPGRADE, http2KeepAlive: {interval: 5s, timeout: 0s}`,
	} {
		out = append(out, oddPolicies("connectionPool: {http: {"+p+"}}")...)
	}
	for _, p := range []string{
		`consecutive5xxErrors: 4294967295`, `consecutiveErrors: -1`, `interval: -1s`, `interval: 0s`, `interval: 0.0000001s`, `interval: 315576000000s`, `baseEjectionTime: -1s`, `baseEjectionTime: 0s`, `baseEjectionTime: 315576000000s`, `baseEjectionTime: 1000s`, `baseEjectionTime: 0.0000001s`, `maxEjectionPercent: 101`, `maxEjectionPercent: -1`, `minHealthPercent: 101`, `minHealthPercent: -1`, `minHealthPercent: 2147483647`, `failurePercentageThreshold: 101`, `failurePercentageThreshold: 4294967295`, `splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 0`, `consecutiveGatewayErrors: 0`, `outlierDetectionHttpErrorCodes: [500, 500]`, `outlierDetectionHttpErrorCodes: [0, 4294967295]`, ``, `outlierDetectionHttpErrorCodes: [` + strings.TrimSuffix(strings.Repeat("500,", 1000), ",") + `]`,
	} {
		out = append(out, oddPolicies("outlierDetection: {"+p+"}")...)
	}
	return append(out, oddPolicies(
		`retryBudget: {percent: {value: NaN}}`, `retryBudget: {percent: {value: -1}}`, `retryBudget: {percent: {value: 101}}`, `retryBudget: {minRetryConcurrency: 4294967295}`, `retryBudget: {budgetInterval: -1s}`, `retryBudget: {budgetInterval: 0s}`, `retryBudget: {budgetInterval: 0.001s}`, `retryBudget: {budgetInterval: 315576000000s}`, `retryBudget: {}`,
		`proxyProtocol: {version: V2}`, `proxyProtocol: {}`, `tunnel: {protocol: "", targetHost: "", targetPort: 0}`, `tunnel: {protocol: NOSUCH, targetHost: "a\nb", targetPort: 4294967295}`, `tunnel: {protocol: CONNECT, targetHost: "%NOSUCH%", targetPort: 1}`, `tunnel: {protocol: POST, targetHost: "%", targetPort: 1}`, `tunnel: {targetHost: "::1", targetPort: 1}`,
		`portLevelSettings: [{}]`, `portLevelSettings: [{port: {number: PORT}, connectionPool: {tcp: {connectTimeout: -1s}}}, {port: {number: PORT}}]`,
	)...)
}

func oddBalancers() []oddity {
	var out []oddity
	for _, b := range []string{
		`simple: UNSPECIFIED`, `simple: PASSTHROUGH`, `simple: LEAST_CONN`, `simple: ROUND_ROBIN, warmupDurationSecs: -1s`, `simple: ROUND_ROBIN, warmupDurationSecs: 0s`, `simple: LEAST_REQUEST, warmupDurationSecs: 315576000000s`, `simple: ROUND_ROBIN, warmupDurationSecs: 0.0000001s`,
		`simple: ROUND_ROBIN, warmup: {}`, `simple: ROUND_ROBIN, warmup: {duration: -1s}`, `simple: ROUND_ROBIN, warmup: {duration: 1s, aggression: 0}`, `simple: ROUND_ROBIN, warmup: {duration: 1s, aggression: -1}`, `simple: ROUND_ROBIN, warmup: {duration: 1s, aggression: NaN}`, `simple: ROUND_ROBIN, warmup: {duration: 1s, aggression: Infinity}`, `simple: LEAST_REQUEST, warmup: {duration: 1s, minimumPercent: 101}`, `simple: LEAST_REQUEST, warmup: {duration: 1s, minimumPercent: -1}`, `simple: LEAST_REQUEST, warmup: {duration: 1s, minimumPercent: NaN}`, `simple: LEAST_REQUEST, warmup: {duration: 315576000000s}`,
		`consistentHash: {}`, `consistentHash: {httpHeaderName: ""}`, `consistentHash: {httpHeaderName: "a\nb"}`, `consistentHash: {httpHeaderName: "a b"}`, `consistentHash: {httpHeaderName: ":path"}`, `consistentHash: {httpQueryParameterName: ""}`, `consistentHash: {useSourceIp: false}`, `consistentHash: {httpCookie: {}}`, `consistentHash: {httpCookie: {name: ""}}`, `consistentHash: {httpCookie: {name: "a b\n", path: "\n", ttl: 0s}}`, `consistentHash: {httpCookie: {name: a, ttl: -1s}}`, `consistentHash: {httpCookie: {name: a, ttl: 315576000000s}}`, `consistentHash: {httpCookie: {name: a, path: "` + strings.Repeat("a", 20_000) + `", ttl: 1s}}`, `consistentHash: {httpCookie: {name: a, ttl: 1s, attributes: [{name: "", value: ""}]}}`, `consistentHash: {httpCookie: {name: a, ttl: 1s, attributes: [{name: "a\nb", value: "\n"}]}}`, `consistentHash: {httpCookie: {name: a, ttl: 1s, attributes: [{}]}}`,
		`consistentHash: {httpHeaderName: x, minimumRingSize: 18446744073709551615}`, `consistentHash: {httpHeaderName: x, ringHash: {minimumRingSize: 8388609}}`, `consistentHash: {httpHeaderName: x, ringHash: {minimumRingSize: 8388608}}`, `consistentHash: {httpHeaderName: x, ringHash: {}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 0}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 1}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 4}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 65536}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 5000011}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 5000012}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 18446744073709551615}}`, `consistentHash: {httpHeaderName: x, maglev: {tableSize: 2}}`,
		`localityLbSetting: {distribute: [{}]}`, `localityLbSetting: {distribute: [{from: "", to: {"": 0}}]}`, `localityLbSetting: {distribute: [{from: "*", to: {"*": 4294967295}}]}`, `localityLbSetting: {distribute: [{from: "*/*", to: {"a/*/c": 1, "*": 4294967295, "b": 4294967295}}]}`, `localityLbSetting: {failover: [{}]}`, `localityLbSetting: {failover: [{from: a, to: a}]}`, `localityLbSetting: {failoverPriority: ["", "=", "a=b=c"]}, simple: ROUND_ROBIN`, `localityLbSetting: {failoverPriority: [` + manyKeys(200) + `]}`, `localityLbSetting: {enabled: true, distribute: [{from: "*", to: {"a": 0}}]}`,
		`zoneAwareLbSetting: {enabled: true, minClusterSize: 4294967295}`, `zoneAwareLbSetting: {enabled: false}`, `zoneAwareLbSetting: {failover: [{}], failoverPriority: [""]}`, `zoneAwareLbSetting: {minClusterSize: 0}`,
	} {
		out = append(out, oddPolicies("outlierDetection: {}, loadBalancer: {"+b+"}")...)
	}
	return append(out, oddPolicies(
		`loadBalancer: {simple: PASSTHROUGH, localityLbSetting: {failoverPriority: [a]}}, outlierDetection: {consecutive5xxErrors: 1}`,
		`loadBalancer: {consistentHash: {useSourceIp: true}, warmupDurationSecs: 5s}`, `loadBalancer: {simple: PASSTHROUGH}, tls: {mode: SIMPLE}, proxyProtocol: {}`,
		`loadBalancer: {consistentHash: {httpHeaderName: x}, zoneAwareLbSetting: {}}`, `loadBalancer: {consistentHash: {httpHeaderName: x, maglev: {}}, localityLbSetting: {distribute: [{from: "*", to: {"*": 100}}]}}`,
	)...)
}

func manyKeys(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("k%d", i)
	}
	return strings.Join(list, ", ")
}

// oddTLS are TLS settings. Files are missing here: whether one is there and good, only the proxy that reads it knows; it
// then refuses that cluster alone.
func oddTLS() []oddity {
	var out []oddity
	long := strings.Repeat("a", 300)
	for _, s := range []string{
		`mode: SIMPLE, sni: ""`, `mode: SIMPLE, sni: "a\nb"`, `mode: SIMPLE, sni: "a\0b"`, `mode: SIMPLE, sni: "` + long + `"`, `mode: SIMPLE, sni: "é"`, `mode: SIMPLE, sni: "*.a"`, `mode: SIMPLE, sni: "1.2.3.4"`, `mode: SIMPLE, subjectAltNames: [""]`, `mode: SIMPLE, subjectAltNames: ["a\nb", "a\0"]`, `mode: SIMPLE, subjectAltNames: ["*.a", "spiffe://a/b", "spiffe://", "://"]`, `mode: SIMPLE, subjectAltNames: ["` + strings.Repeat("a", 70_000) + `"]`,
		`mode: SIMPLE, caCertificates: system`, `mode: SIMPLE, caCrl: ""`, `mode: SIMPLE, insecureSkipVerify: true`, `mode: SIMPLE, insecureSkipVerify: true, subjectAltNames: [a], caCertificates: /nosuch`, `mode: SIMPLE, credentialName: nosuch`, `mode: SIMPLE, credentialName: "sds://"`, `mode: SIMPLE, credentialName: "configmap://"`, `mode: SIMPLE, credentialName: "kubernetes://"`, `mode: SIMPLE, caCertCredentialName: nosuch`, `mode: SIMPLE, caCertCredentialName: "\n"`,
		`mode: MUTUAL`, `mode: MUTUAL, clientCertificate: /nosuch`, `mode: MUTUAL, credentialName: nosuch`, `mode: MUTUAL, credentialName: "sds://x"`,
		`mode: ISTIO_MUTUAL`, `mode: ISTIO_MUTUAL, sni: "` + long + `"`, `mode: ISTIO_MUTUAL, subjectAltNames: [""]`, `mode: ISTIO_MUTUAL, sni: "\n"`, `mode: DISABLE, sni: a, caCertificates: /nosuch`,
	} {
		out = append(out, oddPolicies("tls: {"+s+"}")...)
	}
	return out
}

func oddSubsets() []oddity {
	long := strings.Repeat("a", 3000)
	return oddSpecs("DestinationRule", "host: HOST, ", []string{
		`subsets: [{}]`, `subsets: [{name: ""}]`, `subsets: [{name: "a|b"}]`, `subsets: [{name: "a b"}]`, `subsets: [{name: "a\nb"}]`, `subsets: [{name: "a\0b"}]`, `subsets: [{name: "é"}]`, `subsets: [{name: v1}, {name: v1}]`, `subsets: [{name: "` + long + `"}]`, `subsets: [{name: v1, labels: {"": ""}}]`, `subsets: [{name: v1, labels: {"\n": "\n"}}]`,
		`subsets: [{name: bad, trafficPolicy: {connectionPool: {tcp: {connectTimeout: -1s}}}}, {name: good}]`, `subsets: [{name: bad, trafficPolicy: {tls: {mode: MUTUAL}}}, {name: good}]`, `subsets: [{name: bad, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: "", maglev: {tableSize: 4}}}}}]`, `subsets: [{name: bad, trafficPolicy: {tunnel: {protocol: CONNECT, targetHost: "%NOSUCH%", targetPort: 1}}}]`, `exportTo: ["\n"]`, `workloadSelector: {}`, `workloadSelector: {matchLabels: {"": ""}}`,
	})
}
