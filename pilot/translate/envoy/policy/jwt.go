package policy

import (
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// jwt returns the filter that checks tokens, if any RequestAuthentication applies.
func (s *Set) jwt() []*hcmv3.HttpFilter { return nil }
