package pooling

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// TestBodiesAreHeldToTheirSchemas: a body that is taken is refused as soon as a field is beyond what the schema of its path says, or lacks one that
// the schema requires, and the refusal names the field.
func TestBodiesAreHeldToTheirSchemas(t *testing.T) {
	files, err := filepath.Glob("testdata/*.good.json")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s sample
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		e, _ := endpoint(s.Path)
		for _, body := range e.Bodies {
			if !matches(s.Body, body) {
				continue
			}
			properties := body["properties"].(fields.Schema)
			for name := range properties {
				for _, wrong := range beyond(properties[name].(fields.Schema)) {
					tried++
					_, refused := e.Decode(changed(t, s.Body, name, wrong))
					if refused == nil || refused.Param != name {
						t.Errorf("%s with %s = %s: %v", file, name, wrong, refused)
					}
				}
			}
			required, _ := body["required"].([]string)
			for _, name := range required {
				tried++
				if _, refused := e.Decode(changed(t, s.Body, name, "")); refused == nil {
					t.Errorf("%s without %s is taken", file, name)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d bodies were tried", tried)
	}
}

// matches says whether a body has all fields that a schema requires, and only its fields.
func matches(body json.RawMessage, schema fields.Schema) bool {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(body, &given)
	for name := range given {
		if _, ok := schema["properties"].(fields.Schema)[name]; !ok {
			return false
		}
	}
	required, _ := schema["required"].([]string)
	for _, name := range required {
		if given[name] == nil {
			return false
		}
	}
	return true
}

// beyond are values that a schema does not allow.
func beyond(s fields.Schema) (wrong []string) {
	encode := func(v any) {
		text, _ := json.Marshal(v)
		wrong = append(wrong, string(text))
	}
	if low, ok := s["minimum"].(float64); ok {
		encode(low - 1)
	}
	if low, ok := s["exclusiveMinimum"].(float64); ok {
		encode(low)
	}
	if high, ok := s["maximum"].(float64); ok {
		encode(high + 1)
	}
	if not, ok := s["not"].(fields.Schema); ok {
		encode(not["const"])
	}
	if longest, ok := s["maxLength"].(int); ok {
		encode(strings.Repeat("x", longest+1))
	}
	if s["enum"] != nil {
		encode("neither")
	}
	if items, ok := s["items"].(fields.Schema); ok && items["enum"] != nil {
		encode([]string{"neither"})
	}
	return wrong
}

// changed is a body with another value of a field; without the field where there is none.
func changed(t *testing.T, body json.RawMessage, name, value string) []byte {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		t.Fatal(err)
	}
	if delete(given, name); value != "" {
		given[name] = json.RawMessage(value)
	}
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
