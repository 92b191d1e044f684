package format_test

import (
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// What an Envoy 1.40 says of each.
func TestValidIsWhatEnvoyTakes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "plain", "%%", "50%% off", "%REQ(a)%", "%REQ(:path?x-b):5%", "%REQ(a)%%REQ(b)%", "%START_TIME(%s.%3f)%", "%START_TIME(a(b))%",
		"%PROTOCOL()%", "%PROTOCOL%", `%UPSTREAM_METADATA(["a", "b"])%`, "%FILTER_STATE(a:TYPED)%", "%METADATA(ROUTE:a:b)%", "%PATH(WQ:ORIG)%",
		"%COMMON_DURATION(DS_RX_BEG:DS_RX_END:ms)%", "%RESP(:status)%", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "%GRPC_STATUS(CAMEL_STRING)%",
	} {
		if !format.Valid(text) || format.Header(text) != text {
			t.Errorf("%q is refused", text)
		}
	}
	for text, literal := range map[string]string{
		"%": "%%", "50% off": "50%% off", "%REQ(": "%%REQ(", "%REQ(a)% and %": "%%REQ(a)%% and %%", "%NOSUCH%": "%%NOSUCH%%", "%%%": "%%%%%%",
		"%REQ()%": "%%REQ()%%", "%REQ(a?b?c)%": "%%REQ(a?b?c)%%", "%REQ(a):99999999999999999999%": "%%REQ(a):99999999999999999999%%",
		"%PROTOCOL:5%": "%%PROTOCOL:5%%", "%PROTOCOL(x)%": "%%PROTOCOL(x)%%", "%hostname%": "%%hostname%%", "a%2Fb": "a%%2Fb", "%PATH(XX)%": "%%PATH(XX)%%",
		"%FILTER_STATE(a:NOSUCH)%": "%%FILTER_STATE(a:NOSUCH)%%", "%METADATA(NOSUCH:a:b)%": "%%METADATA(NOSUCH:a:b)%%", "%REQ(a\tb)%": "%%REQ(a\tb)%%",
	} {
		if got := format.Header(text); got != literal || !format.Valid(got) {
			t.Errorf("%q becomes %q, want %q", text, got, literal)
		}
	}
}
