// Package batch is OpenAI's batch files: their lines, each a request, and the answers to them. It says which lines are
// fit, which were answered before, and which answers are final; it knows neither files nor HTTP.
package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// maxCustomID bounds a custom_id in bytes.
const maxCustomID = 512

// Line is a request of a batch file.
type Line struct {
	Number   int // from 1
	ID       string
	CustomID string
	URL      string
	Body     json.RawMessage
	Size     int // of the line in bytes
}

// Key stands for a custom_id among those of a file.
type Key [16]byte

// Key is that of the line.
func (l *Line) Key() Key { return keyOf(l.CustomID) }

func keyOf(customID string) (k Key) {
	sum := sha256.Sum256([]byte(customID))
	copy(k[:], sum[:])
	return k
}

// idPrefix begins the ids of answers.
const idPrefix = "batch_req_"

// idOf names the answer to a line by the line's text: another text has another.
func idOf(text []byte) string {
	sum := sha256.Sum256(text)
	return idPrefix + hex.EncodeToString(sum[:12])
}

// LineError says what is wrong with a line, or with a file as a whole.
type LineError struct {
	Line    int // 0: none
	Code    string
	Param   string // the field at fault; may be empty
	Message string
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// Rules are what lines must be.
type Rules struct {
	MaxLine  int                    // bytes
	Endpoint string                 // that all lines must be of; empty: any that Serves
	Serves   func(path string) bool // whether requests to a path may be in a batch
}

// textOf is a string of JSON, or empty where there is none; false of what is another value.
func textOf(raw json.RawMessage) (text string, ok bool) {
	ok = len(raw) == 0 || json.Unmarshal(raw, &text) == nil // null is none
	return text, ok
}

// parse reads the text of a line.
func (r *Rules) parse(number int, text []byte) (*Line, *LineError) {
	wrong := func(code, param, format string, args ...any) (*Line, *LineError) {
		return nil, &LineError{number, code, param, fmt.Sprintf(format, args...)}
	}
	var in struct {
		CustomID json.RawMessage `json:"custom_id"`
		Method   json.RawMessage `json:"method"`
		URL      json.RawMessage `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	if !utf8.Valid(text) {
		return wrong("invalid_json_line", "", "the line is not UTF-8; save the file as UTF-8")
	}
	if err := json.Unmarshal(text, &in); err != nil {
		where := ""
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
			where = fmt.Sprintf("; invalid JSON at byte %d of %d", syntax.Offset, len(text))
		}
		return wrong("invalid_json_line", "", "invalid line: want a JSON object with custom_id, method, url and body%s", where)
	}
	customID, isText := textOf(in.CustomID)
	method, _ := textOf(in.Method)
	url, isPath := textOf(in.URL)
	switch {
	case !isText:
		return wrong("invalid_custom_id", "custom_id", "invalid custom_id %.40s: want a string such as %.40q", in.CustomID, string(in.CustomID))
	case customID == "":
		return wrong("missing_required_parameter", "custom_id", "missing custom_id: give each line its own")
	case len(customID) > maxCustomID:
		return wrong("invalid_custom_id", "custom_id", "custom_id has %d bytes; the limit is %d", len(customID), maxCustomID)
	case method != "POST":
		return wrong("invalid_method", "method", `invalid method: want "POST"`)
	case !isPath:
		return wrong("invalid_url", "url", "invalid url %.40s: want a string such as \"/v1/chat/completions\"", in.URL)
	case url == "":
		return wrong("missing_required_parameter", "url", "missing url: want a path such as /v1/chat/completions")
	case !r.Serves(url):
		return wrong("invalid_url", "url", "invalid url %.100q: want a path that scores, embeds or completes, such as /v1/chat/completions or /v1/embeddings", url)
	case r.Endpoint != "" && url != r.Endpoint:
		return wrong("mismatched_url", "url", "invalid url %.100q: the endpoint of the batch is %s", url, r.Endpoint)
	}
	if body := bytes.TrimSpace(in.Body); len(body) == 0 || body[0] != '{' {
		return wrong("missing_required_parameter", "body", "invalid body: want a JSON object, the request")
	}
	var flags struct {
		Stream any `json:"stream"`
	}
	if json.Unmarshal(in.Body, &flags) == nil && flags.Stream == true {
		return wrong("invalid_request", "body.stream", "stream is true: a batch does not stream answers; leave it out")
	}
	return &Line{Number: number, ID: idOf(text), CustomID: customID, URL: url, Body: in.Body, Size: len(text)}, nil
}
