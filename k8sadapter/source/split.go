package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// chunk is one document of a file, already in JSON.
type chunk struct {
	line int // where its content begins, counted from 1 in the file
	json []byte
	// warning is what a strict parser would have refused (duplicate keys).
	warning error
}

// splitJSON takes a stream of JSON values apart.
func splitJSON(file string, data []byte) ([]chunk, []*SyntaxError) {
	var chunks []chunk
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		start := decoder.InputOffset()
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return chunks, nil
		}
		if err != nil {
			offset := int64(len(data))
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = max(syntax.Offset-1, 0)
			}
			return chunks, []*SyntaxError{{File: file, Line: lineAt(data, offset), Err: err}}
		}
		for start < int64(len(data)) && strings.IndexByte(" \t\r\n", data[start]) >= 0 {
			start++
		}
		chunks = append(chunks, chunk{line: lineAt(data, start), json: value})
	}
}

func lineAt(data []byte, offset int64) int {
	offset = min(offset, int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}

// splitYAML takes a YAML stream apart and turns every document into JSON.
// Documents without content are left out. All documents are looked at, so
// that one faulty document does not hide the next one's fault.
func splitYAML(file string, data []byte) ([]chunk, []*SyntaxError) {
	var chunks []chunk
	var faults []*SyntaxError
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, []*SyntaxError{{File: file, Line: 1, Err: errors.New("the file is UTF-16; save it as UTF-8")}}
	}
	for _, doc := range splitDocuments(newlines(data)) {
		content := doc.contentLine()
		if content == 0 {
			continue
		}
		converted, warning, err := toJSON(doc.text)
		if err != nil {
			line := doc.line + yamlLine(err, content-doc.line+1) - 1
			line = min(line, doc.line+bytes.Count(bytes.TrimSuffix(doc.text, []byte("\n")), []byte("\n")))
			faults = append(faults, &SyntaxError{File: file, Line: line, Err: trimYAMLError(err)})
			continue
		}
		chunks = append(chunks, chunk{line: content, json: converted, warning: warning})
	}
	return chunks, faults
}

// newlines ends every line with a line feed. YAML has the carriage return alone as a line break, too: document markers
// behind one must not be overlooked, for the parser reads no further than the first document.
func newlines(data []byte) []byte {
	if !bytes.Contains(data, []byte("\r")) {
		return data
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// toJSON converts one document as kubectl does: YAML 1.1 scalars, and the last
// of two equal keys wins. The latter comes back as a warning.
func toJSON(text []byte) (converted []byte, warning, err error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed, nil, nil // JSON may be indented with tabs, YAML may not
	}
	converted, strictErr := yaml.YAMLToJSONStrict(text)
	if strictErr == nil {
		return converted, nil, nil
	}
	converted, err = yaml.YAMLToJSON(text)
	if err != nil {
		return nil, nil, err
	}
	return converted, trimYAMLError(strictErr), nil
}

// rawDocument is the text between two document markers.
type rawDocument struct {
	line int // of the first line of text, counted from 1
	text []byte
}

// splitDocuments cuts a stream at its document markers. A marker stays with
// the document that it opens, and directives with the marker that they precede.
func splitDocuments(data []byte) []rawDocument {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var docs []rawDocument
	current := rawDocument{line: 1}
	line := 0
	for rest := data; len(rest) > 0; {
		line++
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		text := rest[:end]
		rest = rest[end:]
		switch {
		case isMarker(text, "---") && !current.onlyDirectives():
			docs = append(docs, current)
			current = rawDocument{line: line}
		case isMarker(text, "..."):
			docs = append(docs, current)
			current = rawDocument{line: line + 1}
			continue
		}
		current.text = append(current.text, text...)
	}
	return append(docs, current)
}

func isMarker(line []byte, marker string) bool {
	if !bytes.HasPrefix(line, []byte(marker)) {
		return false
	}
	return len(line) == len(marker) || strings.IndexByte(" \t\r\n", line[len(marker)]) >= 0
}

// onlyDirectives tells whether nothing but directives, comments and blank
// lines came so far: a marker then opens this document instead of ending it.
func (d rawDocument) onlyDirectives() bool {
	for text := range bytes.Lines(d.text) {
		text = bytes.TrimSpace(text)
		if len(text) > 0 && text[0] != '#' && text[0] != '%' {
			return false
		}
	}
	return true
}

// contentLine returns the line of the file where the first content stands, 0
// when there is none.
func (d rawDocument) contentLine() int {
	line := d.line - 1
	for text := range bytes.Lines(d.text) {
		line++
		if isMarker(text, "---") {
			text = text[3:]
		}
		text = bytes.TrimSpace(text)
		if len(text) > 0 && text[0] != '#' && text[0] != '%' {
			return line
		}
	}
	return 0
}

// yamlLine reads the line out of a parser's error, counted from 1 inside the
// document; fallback when it gives none.
//
// The parser counts the lines of its grammar errors from 0 and those of its
// lexical errors from 1, and leaves out a line 0.
func yamlLine(err error, fallback int) int {
	match := regexp.MustCompile(`line (\d+): (.*)`).FindStringSubmatch(err.Error())
	if match == nil {
		return fallback
	}
	line, convErr := strconv.Atoi(match[1])
	if convErr != nil {
		return fallback
	}
	if regexp.MustCompile(`^did not find expected (<document start>|node content|key|'-' indicator|',' or)`).MatchString(match[2]) {
		line++
	}
	return line
}

// trimYAMLError drops the parser's prefix and its line, which counts from the
// start of the document and not of the file.
func trimYAMLError(err error) error {
	text := regexp.MustCompile(`(error converting YAML to JSON: |yaml: |unmarshal errors:|line \d+: )`).ReplaceAllString(err.Error(), "")
	return errors.New(strings.Join(strings.Fields(text), " "))
}
