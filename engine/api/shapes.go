package api

import (
	"math"
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// What the endpoints of this package take, and answer.
var (
	CompletionBody = fields.Body(reflect.TypeFor[completionBody]())
	ChatBody       = fields.Body(reflect.TypeFor[chatBody]())
	TokenizeBody   = fields.Body(reflect.TypeFor[TokenizeRequest]())
	DetokenizeBody = fields.Body(reflect.TypeFor[DetokenizeRequest]())
)

// TokenSchema is of a token id.
func TokenSchema() fields.Schema {
	return fields.Schema{"type": "integer", "minimum": 0, "maximum": uint32(math.MaxUint32)}
}

func texts() fields.Schema { return fields.ListOf(fields.Schema{"type": "string"}) }

// JSONSchema implements fields.Shaped.
func (p *Prompt) JSONSchema() fields.Schema {
	tokens := fields.ListOf(TokenSchema())
	forms := []fields.Schema{texts(), tokens, fields.ListOf(tokens)}
	for _, list := range forms {
		list["minItems"] = 1
	}
	return fields.AnyOf(append(forms, fields.Schema{"type": "string"})...)
}

// JSONSchema implements fields.Shaped.
func (l *TokenList) JSONSchema() fields.Schema { return fields.ListOf(TokenSchema()) }

// JSONSchema implements fields.Shaped.
func (l *Strings) JSONSchema() fields.Schema {
	return fields.AnyOf(texts(), fields.Schema{"type": "string"})
}

// JSONSchema implements fields.Shaped.
func (l *LogitBias) JSONSchema() fields.Schema {
	return fields.Schema{
		"type": "object", "propertyNames": fields.Schema{"pattern": "^(0|[1-9][0-9]{0,9})$"},
		"additionalProperties": fields.Schema{"type": "number", "minimum": -100, "maximum": 100},
	}
}

// JSONSchema implements fields.Shaped.
func (l *List[T]) JSONSchema() fields.Schema {
	s := fields.Answer(reflect.TypeFor[[]T]())
	s["type"] = []string{"array", "null"}
	return s
}

// JSONSchema implements fields.Shaped.
func (r *StopReason) JSONSchema() fields.Schema {
	return fields.Schema{"type": []string{"string", "integer", "null"}}
}

// JSONSchema implements fields.Shaped.
func (d *TokenDict) JSONSchema() fields.Schema {
	return fields.Schema{"type": []string{"object", "null"}, "additionalProperties": fields.Schema{"type": "number"}}
}

// JSONSchema implements fields.Shaped.
func (p *PromptTokens) JSONSchema() fields.Schema {
	return fields.Schema{"type": []string{"object", "null"}, "additionalProperties": fields.Answer(reflect.TypeFor[PromptToken]())}
}

// JSONSchema implements fields.Shaped.
func (e *Error) JSONSchema() fields.Schema {
	return fields.Schema{"type": "object", "properties": fields.Schema{"error": fields.Answer(reflect.TypeFor[errorBody]())}, "required": []string{"error"}}
}

// Shapes are what fields are that are decoded by hand, by the names that tags have for them.
func Shapes() map[string]fields.Schema {
	text, object := fields.Schema{"type": "string"}, fields.Schema{"type": "object"}
	part := fields.Schema{"type": "object", "properties": fields.Schema{"type": fields.Schema{"const": "text"}, "text": text}, "required": []string{"type", "text"}}
	content := fields.Schema{"anyOf": []fields.Schema{text, {"type": "null"}, fields.ListOf(part)}}
	message := fields.Schema{"type": "object", "properties": fields.Schema{"role": fields.Schema{"type": "string", "minLength": 1}, "content": content}, "required": []string{"role"}}
	function := fields.Schema{
		"type":       "object",
		"properties": fields.Schema{"name": fields.Schema{"type": "string", "pattern": functionName.String()}, "parameters": fields.Ref("JSONSchema")}, "required": []string{"name"},
	}
	tool := fields.Schema{"type": "object", "properties": fields.Schema{"type": fields.Schema{"const": "function"}, "function": function}, "required": []string{"type", "function"}}
	named := fields.Schema{
		"type": "object", "required": []string{"type", "function"},
		"properties": fields.Schema{"type": fields.Schema{"const": "function"}, "function": fields.Schema{"type": "object", "properties": fields.Schema{"name": text}, "required": []string{"name"}}},
	}
	schema := fields.Schema{"type": "object", "properties": fields.Schema{"schema": fields.Ref("JSONSchema")}, "required": []string{"schema"}}
	return map[string]fields.Schema{
		"Any":        {},
		"Number":     {"type": []string{"number", "null"}},
		"Text":       {"type": "string", "minLength": 1},
		"JSONSchema": {"anyOf": []fields.Schema{object, {"type": "string", "contentMediaType": "application/json"}}},
		"Choices":    {"type": "array", "items": fields.Schema{"type": "string", "minLength": 1}, "minItems": 1, "maxItems": MaxFormChoices},
		"Messages":   {"type": "array", "items": message, "minItems": 1},
		"Tools":      {"type": "array", "items": tool, "maxItems": MaxTools},
		"ToolChoice": {"anyOf": []fields.Schema{{"enum": []string{"none", "auto", "required"}}, named}},
		"ResponseFormat": {"type": "object", "required": []string{"type"}, "properties": fields.Schema{
			"type": fields.Schema{"enum": []string{"text", "json_object", "json_schema"}}, "json_schema": schema,
		}},
		"StructuredOutputs": {"type": "object", "description": "One of choice, json, regex, grammar and json_object.", "properties": fields.Schema{
			"choice": fields.Ref("Choices"), "json": fields.Ref("JSONSchema"), "regex": fields.Ref("Text"), "grammar": fields.Ref("Text"),
			"json_object": fields.Schema{"type": "boolean"}, "disable_any_whitespace": fields.Schema{"type": "boolean"},
		}},
	}
}
