package route

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// sessionState returns how a service keeps a client at one endpoint, by cookie ("name[:path]") or by header; nil if it
// does not.
func sessionState(s *model.Service) *sessionv3.StatefulSessionPerRoute {
	var name string
	var config proto.Message
	switch {
	case s.SessionCookie != "":
		cookie, path, _ := strings.Cut(s.SessionCookie, ":")
		if path == "" {
			path = "/"
		}
		name = "envoy.http.stateful_session.cookie"
		config = &cookiev3.CookieBasedSessionState{Cookie: &httpv3.Cookie{Name: cookie, Path: path}}
	case s.SessionHeader != "":
		name = "envoy.http.stateful_session.header"
		config = &headerv3.HeaderBasedSessionState{Name: s.SessionHeader}
	default:
		return nil
	}
	return &sessionv3.StatefulSessionPerRoute{
		Override: &sessionv3.StatefulSessionPerRoute_StatefulSession{StatefulSession: &sessionv3.StatefulSession{
			SessionState: &corev3.TypedExtensionConfig{Name: name, TypedConfig: pack(config)},
		}},
	}
}

// StatefulSession returns how a service keeps a client at one endpoint, for clients that are told so with the filter;
// nil if it does not.
func StatefulSession(s *model.Service) *sessionv3.StatefulSession {
	return sessionState(s).GetStatefulSession()
}
