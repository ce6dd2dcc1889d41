// Package fields reads what the tags of a struct say of the JSON that is decoded into it: which fields it takes, within which
// bounds, and what they are where they are left out. What was decoded is checked by that, and it is described by it as a JSON Schema.
//
// The tags, beside json: default; min, max and above (numbers); except (a number between them that is refused); bytes (of a text, at
// most); items (of a list or object, at most); each (bytes of each text of a list, at most; none is empty); enum (values, with commas
// between them); only (JSON literals with | between them: anything else is refused, as refused says); says (in place of the bounds, in
// refusals); is (the name of a schema, of what is decoded later); required; null (an answer's that is empty is null).
package fields

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Field is one of a struct, or of one that is embedded in it.
type Field struct {
	Name     string
	Type     reflect.Type
	Required bool
	Omitted  bool // of an answer, where it is empty

	tags           reflect.StructTag
	index          []int
	min, max       *float64
	above          bool // min itself is refused
	except         *float64
	bytes, items   int
	each           int
	enum           []string
	only           string // literals, one a line
	isOnly         bool
	defaultOf      func(into reflect.Value)
	checked        bool // there is something to check
	fallback, says string
}

var known sync.Map // []Field by reflect.Type

// Of are the fields of a struct, as encoding/json finds them. It panics where tags cannot be read, which is a defect of the program.
func FieldsOf(t reflect.Type) []Field {
	if list, ok := known.Load(t); ok {
		return list.([]Field)
	}
	best := map[string]Field{}
	var order []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if other, taken := best[name]; taken && len(other.index) <= len(f.Index) {
			continue
		} else if !taken {
			order = append(order, name)
		}
		best[name] = readField(name, options, f)
	}
	list := make([]Field, len(order))
	for i, name := range order {
		list[i] = best[name]
	}
	kept, _ := known.LoadOrStore(t, list)
	return kept.([]Field)
}

func readField(name, options string, f reflect.StructField) Field {
	out := Field{Name: name, Type: f.Type, tags: f.Tag, index: f.Index, Omitted: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")}
	out.min, out.max, out.except = numberTag(f.Tag, "min"), numberTag(f.Tag, "max"), numberTag(f.Tag, "except")
	if above := numberTag(f.Tag, "above"); above != nil {
		out.min, out.above = above, true
	}
	out.bytes, out.items, out.each = wholeTag(f.Tag, "bytes"), wholeTag(f.Tag, "items"), wholeTag(f.Tag, "each")
	if list := f.Tag.Get("enum"); list != "" {
		out.enum = strings.Split(list, ",")
	}
	only, isOnly := f.Tag.Lookup("only")
	out.only, out.isOnly = strings.ReplaceAll(only, "|", "\n"), isOnly
	out.Required = f.Tag.Get("required") == "true"
	out.fallback, out.says = f.Tag.Get("default"), f.Tag.Get("says")
	out.checked = out.min != nil || out.max != nil || out.bytes+out.items+out.each > 0 || out.enum != nil || out.isOnly
	out.defaultOf = defaultOf(out.fallback, f.Type)
	return out
}

func numberTag(tags reflect.StructTag, name string) *float64 {
	text, ok := tags.Lookup(name)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return &v
}

func wholeTag(tags reflect.StructTag, name string) int {
	if v := numberTag(tags, name); v != nil {
		return int(*v)
	}
	return 0
}

// defaultOf sets a default, of those kinds that a decoder cannot tell from what was given. Others are for who reads the field.
func defaultOf(text string, t reflect.Type) func(reflect.Value) {
	if text == "" {
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(v reflect.Value) { v.SetBool(text == "true") }
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		return func(v reflect.Value) { v.SetInt(n) }
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(err)
		}
		return func(v reflect.Value) { v.SetFloat(x) }
	}
	return nil
}

// SetDefaults fills in what a struct's fields are without being given; into points to it.
func SetDefaults(into any) {
	v := reflect.ValueOf(into).Elem()
	if v.Kind() != reflect.Struct {
		return
	}
	list := FieldsOf(v.Type())
	for i := range list {
		if f := &list[i]; f.defaultOf != nil {
			f.defaultOf(v.FieldByIndex(f.index))
		}
	}
}

// Wrong is a field that is not as its tags say.
type Wrong struct {
	Field   string
	Message string
	Refused bool // it would change the answer, and is not served
}

// Check finds the first field of a struct that is not as its tags say; nil where all are. The argument points to the struct.
func Check(decoded any) *Wrong {
	v := reflect.ValueOf(decoded).Elem()
	if v.Kind() != reflect.Struct {
		return nil
	}
	list := FieldsOf(v.Type())
	for i := range list {
		f := &list[i]
		if !f.checked {
			continue
		}
		if wrong := f.check(v.FieldByIndex(f.index)); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (f *Field) check(v reflect.Value) *Wrong {
	if f.isOnly {
		if Neutral(v.Bytes(), f.only) {
			return nil
		}
		how := f.tags.Get("refused")
		if how == "" {
			how = "is not supported by this server; leave it out"
		}
		return &Wrong{Field: f.Name, Message: f.Name + " " + how, Refused: true}
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return f.number(float64(v.Int()), strconv.FormatInt(v.Int(), 10))
	case reflect.Float64:
		return f.number(v.Float(), strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case reflect.String:
		return f.checkText(v.String())
	}
	return f.checkList(v)
}

func (f *Field) newWrong(format string, args ...any) *Wrong {
	return &Wrong{Field: f.Name, Message: f.Name + " " + fmt.Sprintf(format, args...)}
}

func (f *Field) number(x float64, shown string) *Wrong {
	low := f.min != nil && (x < *f.min || f.above && x == *f.min)
	if low || f.max != nil && x > *f.max || f.except != nil && x == *f.except {
		return f.newWrong("is %s; it must be %s", shown, f.numberRange())
	}
	return nil
}

// numberRange says which numbers are taken.
func (f *Field) numberRange() string {
	switch {
	case f.says != "":
		return f.says
	case f.above && f.max != nil:
		return fmt.Sprintf("above %g and at most %g", *f.min, *f.max)
	case f.above:
		return fmt.Sprintf("above %g", *f.min)
	case f.max != nil:
		return fmt.Sprintf("%g to %g", *f.min, *f.max)
	}
	return fmt.Sprintf("%g or more", *f.min)
}

func (f *Field) checkText(s string) *Wrong {
	switch {
	case f.bytes > 0 && len(s) > f.bytes:
		return f.newWrong("has %d bytes; the limit is %d", len(s), f.bytes)
	case f.enum != nil && s != "" && !slices.Contains(f.enum, s):
		return f.newWrong("is %.40q; it must be %s", s, oneOf(f.enum))
	}
	return nil
}

func oneOf(values []string) string {
	var b strings.Builder
	for i, v := range values {
		switch {
		case i > 0 && i == len(values)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(v))
	}
	return b.String()
}

func (f *Field) checkList(v reflect.Value) *Wrong {
	if f.items > 0 && v.Len() > f.items {
		return f.newWrong("has %d entries; the limit is %d", v.Len(), f.items)
	}
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.String {
		return nil
	}
	for i := range v.Len() {
		s := v.Index(i).String()
		if f.each > 0 && (s == "" || len(s) > f.each) {
			return &Wrong{Field: f.Name, Message: fmt.Sprintf("%s: string %d has %d bytes; it must have 1 to %d", f.Name, i, len(s), f.each)}
		}
		if f.enum != nil && !slices.Contains(f.enum, s) {
			return f.newWrong("has %.40q; it may have %s", s, oneOf(f.enum))
		}
	}
	return nil
}

// Neutral reports whether raw is absent, null or, white space aside, one of the lines of literals.
func Neutral(raw []byte, literals string) bool {
	var short [16]byte // no literal is longer
	packed := short[:0]
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		}
		if len(packed) == len(short) {
			return false
		}
		packed = append(packed, c)
	}
	if len(packed) == 0 || string(packed) == "null" {
		return true
	}
	for literal := range strings.SplitSeq(literals, "\n") {
		if string(packed) == literal {
			return true
		}
	}
	return false
}
