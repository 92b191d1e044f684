package file

import "bytes"

// document is one YAML document of a file.
type document struct {
	// line is the number of the document's first line that holds content.
	line int
	// base is the number of the file's line that data starts at.
	base int
	data []byte
}

// split cuts a file at its document markers. In YAML a line that starts with "---" ends a document wherever it stands,
// also inside block scalars and quotes, so that a broken document cannot swallow the ones after it. Documents without
// content are left out.
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var out []document
	start, base, line := 0, 1, 0
	flush := func(end int) {
		if d, ok := newDocument(data[start:end], base); ok {
			out = append(out, d)
		}
	}
	for pos := 0; pos < len(data); {
		line++
		end := pos + bytes.IndexByte(data[pos:], '\n') + 1
		if end == pos {
			end = len(data)
		}
		switch row := data[pos:end]; {
		case marker(row, "---"):
			// What follows on the marker's own line belongs to the new document.
			flush(pos)
			start, base = pos+3, line
		case marker(row, "..."):
			flush(pos)
			start, base = end, line+1
		}
		pos = end
	}
	flush(len(data))
	return out
}

func marker(row []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(row, []byte(mark))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

func newDocument(data []byte, base int) (document, bool) {
	line := base
	for row := range bytes.SplitAfterSeq(data, []byte("\n")) {
		text := bytes.TrimSpace(row)
		if len(text) > 0 && text[0] != '#' && text[0] != '%' {
			return document{line: line, base: base, data: data}, true
		}
		line++
	}
	return document{}, false
}
