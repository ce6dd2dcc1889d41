package toolcalls

import "encoding/json"

// object reads a JSON object with the keys name, and arguments or parameters, byte by byte.
type object struct {
	text []byte // of it so far
	pos  int    // bytes of text that were looked at

	depth   int // of braces and brackets
	quoted  bool
	escaped bool
	string  int // where the last string began

	want want   // at the depth of its own keys
	key  string // whose value comes

	value      int // where that begins; 0: it has not
	name       string
	from, to   int // arguments; 0: not begun, not ended
	told       int // up to where arguments were told; 0: nothing was
	done, bad  bool
	bareObject bool // it is the arguments themselves
}

type want uint8

const (
	wantKey want = iota
	wantColon
	wantValue
	wantComma
)

// read looks at text and returns how many bytes of it are the object's. Bare says that the object is the arguments of a call.
func (o *object) read(text []byte, bare bool) (n int) {
	o.bareObject = bare
	for n < len(text) && !o.done && !o.bad {
		o.text = append(o.text, text[n])
		o.scanByte(text[n])
		o.pos++
		n++
	}
	return n
}

// isCall says that it is a call: its name is known, and its arguments have begun.
func (o *object) isCall() bool { return o.name != "" && (o.from > 0 || o.bareObject && o.pos > 0) }

// newArguments are the arguments that were not told.
func (o *object) newArguments() string {
	from, to := max(o.told, o.from), o.pos
	if o.to > 0 {
		to = o.to
	}
	o.told = max(to, 1)
	return string(o.text[min(from, to):to])
}

// scanByte takes the next byte.
func (o *object) scanByte(c byte) {
	switch {
	case o.quoted:
		o.inString(c)
	case c == '"':
		o.quoted, o.string = true, o.pos
		o.begin()
	case c == '{' || c == '[':
		o.begin()
		o.depth++
		o.bad = o.depth == 1 && c == '['
	case c == '}' || c == ']':
		o.close()
	case o.depth != 1:
		o.bad = o.depth == 0
	case c == ':' && o.want == wantColon:
		o.want, o.value = wantValue, 0
	case c == ',' && o.want != wantKey:
		o.endValue(o.pos)
		o.want = wantKey
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
	default:
		o.bad = o.want != wantValue
		o.begin()
	}
}

func (o *object) inString(c byte) {
	switch {
	case o.escaped:
		o.escaped = false
	case c == '\\':
		o.escaped = true
	case c == '"':
		o.quoted = false
		if o.depth == 1 && o.want == wantKey {
			o.key, o.want = o.unquoteString(), wantColon
		} else if o.depth == 1 {
			o.endValue(o.pos + 1)
		}
	}
}

// begin notes where a value begins.
func (o *object) begin() {
	if o.depth != 1 || o.want != wantValue || o.value > 0 {
		return
	}
	o.value = o.pos
	if o.from == 0 && !o.bareObject && (o.key == "arguments" || o.key == "parameters") {
		o.from = o.pos
	}
}

// endValue notes that the value of a key ends at a place.
func (o *object) endValue(at int) {
	if o.want != wantValue || o.value == 0 {
		return
	}
	o.want = wantComma
	switch {
	case o.from == o.value && o.to == 0:
		o.to = at
	case o.key == "name" && o.name == "" && o.text[o.value] == '"':
		o.name = o.unquoteString()
	}
}

// close takes a closing brace or bracket.
func (o *object) close() {
	switch o.depth--; {
	case o.depth < 0:
		o.bad = true
	case o.depth == 0:
		o.endValue(o.pos)
		o.done = true
	case o.depth == 1:
		o.endValue(o.pos + 1)
	}
}

// unquoteString is the string that ends here.
func (o *object) unquoteString() (s string) {
	_ = json.Unmarshal(o.text[o.string:o.pos+1], &s)
	return s
}
