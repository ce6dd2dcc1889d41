package forms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
)

// tightenSchema is a JSON schema that allows only what schema does, and less where that says more than its author is likely to mean. An
// object that lists properties, and does not say whether it may have others, has none: a model could go on with others for ever.
// Where schemas are joined (allOf, or properties beside anyOf and the like) one of them may name what another one does not, so
// there it is as it was. Patterns are translated; an error names the one that cannot be, by its place behind the field of the schema.
func tightenSchema(field, schema string) (string, *api.Error) {
	t := tightening{field: field}
	return string(t.tightenAt(json.RawMessage(schema), field, !strings.Contains(schema, `"allOf"`), 0)), t.err
}

// tightening is a schema on its way through tight.
type tightening struct {
	field string
	err   *api.Error // of the first pattern that has no translation
}

// maxSchemaDepth is where tight stops; no schema of that depth is taken.
const maxSchemaDepth = 128

// Where a schema has others.
var (
	schemaMaps  = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}
	schemaParts = map[string]bool{"items": true, "prefixItems": true, "additionalProperties": true, "contains": true, "anyOf": true, "oneOf": true, "allOf": true}
	schemaJoins = map[string]bool{"anyOf": true, "oneOf": true, "if": true, "$ref": true, "dependentSchemas": true, "unevaluatedProperties": true, "additionalProperties": true}
)

// tightenAt tightens the schema, or the list of schemas, at a path. It closes objects if closing says so.
func (t *tightening) tightenAt(raw json.RawMessage, path string, closing bool, depth int) json.RawMessage {
	if list, ok := listElements(raw); ok && depth < maxSchemaDepth {
		for i := range list {
			list[i] = t.tightenAt(list[i], childPath(path, fmt.Sprintf("[%d]", i)), closing, depth+1)
		}
		return append(append(json.RawMessage("["), bytes.Join(list, []byte(","))...), ']')
	}
	keys, values, ok := objectMembers(raw)
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
			values[i] = t.tightenMap(values[i], childPath(path, "."+key), key == "patternProperties", closing, depth+1)
		case schemaParts[key]:
			values[i] = t.tightenAt(values[i], childPath(path, "."+key), closing && !(lists && (key == "anyOf" || key == "oneOf")), depth+1)
		case key == "pattern":
			values[i] = t.patternText(values[i], childPath(path, "."+key))
		}
	}
	if lists && !joined && closing {
		keys, values = append(keys, "additionalProperties"), append(values, json.RawMessage("false"))
	}
	return encodeObject(keys, values)
}

// tightenMap tightens the schemas of a map, whose keys are patterns if it says so.
func (t *tightening) tightenMap(raw json.RawMessage, path string, patterns, closing bool, depth int) json.RawMessage {
	keys, values, ok := objectMembers(raw)
	if !ok {
		return raw
	}
	for i := range values {
		at := childPath(path, "."+keys[i])
		values[i] = t.tightenAt(values[i], at, closing, depth+1)
		if patterns {
			keys[i] = t.translatePattern(keys[i], at)
		}
	}
	return encodeObject(keys, values)
}

// patternText is the JSON of a pattern, translated; what is no text is as it was.
func (t *tightening) patternText(raw json.RawMessage, path string) json.RawMessage {
	var pattern string
	if json.Unmarshal(raw, &pattern) != nil {
		return raw
	}
	return api.AppendString(nil, t.translatePattern(pattern, path))
}

// maxPath is from how many bytes on a pattern's place is told no closer.
const maxPath = 200

// childPath is the place of a part of what is at a path.
func childPath(path, part string) string {
	if len(path) >= maxPath {
		return path
	}
	return path + part[:min(len(part), maxPath)]
}

// translatePattern is one at a path, translated.
func (t *tightening) translatePattern(pattern, path string) string {
	regex, err := translateECMA(pattern)
	if err != nil && t.err == nil {
		t.err = api.Invalid(t.field, "%s cannot be used: its pattern %.100q: %v", strings.ToValidUTF8(path, ""), pattern, err)
	}
	return regex
}

// listElements are those of a list.
func listElements(raw json.RawMessage) (list [][]byte, ok bool) {
	var all []json.RawMessage
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &all) != nil {
		return nil, false
	}
	for _, e := range all {
		list = append(list, e)
	}
	return list, true
}

// objectMembers are those of an object, in their order, which is the order in which an answer has them.
func objectMembers(raw json.RawMessage) (keys []string, values []json.RawMessage, ok bool) {
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

func encodeObject(keys []string, values []json.RawMessage) json.RawMessage {
	b := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(api.AppendString(b, key), ':'), values[i]...)
	}
	return append(b, '}')
}
