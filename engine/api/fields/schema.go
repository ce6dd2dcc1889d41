package fields

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Schema is a JSON Schema, as of OpenAPI 3.1.
type Schema = map[string]any

// Shaped is a type whose JSON is not what its Go type says.
type Shaped interface{ JSONSchema() Schema }

var (
	shaped  = reflect.TypeFor[Shaped]()
	anyJSON = reflect.TypeFor[json.RawMessage]()
)

// Ref is the schema of a name.
func RefTo(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

// AnyOf is what one of schemas describes.
func AnyOf(of ...Schema) Schema { return Schema{"anyOf": of} }

// ListOf is a list.
func ListOf(element Schema) Schema { return Schema{"type": "array", "items": element} }

// Body describes what is decoded into a struct. Null is as if a field were left out, and other fields are passed over.
func Body(t reflect.Type) Schema { return objectSchema(t, false) }

// Answer describes what a value is encoded to.
func Answer(t reflect.Type) Schema { return typeSchema(t, true) }

func objectSchema(t reflect.Type, answer bool) Schema {
	properties, required := Schema{}, []string{}
	for _, f := range FieldsOf(t) {
		properties[f.Name] = f.schema(answer)
		if f.Required || answer && !f.Omitted {
			required = append(required, f.Name)
		}
	}
	s := Schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// typeSchema describes a type; in a body null is taken for any, which is for the field to say.
func typeSchema(t reflect.Type, answer bool) Schema {
	switch {
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(shaped):
		return reflect.New(t).Interface().(Shaped).JSONSchema()
	case t == anyJSON:
		return Schema{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if answer {
			return orNull(typeSchema(t.Elem(), answer))
		}
		return typeSchema(t.Elem(), answer)
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice:
		return ListOf(typeSchema(t.Elem(), answer))
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": typeSchema(t.Elem(), answer)}
	case reflect.Struct:
		return objectSchema(t, answer)
	case reflect.Interface:
		return Schema{}
	}
	return integerSchema(t)
}

func integerSchema(t reflect.Type) Schema {
	s := Schema{"type": "integer"}
	switch t.Kind() {
	case reflect.Uint32:
		s["minimum"], s["maximum"] = 0, uint32(1<<32-1)
	case reflect.Uint64:
		s["minimum"] = 0
	}
	return s
}

func orNull(s Schema) Schema {
	switch kind := s["type"].(type) {
	case string:
		s["type"] = []string{kind, "null"}
		return s
	case []string:
		return s
	}
	if len(s) == 0 {
		return s
	}
	return AnyOf(s, Schema{"type": "null"})
}

func (f *Field) schema(answer bool) Schema {
	var s Schema
	switch name := f.tags.Get("is"); {
	case f.isOnly:
		return Schema{"enum": f.literalValues(), "deprecated": true, "description": "Not served: " + orDefault(f.tags.Get("refused"), "a value that would change the answer is refused.")}
	case name != "":
		s = RefTo(name)
	default:
		s = typeSchema(f.Type, answer)
		f.bounds(s)
	}
	if !f.Required && !answer || f.tags.Get("null") == "true" {
		s = orNull(s)
	}
	if value := parseLiteral(f.fallback, f.Type); value != nil {
		s["default"] = value
	}
	if about := f.tags.Get("about"); about != "" {
		s["description"] = about
	}
	return s
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// literalValues are the values of only, and null.
func (f *Field) literalValues() []any {
	list := []any{nil}
	for text := range strings.SplitSeq(f.only, "\n") {
		if text != "" {
			list = append(list, json.RawMessage(text))
		}
	}
	return list
}

func (f *Field) bounds(s Schema) {
	switch {
	case f.above:
		s["exclusiveMinimum"] = *f.min
	case f.min != nil:
		s["minimum"] = *f.min
	}
	if f.max != nil {
		s["maximum"] = *f.max
	}
	if f.except != nil {
		s["not"] = Schema{"const": *f.except}
	}
	if f.bytes > 0 {
		s["maxLength"], s["description"] = f.bytes, "At most "+strconv.Itoa(f.bytes)+" bytes of UTF-8."
	}
	if f.items > 0 {
		limitItems(s, f.items)
	}
	if items, ok := s["items"].(Schema); ok && f.each > 0 {
		items["minLength"], items["maxLength"] = 1, f.each
	}
	f.setEnum(s)
}

// limitItems bounds a list or an object, and the list among several forms.
func limitItems(s Schema, most int) {
	if forms, ok := s["anyOf"].([]Schema); ok {
		for _, form := range forms {
			limitItems(form, most)
		}
	}
	switch s["type"] {
	case "array":
		s["maxItems"] = most
	case "object":
		s["maxProperties"] = most
	}
}

func (f *Field) setEnum(s Schema) {
	if f.enum == nil {
		return
	}
	if items, ok := s["items"].(Schema); ok {
		items["enum"] = f.enum
		return
	}
	values := []any{}
	for _, v := range f.enum {
		values = append(values, v)
	}
	if f.Required {
		s["enum"] = values
		return
	}
	s["enum"] = append(values, "", nil)
}

// parseLiteral is a default as JSON has it.
func parseLiteral(text string, t reflect.Type) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case text == "":
		return nil
	case t.Kind() == reflect.String || t == anyJSON && !json.Valid([]byte(text)):
		return text
	}
	return json.RawMessage(text)
}
