package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Asker is what a body says of the model that it asks, and of who asks.
type Asker struct{ Model, User, RequestID string }

// Prompt holds the prompts of one request: Texts or Tokens, never both. On the wire it is a
// string, a list of strings, a list of token ids, or a list of lists of token ids.
type Prompt struct {
	Texts  []string
	Tokens [][]uint32
}

// Len is the number of prompts.
func (p *Prompt) Len() int { return len(p.Texts) + len(p.Tokens) }

// UnmarshalJSON decodes one of the four forms. A null leaves p as it is.
func (p *Prompt) UnmarshalJSON(raw []byte) error { return p.Read("prompt", raw) }

// Read decodes one of the four forms, which errors call field.
func (p *Prompt) Read(field string, raw []byte) error {
	text := func(s *scanner) (err error) { p.Texts, err = s.loneText(); return err }
	return decodeList(raw, field, "a string, a list of strings, a list of token ids, or a list of lists of token ids", text, p.parseList)
}

// decodeList reads a value that is null, a string or a list, at whose start text and list are called; a nil
// text refuses strings.
func decodeList(raw []byte, field, wanted string, text, list func(s *scanner) error) error {
	s := &scanner{raw: raw, field: field}
	s.skipSpace()
	switch first := s.peek(); {
	case first == 'n':
		return nil
	case first == '"' && text != nil:
		return text(s)
	case first == '[':
		return list(s)
	}
	return Invalid(field, "%s must be %s", field, wanted)
}

func (p *Prompt) parseList(s *scanner) error {
	switch s.afterBracket() {
	case ']':
		return Invalid(s.field, "%s is an empty list; give at least one prompt", s.field)
	case '"':
		texts, err := s.decodeTexts()
		p.Texts = texts
		return err
	case '[':
		return s.eachElement(func() error {
			if s.peek() != '[' {
				return Invalid(s.field, "%s mixes lists of token ids with other values", s.field)
			}
			ids, err := s.decodeTokens()
			p.Tokens = append(p.Tokens, ids)
			return err
		})
	}
	ids, err := s.decodeTokens()
	p.Tokens = [][]uint32{ids}
	return err
}

// TokenList is a list of token ids.
type TokenList []uint32

// UnmarshalJSON decodes a list of integers. A null leaves l as it is.
func (l *TokenList) UnmarshalJSON(raw []byte) error { return l.Read(tokenListField, raw) }

// nameList finds which of the body's token lists, which are fields of into, cannot be decoded, and returns its error with the name of
// the field, which an UnmarshalJSON method does not know.
func nameList(body []byte, into any, unnamed *Error) *Error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return unnamed
	}
	for _, f := range fields.FieldsOf(reflect.TypeOf(into).Elem()) {
		var list TokenList
		var refused *Error
		if f.Type == reflect.TypeFor[TokenList]() && errors.As(json.Unmarshal(given[f.Name], &list), &refused) {
			return Invalid(f.Name, "%s%s", f.Name, strings.TrimPrefix(refused.Message, tokenListField))
		}
	}
	return unnamed
}

// tokenListField stands in errors for the name of a TokenList's field until nameList puts it in.
const tokenListField = "token ids"

// Read decodes a list of integers, which errors call field.
func (l *TokenList) Read(field string, raw []byte) error {
	list := func(s *scanner) (err error) { *l, err = s.decodeTokens(); return err }
	return decodeList(raw, field, "a list of integers", nil, list)
}

// Strings is a list of strings; on the wire a lone string stands for a list of one.
type Strings []string

// UnmarshalJSON decodes a string or a list of strings. A null leaves l as it is.
func (l *Strings) UnmarshalJSON(raw []byte) error { return l.Read("stop", raw) }

// Read decodes a string or a list of strings, which errors call field.
func (l *Strings) Read(field string, raw []byte) error {
	text := func(s *scanner) (err error) { *l, err = s.loneText(); return err }
	list := func(s *scanner) (err error) { *l, err = s.decodeTexts(); return err }
	return decodeList(raw, field, "a string or a list of strings", text, list)
}

// scanner walks one JSON value that encoding/json has already found to be well formed. Token
// arrays are the bulk of most bodies, and reading them by hand is several times faster than by
// reflection.
type scanner struct {
	raw   []byte
	at    int
	field string // for errors
}

func (s *scanner) peek() byte {
	if s.at < len(s.raw) {
		return s.raw[s.at]
	}
	return 0
}

func (s *scanner) skipSpace() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// afterBracket returns the first byte of the list's first element, or ']', without moving.
func (s *scanner) afterBracket() byte {
	ahead := scanner{raw: s.raw, at: s.at + 1}
	ahead.skipSpace()
	return ahead.peek()
}

// eachElement calls element at the start of every element of the list at s; element moves past it.
func (s *scanner) eachElement(element func() error) error {
	s.at++ // '['
	s.skipSpace()
	for s.peek() != ']' {
		if err := element(); err != nil {
			return err
		}
		s.skipSpace()
		switch s.peek() {
		case ',':
			s.at++
			s.skipSpace()
		case ']':
		default:
			return Invalid(s.field, "%s is not a well formed list", s.field)
		}
	}
	s.at++
	return nil
}

// decodeTexts decodes the list of strings at s.
func (s *scanner) decodeTexts() ([]string, error) {
	var out []string
	err := s.eachElement(func() error {
		text, err := s.decodeText()
		out = append(out, text)
		return err
	})
	return out, err
}

// loneText decodes the string at s as a list of one.
func (s *scanner) loneText() ([]string, error) {
	text, err := s.decodeText()
	return []string{text}, err
}

// decodeText decodes the string at s.
func (s *scanner) decodeText() (string, error) {
	if s.peek() != '"' {
		return "", Invalid(s.field, "%s mixes strings with other values", s.field)
	}
	end := s.at + 1
	for end < len(s.raw) && s.raw[end] != '"' {
		if s.raw[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.raw) {
		return "", Invalid(s.field, "%s has a string without an end", s.field)
	}
	var out string
	if err := json.Unmarshal(s.raw[s.at:end+1], &out); err != nil {
		return "", Invalid(s.field, "%s has a malformed string: %v", s.field, err)
	}
	s.at = end + 1
	return out, nil
}

// decodeTokens decodes the list of token ids at s.
func (s *scanner) decodeTokens() ([]uint32, error) {
	ids, n := idList(s.raw[s.at:])
	if n == 0 {
		return nil, s.badToken()
	}
	s.at += n
	return ids, nil
}

// badToken says which element of the list at s is no token id.
func (s *scanner) badToken() error {
	index := 0
	err := s.eachElement(func() error {
		shown := s.raw[s.at:]
		if end := bytes.IndexAny(shown, ",] \t\r\n"); end >= 0 {
			shown = shown[:end]
		}
		if _, err := strconv.ParseUint(string(shown), 10, 32); err != nil {
			return Invalid(s.field, "%s: element %d is %s; a token id is an integer from 0 to %d", s.field, index, shown[:min(len(shown), 24)], uint32(math.MaxUint32))
		}
		s.at += len(shown)
		index++
		return nil
	})
	if err == nil {
		err = Invalid(s.field, "%s is not a well formed list", s.field)
	}
	return err
}
