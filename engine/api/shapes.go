package api

import (
	"math"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// TokenSchema is of a token id.
func TokenSchema() fields.Schema {
	return fields.Schema{"type": "integer", "minimum": 0, "maximum": uint32(math.MaxUint32)}
}

func textsSchema() fields.Schema { return fields.ListOf(fields.Schema{"type": "string"}) }

// JSONSchema implements fields.Shaped.
func (p *Prompt) JSONSchema() fields.Schema {
	tokens := fields.ListOf(TokenSchema())
	forms := []fields.Schema{textsSchema(), tokens, fields.ListOf(tokens)}
	for _, list := range forms {
		list["minItems"] = 1
	}
	return fields.AnyOf(append(forms, fields.Schema{"type": "string"})...)
}

// JSONSchema implements fields.Shaped.
func (l *TokenList) JSONSchema() fields.Schema { return fields.ListOf(TokenSchema()) }

// JSONSchema implements fields.Shaped.
func (l *Strings) JSONSchema() fields.Schema {
	return fields.AnyOf(textsSchema(), fields.Schema{"type": "string"})
}

// JSONSchema implements fields.Shaped.
func (l *List[T]) JSONSchema() fields.Schema {
	s := fields.Answer(reflect.TypeFor[[]T]())
	s["type"] = []string{"array", "null"}
	return s
}

// JSONSchema implements fields.Shaped.
func (e *Error) JSONSchema() fields.Schema {
	return fields.Schema{"type": "object", "properties": fields.Schema{"error": fields.Answer(reflect.TypeFor[errorBody]())}, "required": []string{"error"}}
}

// Shapes are what fields are that are decoded by hand, by the names that tags have for them.
func Shapes() map[string]fields.Schema {
	text := fields.Schema{"type": "string"}
	part := fields.Schema{"type": "object", "properties": fields.Schema{"type": fields.Schema{"const": "text"}, "text": text}, "required": []string{"type", "text"}}
	content := fields.Schema{"anyOf": []fields.Schema{text, {"type": "null"}, fields.ListOf(part)}}
	message := fields.Schema{"type": "object", "properties": fields.Schema{"role": fields.Schema{"type": "string", "minLength": 1}, "content": content}, "required": []string{"role"}}
	return map[string]fields.Schema{
		"Any":      {},
		"Number":   {"type": []string{"number", "null"}},
		"Messages": {"type": "array", "items": message, "minItems": 1},
	}
}
