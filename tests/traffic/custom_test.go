package traffic

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// deciding is why walks do not tell what becomes of a request.
const deciding = "what another service decides"

// asking are the objects of a scenario in which a service decides about requests to a workload.
func asking(workload, protocol string) string {
	return through("${host}", workload) + networking("ServiceEntry", "authz-${name}", `
  hosts: ['authz.${host}']
  resolution: STATIC
  ports: [{number: ${authz}, name: authz, protocol: `+protocol+`}]
  endpoints: [{address: 127.0.0.1, ports: {authz: ${decider}}}]`) + policy("${name}", workload, `
  action: CUSTOM
  provider: {name: '${name}'}
  rules: [{to: [{operation: {paths: ["/asked*"]}}]}]`)
}

// custom are scenarios about requests on which a service decides over HTTP, or on which nobody can.
func custom() []scenario {
	return []scenario{
		{
			name: "custom-http", ports: []string{"authz"}, on: "askhttp",
			start: func(t *testing.T, r *run) {
				s := httptest.NewServer(http.HandlerFunc(decideHTTP))
				t.Cleanup(s.Close)
				_, r.vars["decider"], _ = net.SplitHostPort(s.Listener.Addr().String())
			},
			listeners: egress("askhttp", "HTTP", "authz", "authz.custom-http.example"),
			providers: `
- name: '${name}'
  envoyExtAuthzHttp:
    service: 'authz.${host}'
    port: ${authz}
    pathPrefix: /check
    includeRequestHeadersInCheck: [x-allow]
    includeAdditionalHeadersInCheck: {x-extra: more}
    headersToUpstreamOnAllow: [x-checked]
    headersToDownstreamOnAllow: [x-note]
    headersToDownstreamOnDeny: [x-reason]`,
			objects: asking("askhttp", "HTTP"),
			exchanges: []exchange{
				{path: "/free", backend: "askhttp", seen: headers{"x-checked": ""}},
				{path: "/asked?q", headers: headers{"x-allow": "yes"}, backend: "askhttp", seen: headers{"x-checked": "/check/asked?q more"}, answer: headers{"x-note": "fine"}, beyond: deciding},
				{path: "/asked", headers: headers{"x-allow": "no"}, status: 403, body: "you may not", answer: headers{"x-reason": "no"}, beyond: deciding},
				{path: "/asked", status: 403, beyond: deciding},
			},
		},
		{
			name: "custom-unknown",
			objects: through("${host}", "guard") + policy("${name}", "guard", `
  action: CUSTOM
  provider: {name: nobody}
  rules: [{to: [{operation: {hosts: ['${host}']}}]}]`),
			exchanges: []exchange{{status: 403, body: denied}},
		},
		{
			// The workload's Sidecar hides the service that should decide, so that the Envoy has no cluster of it.
			name: "custom-hidden", ports: []string{"authz", "decider"},
			providers: "\n- {name: '${name}', envoyExtAuthzHttp: {service: 'authz.${host}', port: ${authz}}}",
			objects:   asking("blind", "HTTP"),
			exchanges: []exchange{
				{path: "/free", backend: "blind"},
				{path: "/asked", headers: headers{"x-allow": "yes"}, status: 403, body: denied},
			},
		},
	}
}

// customGRPC are scenarios about requests on which a service decides over gRPC.
func customGRPC() []scenario {
	return []scenario{
		{
			name: "custom-grpc", ports: []string{"authz"}, on: "askgrpc",
			start: func(t *testing.T, r *run) {
				l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				s := grpc.NewServer()
				authv3.RegisterAuthorizationServer(s, decider{})
				go func() { _ = s.Serve(l) }()
				t.Cleanup(s.Stop)
				_, r.vars["decider"], _ = net.SplitHostPort(l.Addr().String())
			},
			listeners: egress("askgrpc", "GRPC", "authz", "authz.custom-grpc.example"),
			providers: `
- name: '${name}'
  envoyExtAuthzGrpc: {service: 'authz.${host}', port: ${authz}}`,
			objects: asking("askgrpc", "GRPC"),
			exchanges: []exchange{
				{path: "/free", backend: "askgrpc", seen: headers{"x-checked": ""}},
				{path: "/asked", headers: headers{"x-allow": "yes"}, backend: "askgrpc", seen: headers{"x-checked": "GET /asked", "x-allow": ""}, answer: headers{"x-note": "fine"}, beyond: deciding},
				{path: "/asked", status: 401, body: "you may not", answer: headers{"x-reason": "401"}, beyond: deciding},
			},
		},
	}
}

// decideHTTP allows what has x-allow: yes, and tells what it was asked.
func decideHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Allow") == "yes" {
		w.Header().Set("X-Checked", r.URL.RequestURI()+" "+r.Header.Get("X-Extra"))
		w.Header().Set("X-Note", "fine")
		return
	}
	w.Header().Set("X-Reason", r.Header.Get("X-Allow"))
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte("you may not"))
}

// decider decides as decideHTTP does, over gRPC.
type decider struct {
	authv3.UnimplementedAuthorizationServer
}

// Check decides about one request.
func (decider) Check(_ context.Context, q *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	set := func(name, value string) []*corev3.HeaderValueOption {
		return []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: name, Value: value}}}
	}
	h := q.GetAttributes().GetRequest().GetHttp()
	if h.GetHeaders()["x-allow"] == "yes" {
		return &authv3.CheckResponse{Status: &status.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{
			OkResponse: &authv3.OkHttpResponse{
				Headers: set("x-checked", h.GetMethod()+" "+h.GetPath()), HeadersToRemove: []string{"x-allow"},
				ResponseHeadersToAdd: set("x-note", "fine"),
			},
		}}, nil
	}
	return &authv3.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}, HttpResponse: &authv3.CheckResponse_DeniedResponse{
		DeniedResponse: &authv3.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized},
			Headers: set("x-reason", strconv.Itoa(http.StatusUnauthorized)), Body: "you may not",
		},
	}}, nil
}
