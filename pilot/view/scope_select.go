package view

import "github.com/mizzen-mesh/mizzen/pilot/model"

func (s *Scope) find(host string) *ScopedService {
	for _, x := range s.Services {
		if x.Host == host {
			return x
		}
	}
	return nil
}

func (c *Context) scope() *Scope { return nil }

// SelectSidecar returns the Sidecar object that applies to a proxy, or nil.
func SelectSidecar(r *model.Reader, namespace string, labels map[string]string, typ Type) *model.Sidecar {
	return nil
}
