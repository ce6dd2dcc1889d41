package forms

import "github.com/prefillonly/prefillonly/engine/api/fields"

// Shapes are what fields are that say a Form, by the names that tags have for them.
func Shapes() map[string]fields.Schema {
	text, object := fields.Schema{"type": "string"}, fields.Schema{"type": "object"}
	function := fields.Schema{
		"type":       "object",
		"properties": fields.Schema{"name": fields.Schema{"type": "string", "pattern": functionName.String()}, "parameters": fields.RefTo("JSONSchema")}, "required": []string{"name"},
	}
	tool := fields.Schema{"type": "object", "properties": fields.Schema{"type": fields.Schema{"const": "function"}, "function": function}, "required": []string{"type", "function"}}
	named := fields.Schema{
		"type": "object", "required": []string{"type", "function"},
		"properties": fields.Schema{"type": fields.Schema{"const": "function"}, "function": fields.Schema{"type": "object", "properties": fields.Schema{"name": text}, "required": []string{"name"}}},
	}
	schema := fields.Schema{"type": "object", "properties": fields.Schema{"schema": fields.RefTo("JSONSchema")}, "required": []string{"schema"}}
	return map[string]fields.Schema{
		"Text":       {"type": "string", "minLength": 1},
		"JSONSchema": {"anyOf": []fields.Schema{object, {"type": "string", "contentMediaType": "application/json"}}},
		"Choices":    {"type": "array", "items": fields.Schema{"type": "string", "minLength": 1}, "minItems": 1, "maxItems": maxChoices},
		"Tools":      {"type": "array", "items": tool, "maxItems": maxTools},
		"ToolChoice": {"anyOf": []fields.Schema{{"enum": []string{"none", "auto", "required"}}, named}},
		"ResponseFormat": {"type": "object", "required": []string{"type"}, "properties": fields.Schema{
			"type": fields.Schema{"enum": []string{"text", "json_object", "json_schema"}}, "json_schema": schema,
		}},
		"StructuredOutputs": {"type": "object", "description": "One of choice, json, regex, grammar and json_object.", "properties": fields.Schema{
			"choice": fields.RefTo("Choices"), "json": fields.RefTo("JSONSchema"), "regex": fields.RefTo("Text"), "grammar": fields.RefTo("Text"),
			"json_object": fields.Schema{"type": "boolean"}, "disable_any_whitespace": fields.Schema{"type": "boolean"},
		}},
	}
}
