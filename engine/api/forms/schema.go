package forms

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
)

// tight is a JSON schema that allows only what schema does, and less where that says more than its author is likely to mean. An
// object that lists properties, and does not say whether it may have others, has none: a model could go on with others for ever.
// Where schemas are joined (allOf, or properties beside anyOf and the like) one of them may name what another one does not, so
// there it is as it was. Patterns are narrowed.
func tight(schema string) string {
	return string(tightAt(json.RawMessage(schema), !strings.Contains(schema, `"allOf"`), 0))
}

// maxSchemaDepth is where tight stops; no schema of that depth is taken.
const maxSchemaDepth = 128

// Where a schema has others.
var (
	schemaMaps  = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}
	schemaParts = map[string]bool{"items": true, "prefixItems": true, "additionalProperties": true, "contains": true, "anyOf": true, "oneOf": true, "allOf": true}
	schemaJoins = map[string]bool{"anyOf": true, "oneOf": true, "if": true, "$ref": true, "dependentSchemas": true, "unevaluatedProperties": true, "additionalProperties": true}
)

// tightAt closes objects if closing says so.
func tightAt(raw json.RawMessage, closing bool, depth int) json.RawMessage {
	if list, ok := elements(raw); ok && depth < maxSchemaDepth {
		for i := range list {
			list[i] = tightAt(list[i], closing, depth+1)
		}
		return append(append(json.RawMessage("["), bytes.Join(list, []byte(","))...), ']')
	}
	keys, values, ok := members(raw)
	if !ok || depth >= maxSchemaDepth {
		return raw
	}
	lists, joined := false, false
	for _, key := range keys {
		lists, joined = lists || key == "properties", joined || schemaJoins[key]
	}
	for i, key := range keys {
		switch {
		case schemaMaps[key]:
			values[i] = tightAll(values[i], key == "patternProperties", closing, depth+1)
		case schemaParts[key]:
			values[i] = tightAt(values[i], closing && !(lists && (key == "anyOf" || key == "oneOf")), depth+1)
		case key == "pattern":
			values[i] = narrowedText(values[i])
		}
	}
	if lists && !joined && closing {
		keys, values = append(keys, "additionalProperties"), append(values, json.RawMessage("false"))
	}
	return object(keys, values)
}

// tightAll is tightAt of the schemas of a map, whose keys are patterns if it says so.
func tightAll(raw json.RawMessage, patterns, closing bool, depth int) json.RawMessage {
	keys, values, ok := members(raw)
	if !ok {
		return raw
	}
	for i := range values {
		values[i] = tightAt(values[i], closing, depth+1)
		if patterns {
			keys[i] = narrowed(keys[i])
		}
	}
	return object(keys, values)
}

// narrowedText is the JSON of a pattern, narrowed; what is no text is as it was.
func narrowedText(raw json.RawMessage) json.RawMessage {
	var pattern string
	if json.Unmarshal(raw, &pattern) != nil {
		return raw
	}
	return api.AppendString(nil, narrowed(pattern))
}

// elements are those of a list.
func elements(raw json.RawMessage) (list [][]byte, ok bool) {
	var all []json.RawMessage
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &all) != nil {
		return nil, false
	}
	for _, e := range all {
		list = append(list, e)
	}
	return list, true
}

// members are those of an object, in their order, which is the order in which an answer has them.
func members(raw json.RawMessage) (keys []string, values []json.RawMessage, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, false
	}
	for decoder.More() {
		key, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return nil, nil, false
		}
		keys, values = append(keys, key.(string)), append(values, value) // in an object every first token is a key
	}
	return keys, values, true
}

func object(keys []string, values []json.RawMessage) json.RawMessage {
	b := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(api.AppendString(b, key), ':'), values[i]...)
	}
	return append(b, '}')
}
