package route

import (
	"google.golang.org/protobuf/proto"
)

// validText tells whether all of m's text is UTF-8, so that it can be encoded at all.
func validText(m proto.Message) bool {
	_, err := proto.Marshal(m)
	return err == nil
}
