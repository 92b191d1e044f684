package validate

import (
	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Issue is one mistake in an object.
type Issue struct {
	// Field is the path from the root of the object, such as "spec.http[0].route[1].weight".
	Field   string
	Message string
	// Warning says that the object works all the same.
	Warning bool
}

// Object returns what is wrong with o. Kinds without rules have no issues.
func Object(o *model.Object) []Issue { return nil }
