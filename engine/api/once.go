package api

import (
	"bytes"
	"encoding/json"
	"unicode"
)

// checkOnce refuses a body in which an object has a key twice: which value is meant is not to be told, and to
// take one in silence may be to score the wrong prompt. The body is valid JSON.
func checkOnce(body []byte) *Error {
	var room [4]keySet
	open := room[:0] // the lists and objects around at
	for at := 0; at < len(body); at++ {
		switch body[at] {
		case '{', '[':
			open = append(open, keySet{object: body[at] == '{', keyIsNext: true, anyCase: len(open) == 0})
		case '}', ']':
			open = open[:len(open)-1]
		case ',':
			open[len(open)-1].keyIsNext = true
		case '"':
			start := at
			at = endOfString(body, at)
			if len(open) == 0 {
				continue
			}
			if in := &open[len(open)-1]; in.object && in.keyIsNext {
				in.keyIsNext = false
				key := unescapeKey(body[start : at+1])
				if !in.addKey(key) {
					return Invalid(string(key), "the request body has the key %.100q twice in one object, at byte %d for the second time; which value is meant is not to be told: give it once", key, start)
				}
			}
		}
	}
	return nil
}

// endOfString is the place of the quote that ends the string at start.
func endOfString(body []byte, start int) int {
	for at := start + 1; ; at++ {
		at += bytes.IndexByte(body[at:], '"')
		escapes := 0
		for body[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

// unescapeKey is what a quoted key says.
func unescapeKey(quoted []byte) []byte {
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return inside
	}
	return []byte(text)
}

// keySet is a list, or an object with the keys that it has so far.
type keySet struct {
	object, keyIsNext bool
	anyCase           bool // keys are equal in any case, as they are to encoding/json where it looks for fields
	few               [][]byte
	many              map[string]bool // in place of few, where they are not
}

// fewKeys is up to how many keys are compared one by one.
const fewKeys = 32

// addKey reports whether key is new.
func (s *keySet) addKey(key []byte) bool {
	if s.many == nil && len(s.few) < fewKeys {
		for _, k := range s.few {
			if bytes.Equal(k, key) || s.anyCase && bytes.EqualFold(k, key) {
				return false
			}
		}
		if s.few == nil {
			s.few = make([][]byte, 0, 8)
		}
		s.few = append(s.few, key)
		return true
	}
	if s.many == nil {
		s.many = make(map[string]bool, 2*fewKeys)
		for _, k := range s.few {
			s.many[s.foldKey(k)] = true
		}
	}
	known := len(s.many)
	s.many[s.foldKey(key)] = true
	return len(s.many) > known
}

// foldKey is one text for all that are equal.
func (s *keySet) foldKey(key []byte) string {
	if !s.anyCase {
		return string(key)
	}
	return string(bytes.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, key))
}
