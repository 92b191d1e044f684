package model

import "testing"

func TestKubernetesPortProtocol(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number             uint32
		name, app, carrier string
		want               Protocol
	}{
		{80, "http-web", "", "TCP", HTTP},
		{80, "http", "", "", HTTP},
		{80, "HTTP-web", "", "TCP", HTTP},
		{80, "http2", "", "TCP", HTTP2},
		{80, "http2-x", "", "TCP", HTTP2},
		{80, "httpx", "", "TCP", Unsupported},
		{80, "grpc-x", "", "TCP", GRPC},
		{80, "grpc-web", "", "TCP", GRPCWeb},
		{80, "GRPC-Web-x", "", "TCP", GRPCWeb},
		{80, "grpc-website", "", "TCP", GRPCWeb},
		{443, "https-x", "", "TCP", HTTPS},
		{443, "tls", "", "TCP", TLS},
		{80, "tcp-x", "", "TCP", TCP},
		{80, "mongo", "", "TCP", Mongo},
		{80, "redis-a", "", "TCP", Redis},
		{80, "mysql-a", "", "TCP", MySQL},
		{80, "udp-x", "", "TCP", UDP},
		{53, "dns", "", "UDP", UDP},
		{80, "http", "grpc", "UDP", UDP},
		{3306, "foo", "", "TCP", TCP},
		{3307, "foo", "", "TCP", Unsupported},
		{25, "", "", "TCP", TCP},
		{53, "", "", "TCP", TCP},
		{27017, "", "", "TCP", TCP},
		{3306, "http", "", "TCP", HTTP},
		{80, "tcp", "kubernetes.io/h2c", "TCP", HTTP2},
		{80, "tcp", "kubernetes.io/ws", "TCP", HTTP},
		{80, "tcp", "kubernetes.io/wss", "TCP", HTTPS},
		{80, "http-x", "foo", "TCP", Unsupported}, // the name does not count any more
		{3306, "http-x", "foo", "TCP", TCP},
		{80, "tcp", "http-foo", "TCP", HTTP},
		{80, "hbone", "", "TCP", Unsupported},
	} {
		if got := KubernetesProtocol(c.number, c.name, c.app, c.carrier); got != c.want {
			t.Errorf("port %d name %q appProtocol %q over %q: got %s, want %s", c.number, c.name, c.app, c.carrier, got, c.want)
		}
	}
}

func TestStatedProtocolIsAnExactWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]Protocol{
		"HTTP": HTTP, "http": HTTP, "Grpc-Web": GRPCWeb, "HTTP_PROXY": HTTPProxy, "TLS": TLS, "": Unsupported,
		"http-web": Unsupported, "HTTP2": HTTP2, "mongo": Mongo, "UDP": UDP,
	} {
		if got := ParseProtocol(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}
