package view

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/structpb"
)

// metaString returns a metadata field as text: strings as they are, everything else as JSON, "" if absent.
func metaString(m *structpb.Struct, key string) string {
	v, ok := m.GetFields()[key]
	if !ok {
		return ""
	}
	if s, ok := v.GetKind().(*structpb.Value_StringValue); ok {
		return s.StringValue
	}
	b, err := json.Marshal(v.AsInterface())
	if err != nil {
		return ""
	}
	return string(b)
}
