package completions

import (
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

// JSONSchema implements fields.Shaped.
func (l *LogitBias) JSONSchema() fields.Schema {
	return fields.Schema{
		"type": "object", "propertyNames": fields.Schema{"pattern": "^(0|[1-9][0-9]{0,9})$"},
		"additionalProperties": fields.Schema{"type": "number", "minimum": -100, "maximum": 100},
	}
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
