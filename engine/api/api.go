// Package api is what the JSON of all endpoints has in common: bodies decoded and checked, errors, prompts and messages,
// models, and answers encoded in pieces.
package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine/api/fields"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
)

// Error is the body of every refusal, inside {"error": ...}. Param names the field at fault, Code
// a reason that programs may test for; either may be empty, which is null in JSON.
type Error struct {
	Message string
	Type    string
	Param   string
	Code    string
}

// Error types that OpenAI's clients know.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeNotFound       = "not_found_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
)

func (e *Error) Error() string { return e.Message }

// Invalid makes an Error about the request field param.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Type: TypeInvalidRequest, Param: param, Code: "invalid_value", Message: fmt.Sprintf(format, args...)}
}

// codeUnsupported is of refusals of fields that would change the answer.
const codeUnsupported = "unsupported_parameter"

// Unsupported is the refusal of a field that would change the answer and is not served.
func Unsupported(name string) *Error {
	e := Invalid(name, "%s is not supported by this server; leave it out", name)
	e.Code = codeUnsupported
	return e
}

// errorBody is Error with its JSON names; nil pointers are null.
type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// MarshalJSON encodes e as {"error": {"message", "type", "param", "code"}}.
func (e *Error) MarshalJSON() ([]byte, error) {
	body := errorBody{Message: e.Message, Type: e.Type}
	if e.Param != "" {
		body.Param = &e.Param
	}
	if e.Code != "" {
		body.Code = &e.Code
	}
	return json.Marshal(map[string]errorBody{"error": body})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (e *Error) UnmarshalJSON(data []byte) error {
	var outer struct {
		Error *errorBody `json:"error"`
	}
	if err := json.Unmarshal(data, &outer); err != nil {
		return err
	}
	if outer.Error == nil {
		return errors.New("the body has no error object")
	}
	*e = Error{Message: outer.Error.Message, Type: outer.Error.Type}
	if outer.Error.Param != nil {
		e.Param = *outer.Error.Param
	}
	if outer.Error.Code != nil {
		e.Code = *outer.Error.Code
	}
	return nil
}

// Decode fills into from body. Unknown fields are ignored, as OpenAI's clients and load generators
// send many; a key given twice is refused wherever it is, and a field that is not as its tags say (package fields).
func Decode(body []byte, into any) *Error {
	if err := checkUTF8(body); err != nil {
		return err
	}
	fields.SetDefaults(into)
	if decodeBulk(body, into) {
		return checkTags(into)
	}
	return decodeWhole(body, into)
}

// checkUTF8 refuses a body that is not UTF-8: encoding/json puts U+FFFD for what is not, and the prompt would be another.
func checkUTF8(body []byte) *Error {
	if utf8.Valid(body) {
		return nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			return invalidJSON("the request body is not UTF-8 at byte %d of %d; send it as UTF-8", at+1, len(body))
		}
		at += size
	}
}

// decodeWhole decodes a body by encoding/json alone, and explains what is wrong with it.
func decodeWhole(body []byte, into any) *Error {
	err := json.Unmarshal(body, into)
	if err == nil {
		if err := checkOnce(body); err != nil {
			return err
		}
		return checkTags(into)
	}
	var refused *Error
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &refused) && refused.Param == tokenListField:
		return nameList(body, into, refused)
	case errors.As(err, &refused):
		return refused
	case len(body) == 0:
		return invalidJSON("the request body is empty; it must be a JSON object")
	case errors.As(err, &syntax):
		return invalidJSON("the request body is not valid JSON at byte %d of %d: %v", syntax.Offset, len(body), syntax)
	case errors.As(err, &mismatch) && mismatch.Field == "":
		return invalidJSON("the request body is a JSON %s; it must be an object", mismatch.Value)
	case errors.As(err, &mismatch):
		field := jsonerror.FindField(mismatch, into)
		return Invalid(field, "%s must be %s, not %s", field, jsonerror.NameType(mismatch), mismatch.Value)
	}
	return invalidJSON("the request body cannot be decoded: %s", jsonerror.Explain(err, into))
}

// Neutral reports whether raw is absent, null or, white space aside, one of the lines of literals.
func Neutral(raw json.RawMessage, literals string) bool { return fields.Neutral(raw, literals) }

func checkTags(decoded any) *Error {
	wrong := fields.Check(decoded)
	if wrong == nil {
		return nil
	}
	e := Invalid(wrong.Field, "%s", wrong.Message)
	if wrong.Refused {
		e.Code = codeUnsupported
	}
	return e
}

func invalidJSON(format string, args ...any) *Error {
	e := Invalid("", format, args...)
	e.Code = "invalid_json"
	return e
}
