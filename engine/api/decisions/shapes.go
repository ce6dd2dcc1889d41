package decisions

import (
	"reflect"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// Body and SystemOneBody are what Decode and DecodeSystemOne take.
var (
	Body          = fields.Body(reflect.TypeFor[decisionBody]())
	SystemOneBody = fields.Body(reflect.TypeFor[systemOneBody]())
)

// Shapes are what fields are that are decoded by hand, by the names that tags have for them; others are those of package api.
func Shapes() map[string]fields.Schema {
	text, null := fields.Schema{"type": "string"}, fields.Schema{"type": "null"}
	part := fields.Schema{"type": "object", "description": "Text, a refusal or JSON.", "properties": fields.Schema{"type": text}}
	content := fields.AnyOf(text, fields.Schema{"type": "array", "items": part})
	json := fields.AnyOf(text, fields.Schema{"type": "object"}, fields.Schema{"type": "array"})
	item := fields.Body(reflect.TypeFor[item]())
	return map[string]fields.Schema{
		"DecisionText":  content,
		"Content":       fields.AnyOf(json, null),
		"DecisionInput": fields.AnyOf(text, fields.Schema{"type": "array", "minItems": 1, "items": item}),
		"OptionValue":   fields.AnyOf(text, fields.Schema{"type": "boolean"}),
		"Criteria": fields.AnyOf(null,
			fields.Schema{"type": "object", "description": "Of a choice: options, with what they mean or null. Of noul: true and false.", "additionalProperties": fields.AnyOf(json, null)},
			fields.Schema{"type": "array", "description": "Of a score: its levels.", "items": json, "minItems": 2, "maxItems": MaxLevels}),
	}
}
