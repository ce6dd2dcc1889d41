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

// wrong is an error about what stands where the scanner is.
func (s *scanner) wrong(format string, args ...any) error {
	return fmt.Errorf("the JSON is wrong at byte %d of %d: %s", s.at, len(s.data), fmt.Sprintf(format, args...))
}

// found describes what stands where the scanner is.
func (s *scanner) found() string {
	if s.at >= len(s.data) {
		return "the end"
	}
	return strconv.Quote(string(s.data[s.at:min(len(s.data), s.at+12)]))
}

// next is the first byte that is no white space; 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take passes over c, if that comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.at >= len(s.data) {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expect(c byte) error {
	if !s.take(c) {
		return s.wrong("%s, want %q", s.found(), c)
	}
	return nil
}

// object reads an object. Each of fields reads the value of its key, which may come once; others, and null, are passed
// over.
func (s *scanner) object(fields map[string]func() error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.take('}') {
		return nil
	}
	seen := map[string]bool{}
	for {
		key, err := s.text()
		if err == nil {
			err = s.expect(':')
		}
		if err != nil {
			return err
		}
		read := fields[key]
		if read == nil {
			read = s.skip
		} else if seen[key] {
			return s.wrong("%q is given twice", key)
		} else {
			seen[key] = true
		}
		if s.next() == 'n' {
			read = s.null
		}
		if err := read(); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// array reads an array, whose elements each reads.
func (s *scanner) array(each func(i int) error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// skip passes over a value. Of arrays and objects it only looks for the end.
func (s *scanner) skip() error {
	switch s.next() {
	case '[', '{':
	case '"':
		_, err := s.quoted()
		return err
	default:
		from := s.at
		for s.at < len(s.data) && bytes.IndexByte([]byte(",]} \t\r\n"), s.data[s.at]) < 0 {
			s.at++
		}
		if s.at == from {
			return s.wrong("%s, want a value", s.found())
		}
		return nil
	}
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			if _, err := s.quoted(); err != nil {
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
	return s.wrong("the end, want ']' or '}'")
}

func (s *scanner) null() error {
	if !bytes.HasPrefix(s.data[s.at:], []byte("null")) {
		return s.wrong("%s, want a value", s.found())
	}
	s.at += len("null")
	return nil
}

// quoted reads a string as it stands, with its quotes.
func (s *scanner) quoted() ([]byte, error) {
	if s.next() != '"' {
		return nil, s.wrong("%s, want a string", s.found())
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
	return nil, s.wrong("the string has no end")
}

// text reads a string.
func (s *scanner) text() (string, error) {
	from := s.at
	raw, err := s.quoted()
	if err != nil {
		return "", err
	}
	if plain := raw[1 : len(raw)-1]; isPlain(plain) {
		return string(plain), nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		s.at = from
		return "", s.wrong("%v", err)
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
		return 0, s.wrong("%s is %.40s, want an integer of 0 or more", what, d.text)
	}
	return n, nil
}

// size is count for what an int must hold.
func (s *scanner) size(what string) (int, error) {
	n, err := s.count(what)
	if err == nil && n > math.MaxInt {
		err = s.wrong("%s is %d, want at most %d", what, n, math.MaxInt)
	}
	return int(n), err
}

// truth reads true or false.
func (s *scanner) truth(what string) (bool, error) {
	s.next()
	for _, value := range []bool{true, false} {
		if text := strconv.FormatBool(value); bytes.HasPrefix(s.data[s.at:], []byte(text)) {
			s.at += len(text)
			return value, nil
		}
	}
	return false, s.wrong("%s is %s, want true or false", what, s.found())
}
