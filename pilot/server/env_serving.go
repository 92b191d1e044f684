package server

import (
	"fmt"
	"strconv"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// servingVariables are those of the process rather than of what it generates.
func servingVariables() []Variable {
	duration := func(name, def, doc string, f func(*model.Settings) *time.Duration) Variable {
		return Variable{Name: name, Default: def, Doc: doc, Stage: "compatible", set: func(s *model.Settings, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d < 0 {
				return fmt.Errorf("%s: %q is not a duration", name, v)
			}
			*f(s) = d
			return nil
		}}
	}
	return []Variable{
		{
			Name: "SHARED_MESH_CONFIG", Stage: "compatible", Doc: "a ConfigMap with mesh configuration that revisions share",
			set: func(s *model.Settings, v string) error { s.SharedMeshConfig = v; return nil },
		},
		duration("PILOT_DEBOUNCE_AFTER", "100ms", "the pause that ends a storm of changes", func(s *model.Settings) *time.Duration { return &s.DebounceAfter }),
		duration("PILOT_DEBOUNCE_MAX", "10s", "the longest wait of a change in a storm", func(s *model.Settings) *time.Duration { return &s.DebounceMax }),
		{
			Name: "PILOT_MAX_REQUESTS_PER_SECOND", Default: "0", Stage: "compatible", Doc: "new streams a second; 0: by the number of processors",
			set: func(s *model.Settings, v string) error {
				n, err := strconv.ParseFloat(v, 64)
				if err != nil || n < 0 {
					return fmt.Errorf("PILOT_MAX_REQUESTS_PER_SECOND: %q is not a rate", v)
				}
				s.RequestsPerSecond = n
				return nil
			},
		},
	}
}
