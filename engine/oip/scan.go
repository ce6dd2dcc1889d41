package oip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// scanner reads JSON from its beginning to its end, without making anything of what nobody asks for.
type scanner struct {
	data []byte
	at   int
}

// syntaxError is an error about what stands where the scanner is.
func (s *scanner) syntaxError(format string, args ...any) error {
	return fmt.Errorf("the JSON is wrong at byte %d of %d: %s", s.at, len(s.data), fmt.Sprintf(format, args...))
}

// describeNext describes what stands where the scanner is.
func (s *scanner) describeNext() string {
	if s.at >= len(s.data) {
		return "the end"
	}
	return strconv.Quote(string(s.data[s.at:min(len(s.data), s.at+12)]))
}

// peekByte is the first byte that is no white space; 0 at the end.
func (s *scanner) peekByte() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// acceptByte passes over c, if that comes next.
func (s *scanner) acceptByte(c byte) bool {
	if s.peekByte() != c || s.at >= len(s.data) {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expectByte(c byte) error {
	if !s.acceptByte(c) {
		return s.syntaxError("%s, want %q", s.describeNext(), c)
	}
	return nil
}

// readObject reads an object. Each of fields reads the value of its key, which may come once; others, and null, are passed
// over.
func (s *scanner) readObject(fields map[string]func() error) error {
	if err := s.expectByte('{'); err != nil {
		return err
	}
	if s.acceptByte('}') {
		return nil
	}
	seen := map[string]bool{}
	for {
		key, err := s.readString()
		if err == nil {
			err = s.expectByte(':')
		}
		if err != nil {
			return err
		}
		read := fields[key]
		if read == nil {
			read = s.skipValue
		} else if seen[key] {
			return s.syntaxError("%q is given twice", key)
		} else {
			seen[key] = true
		}
		if s.peekByte() == 'n' {
			read = s.readNull
		}
		if err := read(); err != nil {
			return err
		}
		if s.acceptByte('}') {
			return nil
		}
		if err := s.expectByte(','); err != nil {
			return err
		}
	}
}

// readArray reads an array, whose elements each reads.
func (s *scanner) readArray(each func(i int) error) error {
	if err := s.expectByte('['); err != nil {
		return err
	}
	if s.acceptByte(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return err
		}
		if s.acceptByte(']') {
			return nil
		}
		if err := s.expectByte(','); err != nil {
			return err
		}
	}
}

// skipValue passes over a value. Of arrays and objects it only looks for the end.
func (s *scanner) skipValue() error {
	switch s.peekByte() {
	case '[', '{':
	case '"':
		_, err := s.readQuoted()
		return err
	default:
		from := s.at
		for s.at < len(s.data) && bytes.IndexByte([]byte(",]} \t\r\n"), s.data[s.at]) < 0 {
			s.at++
		}
		if s.at == from {
			return s.syntaxError("%s, want a value", s.describeNext())
		}
		return nil
	}
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			if _, err := s.readQuoted(); err != nil {
				return err
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if s.at++; depth == 0 {
			return nil
		}
	}
	return s.syntaxError("the end, want ']' or '}'")
}

func (s *scanner) readNull() error {
	if !bytes.HasPrefix(s.data[s.at:], []byte("null")) {
		return s.syntaxError("%s, want a value", s.describeNext())
	}
	s.at += len("null")
	return nil
}

// readQuoted reads a string as it stands, with its quotes.
func (s *scanner) readQuoted() ([]byte, error) {
	if s.peekByte() != '"' {
		return nil, s.syntaxError("%s, want a string", s.describeNext())
	}
	for i := s.at + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			text := s.data[s.at : i+1]
			s.at = i + 1
			return text, nil
		}
	}
	return nil, s.syntaxError("the string has no end")
}

// readString reads a string.
func (s *scanner) readString() (string, error) {
	from := s.at
	raw, err := s.readQuoted()
	if err != nil {
		return "", err
	}
	if plain := raw[1 : len(raw)-1]; isPlain(plain) {
		return string(plain), nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		s.at = from
		return "", s.syntaxError("%v", err)
	}
	return text, nil
}

// isPlain says that a string stands for itself.
func isPlain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(b)
}

// count reads an integer of 0 or more.
func (s *scanner) count(what string) (uint64, error) {
	from := s.at
	d, err := s.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(d.text), 10, 64)
	if err != nil {
		s.at = from
		return 0, s.syntaxError("%s is %.40s, want an integer of 0 or more", what, d.text)
	}
	return n, nil
}

// readSize is count for what an int must hold.
func (s *scanner) readSize(what string) (int, error) {
	n, err := s.count(what)
	if err == nil && n > math.MaxInt {
		err = s.syntaxError("%s is %d, want at most %d", what, n, math.MaxInt)
	}
	return int(n), err
}

// readBool reads true or false.
func (s *scanner) readBool(what string) (bool, error) {
	s.peekByte()
	for _, value := range []bool{true, false} {
		if text := strconv.FormatBool(value); bytes.HasPrefix(s.data[s.at:], []byte(text)) {
			s.at += len(text)
			return value, nil
		}
	}
	return false, s.syntaxError("%s is %s, want true or false", what, s.describeNext())
}
