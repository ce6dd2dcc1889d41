package pooling

import (
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Dialect is an API's form of an error.
type Dialect uint8

// The dialects.
const (
	OpenAI Dialect = iota // {"error":{"message","type","param","code"}}
	TEI                   // {"error","error_type"}, with statuses of its own
	Cohere                // {"message"}
	Jina                  // OpenAI's, and {"detail"} beside it, which Jina's clients read
)

// teiErrors are TEI's statuses and kinds of what OpenAI's API answers with a status.
var teiErrors = map[int]teiKind{400: {422, "Validation"}, 413: {413, "Validation"}, 429: {429, "Overloaded"}, 500: {424, "Backend"}, 503: {503, "Unhealthy"}, 504: {504, "Overloaded"}}

type teiKind struct {
	status int
	name   string
}

// Error is e, an error of OpenAI's API under status, in the words of d.
func (d Dialect) Error(status int, e *api.Error) (int, any) {
	switch d {
	case TEI:
		kind, known := teiErrors[status]
		switch {
		case e.Code == "tokenization_failed":
			kind.name = "Tokenizer"
		case e.Code == CodeEmpty:
			kind = teiKind{400, "Empty"}
		case !known:
			kind = teiKind{status, "Validation"}
		}
		return kind.status, teiError{e.Message, kind.name}
	case Cohere:
		return status, cohereError{e.Message}
	case Jina:
		return status, jinaError{e}
	}
	return status, e
}

type teiError struct {
	Error string `json:"error"`
	Type  string `json:"error_type"`
}

type cohereError struct {
	Message string `json:"message"`
}

type jinaError struct{ *api.Error }

// MarshalJSON implements json.Marshaler.
func (e jinaError) MarshalJSON() ([]byte, error) {
	b, err := e.Error.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return append(api.AppendString(append(b[:len(b)-1], `,"detail":`...), e.Message), '}'), nil
}

// JSONSchema implements fields.Shaped.
func (e jinaError) JSONSchema() fields.Schema {
	s := (*api.Error)(nil).JSONSchema()
	s["properties"].(fields.Schema)["detail"] = word
	return s
}

// CodeEmpty marks a body with nothing to compute, which TEI tells from others that are wrong.
const CodeEmpty = "empty_input"

func newEmptyError(field, format string, args ...any) *api.Error {
	e := api.Invalid(field, format, args...)
	e.Code = CodeEmpty
	return e
}
