package completions

import (
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/forms"
)

// TestForms reads each way of saying a form.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		fields string
		want   *forms.Form
	}{
		{`"response_format":null,"guided_choice":null`, nil},
		{`"guided_choice":["Yes","No"]`, &forms.Form{Field: "guided_choice", Choices: []string{"Yes", "No"}}},
		{`"structured_outputs":{"choice":["Yes"]}`, &forms.Form{Field: "structured_outputs.choice", Choices: []string{"Yes"}}},
		{`"guided_regex":"a+"`, &forms.Form{Field: "guided_regex", Kind: forms.Regex, Text: "a+"}},
		{`"guided_grammar":"start: \"a\""`, &forms.Form{Field: "guided_grammar", Kind: forms.Grammar, Text: `start: "a"`}},
		{`"guided_json": {"type":"null"} `, &forms.Form{Field: "guided_json", Kind: forms.JSON, Text: `{"type":"null"}`}},
		{`"guided_json":" {\"type\":\"null\"}"`, &forms.Form{Field: "guided_json", Kind: forms.JSON, Text: `{"type":"null"}`}},
		{`"structured_outputs":{"json":{},"regex":null,"disable_any_whitespace":true}`, &forms.Form{Field: "structured_outputs.json", Kind: forms.JSON, Text: `{}`, Compact: true}},
		{`"structured_outputs":{"json_object":true}`, &forms.Form{Field: "structured_outputs.json_object", Kind: forms.JSON, Text: `{"type":"object"}`}},
		{`"response_format":{"type":"json_object"}`, &forms.Form{Field: "response_format", Kind: forms.JSON, Text: `{"type":"object"}`}},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"const":1}}}`, &forms.Form{Field: "response_format.json_schema.schema", Kind: forms.JSON, Text: `{"const":1}`}},
	} {
		for _, request := range []string{`{"prompt":"a",` + c.fields + `}`, `{"messages":[{"role":"user","content":"a"}],` + c.fields + `}`} {
			var got *forms.Form
			var refused *api.Error
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
