package oip

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// Shape is the JSON Schema of what Decode takes as JSON, which is the table of its decoder in words.
func Shape() map[string]any {
	types := []string{"BYTES"}
	for t := engine.Bool; t.Size() > 0; t++ {
		types = append(types, t.String())
	}
	text, count := schema{"type": "string"}, schema{"type": "integer", "minimum": 0, "maximum": uint64(math.MaxInt64)}
	input := objectSchema(schema{
		"name":       schema{"type": "string", "minLength": 1},
		"datatype":   schema{"enum": types},
		"shape":      schema{"type": "array", "items": count, "maxItems": maxRank},
		"data":       schema{"type": "array", "description": "The elements, row by row; lists of them may be nested. Or binary_data_size."},
		"parameters": objectSchema(schema{"binary_data_size": count, "shared_memory_region": refused}),
	}, "name", "datatype", "shape")
	output := objectSchema(schema{
		"name":       schema{"type": "string", "minLength": 1},
		"parameters": objectSchema(schema{"binary_data": schema{"type": "boolean"}, "classification": refused, "shared_memory_region": refused}),
	}, "name")
	return objectSchema(schema{
		"id": text,
		"parameters": objectSchema(schema{
			"binary_data_output": schema{"type": "boolean", "default": false}, "priority": count,
			"timeout": schema{"type": "integer", "minimum": 0, "description": "In microseconds."},
			"stream":  text, "promised": schema{"type": "boolean"}, "sequence_id": refused,
		}),
		"inputs":  schema{"type": "array", "items": input, "minItems": 1, "maxItems": maxTensors},
		"outputs": schema{"type": "array", "items": output, "maxItems": maxTensors},
	}, "inputs")
}

type schema = map[string]any

// refused is a parameter that is not served.
var refused = schema{"not": schema{}, "description": "Not served."}

func objectSchema(properties schema, required ...string) schema {
	s := schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
