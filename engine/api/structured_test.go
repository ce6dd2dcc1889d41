package api

import (
	"reflect"
	"testing"
)

// TestForms reads each way of saying a form.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		fields string
		want   *Form
	}{
		{`"response_format":null,"guided_choice":null`, nil},
		{`"guided_choice":["Yes","No"]`, &Form{Field: "guided_choice", Choices: []string{"Yes", "No"}}},
		{`"structured_outputs":{"choice":["Yes"]}`, &Form{Field: "structured_outputs.choice", Choices: []string{"Yes"}}},
		{`"guided_regex":"a+"`, &Form{Field: "guided_regex", Kind: FormRegex, Text: "a+"}},
		{`"guided_grammar":"start: \"a\""`, &Form{Field: "guided_grammar", Kind: FormGrammar, Text: `start: "a"`}},
		{`"guided_json": {"type":"null"} `, &Form{Field: "guided_json", Kind: FormJSON, Text: `{"type":"null"}`}},
		{`"guided_json":" {\"type\":\"null\"}"`, &Form{Field: "guided_json", Kind: FormJSON, Text: `{"type":"null"}`}},
		{`"structured_outputs":{"json":{},"regex":null,"disable_any_whitespace":true}`, &Form{Field: "structured_outputs.json", Kind: FormJSON, Text: `{}`, Compact: true}},
		{`"structured_outputs":{"json_object":true}`, &Form{Field: "structured_outputs.json_object", Kind: FormJSON, Text: `{"type":"object"}`}},
		{`"response_format":{"type":"json_object"}`, &Form{Field: "response_format", Kind: FormJSON, Text: `{"type":"object"}`}},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"const":1}}}`, &Form{Field: "response_format.json_schema.schema", Kind: FormJSON, Text: `{"const":1}`}},
	} {
		for _, request := range []string{`{"prompt":"a",` + c.fields + `}`, `{"messages":[{"role":"user","content":"a"}],` + c.fields + `}`} {
			var got *Form
			var refused *Error
			if request[2] == 'p' {
				r, err := DecodeCompletion([]byte(request))
				if refused = err; err == nil {
					got = r.Form
				}
			} else {
				r, err := DecodeChat([]byte(request))
				if refused = err; err == nil {
					got = r.Form
				}
			}
			if refused != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v, %v; want %+v", request, got, refused, c.want)
			}
		}
	}
}
