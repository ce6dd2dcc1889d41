package api

import (
	"bytes"
	"encoding/json"
	"strings"
)

// closed is a JSON schema in which an object that lists properties, and does not say whether it may have others, has none: a
// model could go on with others for ever. All that it allows, schema does. Where schemas are joined (allOf, or properties
// beside anyOf and the like) one of them may name what another one does not, so there it is as it was.
func closed(schema string) string {
	if strings.Contains(schema, `"allOf"`) {
		return schema
	}
	return string(closedAt(json.RawMessage(schema), 0))
}

// maxSchemaDepth is where closed stops; no schema of that depth is taken.
const maxSchemaDepth = 128

// Where a schema has others.
var (
	schemaMaps  = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}
	schemaParts = map[string]bool{"items": true, "prefixItems": true, "additionalProperties": true, "contains": true, "anyOf": true, "oneOf": true}
	schemaJoins = map[string]bool{"anyOf": true, "oneOf": true, "if": true, "$ref": true, "dependentSchemas": true, "unevaluatedProperties": true, "additionalProperties": true}
)

func closedAt(raw json.RawMessage, depth int) json.RawMessage {
	if list, ok := elements(raw); ok && depth < maxSchemaDepth {
		for i := range list {
			list[i] = closedAt(list[i], depth+1)
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
			values[i] = closedAll(values[i], depth+1)
		case schemaParts[key] && !(lists && (key == "anyOf" || key == "oneOf")):
			values[i] = closedAt(values[i], depth+1)
		}
	}
	if lists && !joined {
		keys, values = append(keys, "additionalProperties"), append(values, json.RawMessage("false"))
	}
	return object(keys, values)
}

// closedAll closes the schemas of a map.
func closedAll(raw json.RawMessage, depth int) json.RawMessage {
	keys, values, ok := members(raw)
	if !ok {
		return raw
	}
	for i := range values {
		values[i] = closedAt(values[i], depth+1)
	}
	return object(keys, values)
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
		b = append(append(AppendString(b, key), ':'), values[i]...)
	}
	return append(b, '}')
}
