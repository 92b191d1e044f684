package document

import (
	"bytes"

	yaml "go.yaml.in/yaml/v3"
)

// Document is one YAML document of a file.
type Document struct {
	// Line is the number in the file of the document's first line that holds content, from 1.
	Line int
	// Base is the number of the file's line that Data starts at, from 1.
	Base int
	// Data is the text. It shares memory with the file's.
	Data []byte

	root *yaml.Node // of the parsed text; nil until it is needed
}

// Split cuts a file at its document markers. In YAML a line that starts with "---" ends a document wherever it stands,
// also inside block scalars and quotes, so that a broken document cannot swallow the ones after it. Documents without
// content are left out.
func Split(data []byte) []Document {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var out []Document
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

// Single returns data as one document, which may be without content.
func Single(data []byte) Document {
	d, ok := newDocument(data, 1)
	if !ok {
		return Document{Line: 1, Base: 1, Data: data}
	}
	return d
}

func marker(row []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(row, []byte(mark))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

func newDocument(data []byte, base int) (Document, bool) {
	line := base
	for row := range bytes.SplitAfterSeq(data, []byte("\n")) {
		text := bytes.TrimSpace(row)
		if len(text) > 0 && text[0] != '#' && text[0] != '%' {
			return Document{Line: line, Base: base, Data: data}, true
		}
		line++
	}
	return Document{}, false
}
