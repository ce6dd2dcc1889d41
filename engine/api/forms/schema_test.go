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
		if got := tight(c.schema); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.schema, got, c.want)
		}
	}
	deep := strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat("}", 5000)
	if got := tight(deep); got != deep {
		t.Error("a deep schema is changed")
	}
}
