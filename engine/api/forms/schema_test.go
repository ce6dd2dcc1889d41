package forms

import (
	"strings"
	"testing"
)

func TestTight(t *testing.T) {
	const closing = `,"additionalProperties":false`
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object"}`, `{"type":"object"}`},
		{`{"properties":{"b":{},"a":{"type":"null"}}}`, `{"properties":{"b":{},"a":{"type":"null"}}` + closing + `}`},
		{`{"properties":{"a":{}},"additionalProperties":true}`, `{"properties":{"a":{}},"additionalProperties":true}`},
		{`{"properties":{"properties":{"properties":{"x":{}}}}}`, `{"properties":{"properties":{"properties":{"x":{}}` + closing + `}}` + closing + `}`},
		{`{"$defs":{"d":{"properties":{}}},"items":{"$ref":"#/$defs/d"}}`, `{"$defs":{"d":{"properties":{}` + closing + `}},"items":{"$ref":"#/$defs/d"}}`},
		{`{"anyOf":[{"properties":{"a":{}}},true]}`, `{"anyOf":[{"properties":{"a":{}}` + closing + `},true]}`},
		{`{"properties":{"a":{}},"anyOf":[{"properties":{"b":{}}}]}`, `{"properties":{"a":{}},"anyOf":[{"properties":{"b":{}}}]}`},
		{`{"allOf":[{"properties":{"a":{}}}]}`, `{"allOf":[{"properties":{"a":{}}}]}`},
		{`{"const":{"properties":{"a":{}}},"enum":[{"properties":1}]}`, `{"const":{"properties":{"a":{}}},"enum":[{"properties":1}]}`},
		{`{"properties":3}`, `{"properties":3` + closing + `}`},
	} {
		if got, err := tightenSchema("f", c.schema); got != c.want || err != nil {
			t.Errorf("%s\ngot  %s, %v\nwant %s", c.schema, got, err, c.want)
		}
	}
	deep := strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat("}", 5000)
	if got, err := tightenSchema("f", deep); got != deep || err != nil {
		t.Error("a deep schema is changed")
	}
}

// TestPatternsAreRefusedByTheirPlace: a pattern that has no translation is named by where it stands.
func TestPatternsAreRefusedByTheirPlace(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"a":{"items":{"pattern":"\\Qa\\E"}}}}`:                      `f.properties.a.items.pattern cannot be used: its pattern "\\Qa\\E": \Q is not an escape of ECMA-262, at byte 2 of the pattern`,
		`{"anyOf":[{},{"pattern":"^(?i:a)$"}]}`:                                     `f.anyOf[1].pattern cannot be used: its pattern "^(?i:a)$": unsupported group (?i:: flags are not supported`,
		`{"patternProperties":{"a++":{}}}`:                                          `f.patternProperties.a++ cannot be used`,
		`{"$defs":{"` + strings.Repeat("k", 1000) + `":{"pattern":"(?=a)"}}}`:       "look-around is not supported",
		`{"pattern":"` + strings.Repeat("(", 200) + strings.Repeat(")", 200) + `"}`: "nested deeper than 128",
	} {
		if _, err := tightenSchema("f", schema); err == nil || !strings.Contains(err.Message, want) || err.Param != "f" || len(err.Message) > 1000 {
			t.Errorf("%.100s: %v, want %s", schema, err, want)
		}
	}
}
