package view

func (s *Scope) find(host string) *ScopedService {
	for _, x := range s.Services {
		if x.Host == host {
			return x
		}
	}
	return nil
}

func (c *Context) scope() *Scope { return nil }
