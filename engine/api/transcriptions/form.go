// Package transcriptions is the form in which users of OpenAI's API ask for the text of sound, and its answers.
package transcriptions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Bounds on a form beside its file.
const (
	maxFields = 64
	maxField  = 16 << 10 // bytes
)

// Formats of answers.
const (
	formatJSON    = "json"
	formatText    = "text"
	formatVerbose = "verbose_json"
	formatSRT     = "srt"
	formatVTT     = "vtt"
)

var formats = []string{formatJSON, formatText, formatVerbose, formatSRT, formatVTT}

// Request is a request for the text of a sound.
type Request struct {
	File     []byte // not looked at
	Model    string
	Format   string
	Language string // as the client says; the network knows its own
	Words    bool   // their times are wanted

	RequestID string // of a body of JSON
}

// FormBody describes what DecodeForm takes.
var FormBody = fields.Schema{
	"type": "object", "required": []string{"file"},
	"properties": fields.Schema{
		"file":                      fields.Schema{"type": "string", "format": "binary", "description": "WAV, FLAC, MP3, Ogg, MP4 or WebM"},
		"model":                     fields.RefTo("ModelName"),
		"response_format":           fields.Schema{"type": "string", "enum": formats, "default": formatJSON},
		"timestamp_granularities[]": fields.Schema{"type": "array", "items": fields.Schema{"type": "string", "enum": []string{"segment", "word"}}, "description": "word: verbose_json has the times of words"},
		"language":                  fields.Schema{"type": "string", "maxLength": 64, "description": "verbose_json repeats it; the network knows its own language alone"},
		"prompt":                    fields.Schema{"type": "string", "description": "not used: nothing is generated"},
		"temperature":               fields.Schema{"type": "number", "minimum": 0, "maximum": 1, "description": "not used: nothing is drawn"},
	},
}

// CheckFormat refuses a format that there is not.
func (r *Request) CheckFormat() error {
	if !slices.Contains(formats, r.Format) {
		return fmt.Errorf("invalid format %.40q: want %s", r.Format, strings.Join(formats, ", "))
	}
	return nil
}

// DecodeForm reads a body of multipart/form-data. The file in it comes to lie at the body's beginning: what is read is always behind what is
// written, as the part's own head and end are.
func DecodeForm(contentType string, body []byte) (*Request, *api.Error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, api.Invalid("file", "Content-Type is %.80q; send the sound as multipart/form-data with the fields file and model, or as JSON with the file in base64", contentType)
	}
	f := form{Request: Request{Format: formatJSON}, body: body}
	for parts := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, truncated(err)
		}
		if wrong := f.readPart(part); wrong != nil {
			return nil, wrong
		}
	}
	if f.File == nil {
		return nil, api.Invalid("file", "missing field file: want a file of sound")
	}
	return &f.Request, f.checkWords()
}

// checkWords refuses times of words in a format that has none.
func (r *Request) checkWords() *api.Error {
	if r.Words && r.Format != formatVerbose {
		return api.Invalid("timestamp_granularities", "timestamp_granularities has word, which needs response_format verbose_json; got %s", r.Format)
	}
	return nil
}

func truncated(err error) *api.Error {
	if errors.Is(err, multipart.ErrMessageTooLarge) {
		return api.Invalid("file", "the head of a field of the form is too large")
	}
	return api.Invalid("file", "invalid form: %v; want multipart/form-data with the fields file and model", err)
}

// form is one that is read.
type form struct {
	Request
	body   []byte
	fields int
}

func (f *form) readPart(p *multipart.Part) *api.Error {
	name := p.FormName()
	if f.fields++; f.fields > maxFields {
		return api.Invalid("", "the form has more than %d fields", maxFields)
	}
	if name == "file" {
		return f.readFile(p)
	}
	text, err := io.ReadAll(io.LimitReader(p, maxField+1))
	switch {
	case err != nil:
		return truncated(err)
	case len(text) > maxField:
		return api.Invalid(name[:min(len(name), 100)], "the field %.100q has more than %d bytes", name, maxField)
	}
	return f.setField(name, string(text))
}

func (f *form) readFile(p *multipart.Part) *api.Error {
	if f.File != nil {
		return api.Invalid("file", "the form has several files, want one")
	}
	n := 0
	for {
		read, err := p.Read(f.body[n:])
		n += read
		if err == io.EOF {
			break
		}
		if err != nil {
			return truncated(err)
		}
	}
	if f.File = f.body[:n:n]; n == 0 {
		return api.Invalid("file", "the file is empty")
	}
	return nil
}

// setField takes a field. Those that are not known are passed over.
func (f *form) setField(name, text string) *api.Error {
	switch strings.TrimSuffix(name, "[]") {
	case "model":
		f.Model = text
	case "language":
		if len(text) > 64 {
			return api.Invalid(name, "language has %d bytes, want at most 64", len(text))
		}
		f.Language = text
	case "response_format":
		f.Format = text
		if err := f.CheckFormat(); err != nil {
			return api.Invalid(name, "response_format: %v", err)
		}
	case "temperature":
		if v, err := strconv.ParseFloat(text, 64); err != nil || !(v >= 0 && v <= 1) {
			return api.Invalid(name, "invalid temperature %.40q: want a number from 0 to 1", text)
		}
	case "timestamp_granularities":
		if text != "segment" && text != "word" {
			return api.Invalid("timestamp_granularities", "invalid timestamp_granularities %.40q: want segment or word", text)
		}
		f.Words = f.Words || text == "word"
	case "stream":
		if !slices.Contains([]string{"", "false", "False", "0"}, text) {
			return api.Unsupported("stream")
		}
	case "include":
		return api.Unsupported("include")
	}
	return nil
}
