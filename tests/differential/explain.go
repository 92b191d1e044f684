package differential

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// explain shows the first lines in which two resources of a type differ.
func explain(url, got, want string) string {
	g, w := strings.Split(text(url, got), "\n"), strings.Split(text(url, want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			from := max(i-3, 0)
			return fmt.Sprintf("line %d: got\n%s\nwant\n%s", i, strings.Join(g[min(from, len(g)):min(i+6, len(g))], "\n"), strings.Join(w[min(from, len(w)):min(i+6, len(w))], "\n"))
		}
	}
	return "the same text in other bytes"
}

func text(url, body string) string {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return err.Error()
	}
	m := t.New().Interface()
	if err := proto.Unmarshal([]byte(body), m); err != nil {
		return err.Error()
	}
	return prototext.MarshalOptions{Multiline: true}.Format(m)
}
