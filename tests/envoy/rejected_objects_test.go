package envoy

import (
	"fmt"
	"slices"
	"strings"
)

// oddServiceInputs are services of all origins, their endpoints, and Sidecars.
func oddServiceInputs() []oddity {
	return slices.Concat(oddEntries(), oddServices(), oddSlices(), oddWorkloads())
}

func oddEntries() []oddity {
	const api = "networking.istio.io/v1"
	var out []oddity
	for _, a := range []string{`""`, `nosuch`, `10.0.0.0/8`, `10.0.0.0/33`, `"::1"`, `"::/0"`, `0.0.0.0`, `0.0.0.0/0`, `"::"`, `"::ffff:10.1.2.3"`, `"::ffff:10.0.0.0/104"`, `"fe80::1%eth0"`, `127.0.0.1`, `255.255.255.255`, `224.0.0.1`, `VIP, VIP`, `VIP, "fd00::1"`, `010.1.1.1`, `"10.1.1"`, `"unix:///a"`, `"10.3.2.1/8", "10.0.0.0/8"`, `"fd00::/8", "10.0.0.0/8"`, `"[fd00::5]"`, `"FD00::AB"`, `"fd00:0:0::5"`, `" 10.1.1.1"`} {
		for _, resolution := range []string{"STATIC, endpoints: [{address: 127.0.0.1}]", "NONE", "DNS"} {
			out = append(out, oddObjects(api, "ServiceEntry", "hosts: [HOST], addresses: ["+a+"], ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}, {number: 9999, name: tcp, protocol: TCP}, {number: 9998, name: auto}], resolution: "+resolution)...)
		}
	}
	for _, p := range []string{
		``, `{}`, `{number: 0, name: http, protocol: HTTP}`, `{number: 65536, name: http, protocol: HTTP}`, `{number: 4294967295, name: tcp, protocol: TCP}`, `{number: 70000, name: tls, protocol: TLS}`, `{number: PORT, name: "", protocol: ""}`, `{number: PORT, name: "a\nb", protocol: HTTP}`, `{number: PORT, name: a, protocol: NOSUCH}`, `{number: PORT, name: a, protocol: HTTP}, {number: PORT, name: b, protocol: HTTP}`, `{number: PORT, name: a, protocol: HTTP}, {number: PORT, name: b, protocol: TCP}`, `{number: 9443, name: a, protocol: TLS}, {number: 9443, name: b, protocol: TLS}`, `{number: 9090, name: a, protocol: TCP}, {number: 9090, name: a, protocol: TCP}`, `{number: PORT, name: a, protocol: HTTP}, {number: 81, name: a, protocol: HTTP}`, `{number: PORT, name: a, protocol: HTTP, targetPort: 70000}`, `{number: 9090, name: a, protocol: TCP, targetPort: 4294967295}`, `{number: PORT, name: "` + strings.Repeat("a", 3000) + `", protocol: HTTP}`, `{number: 3306, name: mysql, protocol: MySQL}, {number: 27017, name: mongo, protocol: Mongo}, {number: 6379, name: redis, protocol: Redis}, {number: 53, name: udp, protocol: UDP}, {number: 7000, name: w, protocol: GRPC-Web}, {number: 7001, name: h, protocol: HTTPS}, {number: 7002, name: h2, protocol: HTTP2}`,
		`{number: 15001, name: a, protocol: TCP}, {number: 15006, name: b, protocol: TCP}, {number: 15000, name: c, protocol: HTTP}`, `{number: 15090, name: a, protocol: HTTP}, {number: 15021, name: b, protocol: HTTP}, {number: 15020, name: c, protocol: TCP}`,
	} {
		for _, resolution := range []string{"STATIC, endpoints: [{address: 127.0.0.1}]", "NONE", "DNS", "DYNAMIC_DNS", "DNS_ROUND_ROBIN"} {
			host := "HOST"
			if resolution == "DYNAMIC_DNS" {
				host = `"*.HOST"`
			}
			out = append(out, oddObjects(api, "ServiceEntry", "hosts: ["+host+"], ports: ["+p+"], resolution: "+resolution)...)
		}
	}
	for _, e := range []string{
		`{}`, `{address: ""}`, `{address: nosuch}`, `{address: "a b"}`, `{address: "a\nb"}`, `{address: "a\0b"}`, `{address: "::1"}`, `{address: "[::1]"}`, `{address: "::ffff:1.2.3.4"}`, `{address: "fe80::1%eth0"}`, `{address: 0.0.0.0}`, `{address: "10.0.0.1/8"}`, `{address: "010.0.0.1"}`, `{address: 127.0.0.1}, {address: "::1"}`, `{address: 127.0.0.1}, {address: 127.0.0.1}`, `{address: 127.0.0.1}, {address: nosuch.example}`, `{address: "unix:///a"}`, `{address: "unix://a"}`, `{address: "unix://"}`, `{address: "unix:///` + strings.Repeat("a", 200) + `"}`, `{address: "unix:///a\0b"}`, `{address: "unix://@abstract"}`, `{address: "unix:///a"}, {address: 127.0.0.1}`, `{address: "*.example"}`, `{address: "` + strings.Repeat("a", 300) + `"}`, `{address: "é.example"}`, `{address: "a..b"}`, `{address: "-"}`, `{address: "a_b.example"}`, `{address: "."}`, `{address: "a.example."}`, `{address: "1.2.3"}`, `{address: "http://a"}`, `{address: "a:80"}`, `{address: " 127.0.0.1"}`,
		`{address: 127.0.0.1, ports: {http: 0}}`, `{address: 127.0.0.1, ports: {http: 70000}}`, `{address: 127.0.0.1, ports: {http: 4294967295}}`, `{address: 127.0.0.1, ports: {nosuch: 5}}`, `{address: 127.0.0.1, ports: {"": 5}}`, `{address: 127.0.0.1, weight: 0}`, `{address: 127.0.0.1, weight: 4294967295}, {address: 127.0.0.2, weight: 4294967295}`, `{address: 127.0.0.1, locality: "a/b/c/d/e"}`, `{address: 127.0.0.1, locality: "\n//"}`, `{address: 127.0.0.1, locality: "/"}`, `{address: 127.0.0.1, labels: {"\n": "\n", "": ""}}`, `{address: 127.0.0.1, network: "\n"}`, `{address: 127.0.0.1, serviceAccount: "\n"}`, `{address: 127.0.0.1, labels: {security.istio.io/tlsMode: "\n"}}`, `{network: n}`,
	} {
		for _, resolution := range []string{"STATIC", "DNS", "DNS_ROUND_ROBIN", "NONE"} {
			out = append(out, oddObjects(api, "ServiceEntry", "hosts: [HOST], ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}], resolution: "+resolution+", endpoints: ["+e+"]")...)
		}
	}
	return append(out, oddObjects(api, "ServiceEntry",
		``, `hosts: []`, `hosts: [HOST]`, `hosts: [HOST], ports: [{number: 9090, name: t, protocol: TCP}], location: MESH_INTERNAL, resolution: STATIC, subjectAltNames: ["", "\n"]`, `hosts: [HOST], ports: [{number: 9090, name: t, protocol: TCP}], workloadSelector: {}`, `hosts: [HOST], ports: [{number: 9090, name: t, protocol: TCP}], exportTo: ["\n"]`,
		`hosts: ["*.HOST"], addresses: [VIP], resolution: NONE, ports: [{number: 9443, name: tls, protocol: TLS}, {number: 9444, name: https, protocol: HTTPS}]`,
		`hosts: ["*.HOST", "*.x.HOST", HOST], resolution: NONE, ports: [{number: 9443, name: tls, protocol: TLS}]`,
		`hosts: ["*.HOST"], resolution: DYNAMIC_DNS, ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}, {number: 99, name: tcp, protocol: TCP}]`,
	)...)
}

// oddServices are Kubernetes Services; their names and ports are what an API server would let pass, and worse.
func oddServices() []oddity {
	var out []oddity
	for _, s := range []string{
		``, `clusterIP: None`, `clusterIP: ""`, `clusterIP: nosuch`, `clusterIP: "::1"`, `clusterIPs: [VIP, "fd00::9"], clusterIP: VIP`, `clusterIP: VIP, ports: []`, `clusterIP: VIP, ports: [{port: 0}]`, `clusterIP: VIP, ports: [{port: 70000, name: http}]`, `clusterIP: VIP, ports: [{port: -1, name: http}]`, `clusterIP: VIP, ports: [{port: PORT, name: http, nodePort: 0}]`, `clusterIP: VIP, ports: [{port: PORT, name: "a\nb"}]`, `clusterIP: VIP, ports: [{port: PORT, name: http}, {port: PORT, name: tcp}]`, `clusterIP: VIP, ports: [{port: PORT, name: http, appProtocol: "\n"}]`, `clusterIP: VIP, ports: [{port: PORT, name: http, appProtocol: "kubernetes.io/h2c"}]`, `clusterIP: VIP, ports: [{port: PORT, appProtocol: "kubernetes.io/wss"}]`, `clusterIP: VIP, ports: [{port: PORT, appProtocol: nosuch}]`, `clusterIP: VIP, ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]`, `clusterIP: VIP, ports: [{port: 53, protocol: SCTP}]`, `clusterIP: VIP, ports: [{port: 80, targetPort: 70000}]`, `clusterIP: VIP, ports: [{port: 80, targetPort: nosuch}]`,
		`type: ExternalName, externalName: ""`, `type: ExternalName, externalName: "a b", ports: [{port: 80, name: http}]`, `type: ExternalName, externalName: "a\nb", ports: [{port: 80, name: tcp}]`, `type: ExternalName, externalName: HOST, ports: [{port: PORT, name: http}]`, `type: ExternalName, externalName: "odd.NS.svc.cluster.local", ports: [{port: PORT, name: http}]`, `type: ExternalName, externalName: "1.2.3.4", ports: [{port: 80, name: tcp}]`, `type: ExternalName, externalName: "*.a", ports: [{port: 80, name: tcp}]`, `type: LoadBalancer, clusterIP: VIP, externalIPs: ["nosuch", ""], ports: [{port: PORT, name: http}]`, `type: NodePort, clusterIP: VIP, ports: [{port: PORT, name: http, nodePort: 0}]`, `clusterIP: "0.0.0.0", ports: [{port: 9997, name: tcp}]`, `clusterIP: "255.255.255.255", ports: [{port: 9996, name: tcp}]`, `clusterIP: "::ffff:10.1.1.1", ports: [{port: 9995, name: tcp}]`, `clusterIP: VIP, trafficDistribution: nosuch, sessionAffinity: nosuch, ports: [{port: PORT, name: http}]`, `clusterIP: VIP, selector: {"": ""}, ports: [{port: PORT, name: http}]`,
	} {
		out = append(out, oddObjects("v1", "Service", s)...)
	}
	for _, a := range []string{
		`networking.istio.io/exportTo: "\n"`, `networking.istio.io/exportTo: ","`, `networking.istio.io/traffic-distribution: nosuch`, `kubernetes.io/change-cause: "\n"`, `alpha.istio.io/canonical-serviceaccounts: "\n,,"`, `alpha.istio.io/kubernetes-serviceaccounts: "a/b/c,,"`, `traffic.istio.io/nodeSelector: "x"`,
	} {
		out = append(out, oddity{"Service annotation " + a, "apiVersion: v1\nkind: Service\nmetadata: {name: odd, namespace: NS, annotations: {" + a + "}}\nspec: {clusterIP: VIP, ports: [{port: PORT, name: http}]}\n"})
	}
	for _, l := range []string{`istio.io/persistent-session: "a b\n"`, `istio.io/persistent-session: ":"`, `istio.io/persistent-session-header: "\n"`, `istio.io/persistent-session: ":/x"`, `"": ""`, `"\n": "\n"`} {
		out = append(out, oddity{"Service label " + l, "apiVersion: v1\nkind: Service\nmetadata: {name: odd, namespace: NS, labels: {" + l + "}}\nspec: {clusterIP: VIP, ports: [{port: PORT, name: http}]}\n"})
	}
	for _, n := range []string{`"a b"`, `"a\nb"`, `"a/b"`, `"a|b"`, `"é"`, `"` + strings.Repeat("a", 63) + `"`, `"` + strings.Repeat("a", 3000) + `"`, `"*"`, `"A"`, `"a.b"`, `"1"`, `"-"`, `"a_b"`, `"a:b"`, `"a\0b"`, `"%NOSUCH%"`} {
		out = append(out,
			oddity{"Service named " + n, "apiVersion: v1\nkind: Service\nmetadata: {name: " + n + ", namespace: NS}\nspec: {clusterIP: VIP, ports: [{port: PORT, name: http}, {port: 9443, name: tls}, {port: 9090, name: tcp}]}\n"},
			oddity{"rule named " + n, oddHost + "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: " + n + ", namespace: NS}\nspec: {hosts: [HOST], http: [{route: [{destination: {host: HOST}}]}], tcp: [{route: [{destination: {host: a}, weight: 1}, {destination: {host: b}, weight: 1}]}]}\n" +
				"---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: " + n + ", namespace: NS}\nspec: {host: HOST}\n"})
	}
	return out
}

// oddSlices are EndpointSlices of a good Service.
func oddSlices() []oddity {
	var out []oddity
	const http = "ports: [{name: http, port: APP}]"
	for _, s := range []string{
		`addressType: IPv4, endpoints: [{addresses: [nosuch]}], ` + http, `addressType: IPv4, endpoints: [{addresses: [""]}], ` + http, `addressType: IPv4, endpoints: [{addresses: []}], ` + http, `addressType: IPv4, endpoints: [{}], ` + http, `addressType: IPv4, endpoints: [{addresses: ["::1"]}], ` + http, `addressType: IPv6, endpoints: [{addresses: ["127.0.0.1"]}], ` + http, `addressType: IPv6, endpoints: [{addresses: ["fd00::1"]}], ` + http, `addressType: FQDN, endpoints: [{addresses: [a.example]}], ` + http, `addressType: FQDN, endpoints: [{addresses: ["a b"]}], ` + http, `addressType: nosuch, endpoints: [{addresses: [127.0.0.1]}], ` + http,
		`addressType: IPv4, endpoints: [{addresses: [127.0.0.1, "::1", nosuch]}], ` + http, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}, {addresses: [nosuch]}], ` + http, `addressType: IPv4, endpoints: [{addresses: ["127.0.0.1/8"]}], ` + http, `addressType: IPv4, endpoints: [{addresses: ["a\nb"]}], ` + http, `addressType: IPv6, endpoints: [{addresses: ["fe80::1%eth0"]}], ` + http, `addressType: IPv6, endpoints: [{addresses: ["::ffff:1.2.3.4"]}], ` + http, `addressType: IPv4, endpoints: [{addresses: [0.0.0.0]}], ` + http, `addressType: IPv4, endpoints: [{addresses: ["010.0.0.1"]}], ` + http,
		`addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}], ports: [{name: http, port: 0}]`, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}], ports: [{name: http}]`, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}], ports: [{name: http, port: 70000}]`, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}], ports: [{name: http, port: -1}]`, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}], ports: []`, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}], ports: [{port: APP}, {name: "", port: 1}]`, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1], zone: "\n", nodeName: "\n", hostname: "a\nb", targetRef: {kind: Pod, name: "\n", namespace: "\n"}}], ` + http,
		`addressType: IPv4, endpoints: [{addresses: ["unix:///a"]}], ` + http, `addressType: IPv4, endpoints: [{addresses: [127.0.0.1], conditions: {ready: false, serving: false, terminating: true}}], ` + http,
	} {
		for _, ip := range []string{"VIP", "None"} {
			out = append(out, oddity{"EndpointSlice " + ip + " " + s, `apiVersion: v1
kind: Service
metadata: {name: odd, namespace: NS}
spec: {clusterIP: ` + ip + `, ports: [{port: PORT, name: http}, {port: 7946, name: tcp}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: odd-1, namespace: NS, labels: {kubernetes.io/service-name: odd}}, ` + strings.Replace(s, "ports: [", "ports: [{name: tcp, port: 7946}, ", 1) + "}\n"})
		}
	}
	return out
}

// oddWorkloads are WorkloadEntries and Pods behind a good ServiceEntry.
func oddWorkloads() []oddity {
	const entry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: plain, namespace: NS}
spec: {hosts: [HOST], resolution: STATIC, ports: [{number: PORT, name: http, protocol: HTTP}], workloadSelector: {labels: {app: odd}}}
---
`
	var out []oddity
	for _, s := range []string{
		`address: nosuch`, `address: ""`, `address: "a\nb"`, `address: "unix:///a"`, `address: "unix:///` + strings.Repeat("a", 200) + `"`, `address: "::1"`, `address: 127.0.0.1, ports: {http: 70000}`, `address: 127.0.0.1, ports: {http: 0}`, `address: 127.0.0.1, weight: 4294967295`, `address: 127.0.0.1, locality: "\n"`, `network: n, address: ""`, `address: 127.0.0.1, serviceAccount: "a b\n"`, `address: 127.0.0.1/8`, `address: "fe80::1%eth0"`,
	} {
		out = append(out, oddity{"WorkloadEntry " + s, entry + "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: odd, namespace: NS, labels: {app: odd}}\nspec: {labels: {app: odd}, " + s + "}\n"})
	}
	for _, ip := range []string{`nosuch`, `""`, `"::1"`, `"a\nb"`, `"fe80::1%eth0"`, `0.0.0.0`} {
		out = append(out, oddity{"Pod " + ip, entry + fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: odd, namespace: NS, labels: {app: odd, "\n": "\n"}}
spec: {containers: [{name: app, image: app}], nodeName: "\n", serviceAccountName: "\n"}
status: {phase: Running, podIP: %[1]s, podIPs: [{ip: %[1]s}, {ip: nosuch}], conditions: [{type: Ready, status: 'True'}]}
`, ip)})
	}
	return out
}
