package api

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
)

// bulky is a request of which one field may be lists of token ids. They are nearly all of a body that has them, so Decode
// reads them by itself, once, and leaves the others to encoding/json, which goes over everything several times.
type bulky interface {
	Bulk() (key string, into *[][]uint32)
}

// decodeBulk decodes a body whose bulk is lists of token ids, and reports whether it is one, and valid. What it does not
// take is decoded whole, so that there are no other errors than those of that.
func decodeBulk(body []byte, into any) bool {
	request, ok := into.(bulky)
	if !ok {
		return false
	}
	key, lists := request.Bulk()
	start := findList(body, key)
	if start < 0 {
		return false
	}
	ids, n := idLists(body[start:])
	if n == 0 {
		return false
	}
	rest := make([]byte, 0, len(body)-n+len("null"))
	rest = append(append(append(rest, body[:start]...), "null"...), body[start+n:]...)
	if json.Unmarshal(rest, into) != nil || checkOnce(rest) != nil {
		return false
	}
	*lists = ids
	return true
}

// findList is where the list begins that an object has under a key; -1 where there is none. In what is no valid JSON it may
// be anywhere, but where a value would stand if the bytes before it are the beginning of an object.
func findList(body []byte, key string) int {
	for name, value := range objectMembers(body) {
		if string(name[1:len(name)-1]) == key {
			if hasByteAt(body, value, '[') {
				return value
			}
			return -1
		}
	}
	return -1
}

// objectMembers are the keys of the object that body begins with, as they are written, and where their values begin.
func objectMembers(body []byte) iter.Seq2[[]byte, int] {
	return func(yield func(quoted []byte, value int) bool) {
		at := afterSpace(body, 0)
		if !hasByteAt(body, at, '{') {
			return
		}
		for {
			name := afterSpace(body, at+1)
			end := endOfValue(body, name)
			colon := afterSpace(body, end)
			if !hasByteAt(body, name, '"') || !hasByteAt(body, colon, ':') {
				return
			}
			value := afterSpace(body, colon+1)
			if !yield(body[name:end], value) {
				return
			}
			if at = afterSpace(body, endOfValue(body, value)); !hasByteAt(body, at, ',') {
				return
			}
		}
	}
}

// Keys are those of the object that a body is. They may point into it.
func Keys(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for quoted := range objectMembers(body) {
			if !yield(unescapeKey(quoted)) {
				return
			}
		}
	}
}

func hasByteAt(b []byte, at int, c byte) bool { return at < len(b) && b[at] == c }

func afterSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r') {
		at++
	}
	return at
}

// endOfValue is where the value ends that begins at a place; the end of b if it does not.
func endOfValue(b []byte, at int) int {
	for depth := 0; at < len(b); at++ {
		switch b[at] {
		case '"':
			if at = endQuote(b, at); depth == 0 {
				return min(at+1, len(b))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return at + 1 + min(depth, 0) // what is around a value does not belong to it
			}
		case ',', ':':
			if depth == 0 {
				return at
			}
		}
	}
	return len(b)
}

// endQuote is where the quote is that ends the string at start; the end of b if there is none.
func endQuote(b []byte, start int) int {
	for at := start + 1; at < len(b); at++ {
		switch b[at] {
		case '"':
			return at
		case '\\':
			at++
		}
	}
	return len(b)
}

// idLists reads the list of token ids at the beginning of b, or the list of such lists, and returns how many bytes it
// takes; 0 of what is neither.
func idLists(b []byte) (lists [][]uint32, n int) {
	if ids, n := idList(b); len(ids) > 0 {
		return [][]uint32{ids}, n
	}
	for at := 0; ; {
		ids, n := idList(b[min(afterSpace(b, at+1), len(b)):])
		if n == 0 {
			return nil, 0
		}
		lists = append(lists, ids)
		switch at = afterSpace(b, afterSpace(b, at+1)+n); {
		case hasByteAt(b, at, ']'):
			return lists, at + 1
		case !hasByteAt(b, at, ','):
			return nil, 0
		}
	}
}

// idList reads the list of token ids at the beginning of b, which may be empty, and returns how many bytes it takes; 0 of
// what is none.
func idList(b []byte) (ids []uint32, n int) {
	end := bytes.IndexByte(b, ']')
	if end < 1 || b[0] != '[' {
		return nil, 0
	}
	list := b[:end+1] // its last byte ends all that is looked for in it
	at := afterSpace(list, 1)
	if at == end {
		return []uint32{}, end + 1
	}
	if list[at] < '0' || list[at] > '9' {
		return nil, 0
	}
	ids = make([]uint32, 0, 1+bytes.Count(list, []byte{','}))
	for {
		value, digits := parseDigits(list[at:])
		if digits == 0 || value > math.MaxUint32 || digits > 1 && list[at] == '0' {
			return nil, 0
		}
		ids = append(ids, uint32(value))
		if at += digits; list[at] <= ' ' {
			at = afterSpace(list, at)
		}
		if at == end {
			return ids, end + 1
		}
		if list[at] != ',' {
			return nil, 0
		}
		if at++; list[at] <= ' ' {
			at = afterSpace(list, at)
		}
	}
}

// parseDigits reads the digits at the beginning of b, of which there are up to 10; 0 of what are none, or more.
func parseDigits(b []byte) (value uint64, digits int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		if digits++; digits > 10 {
			return 0, 0
		}
		value = value*10 + uint64(c-'0')
	}
	return value, digits
}
