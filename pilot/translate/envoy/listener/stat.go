package listener

import (
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// statPort is a port as statistics name it.
type statPort struct {
	number uint32
	name   string
}

// statName fills a pattern of the mesh configuration (translation-l4 §1). %TARGET_PORT% is unknown to listeners.
func statName(pattern string, s *model.Service, p statPort, subset string) string {
	short, name := s.Host, s.Host
	if s.Registry == model.Kubernetes {
		short, name = s.Name+"."+s.Namespace, s.Name
	}
	return strings.NewReplacer(
		"%SERVICE%", short, "%SERVICE_NAME%", name, "%SERVICE_FQDN%", s.Host,
		"%SERVICE_PORT%", strconv.FormatUint(uint64(p.number), 10), "%SERVICE_PORT_NAME%", p.name, "%SUBSET_NAME%", subset,
	).Replace(pattern)
}
