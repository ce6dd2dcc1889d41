// Package forms reads what a generated text must be, whichever field of a request says it: a choice, JSON of a schema, a regular
// expression, a grammar, or the call of a tool.
package forms

import (
	"encoding/json"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
)

// Form is what a generated text must be: one of Choices, a call of one of Functions, or what Text says in the language of Kind.
type Form struct {
	Field   string // that it came in, for errors
	Kind    Kind
	Choices []string
	Text    string
	Compact bool // of JSON: no spaces between its parts

	Functions []Function // one of which is to be called
}

// Kind is the language of a Form.
type Kind uint8

// The kinds.
const (
	Choice  Kind = iota
	JSON         // a JSON schema
	Regex        // of the whole text
	Grammar      // in Lark's syntax
	Call         // of one of Functions
)

// maxChoices bounds the choices of a Form.
const maxChoices = 4096

// anyObject is the schema of response_format json_object.
const anyObject = `{"type":"object"}`

// Fields are those of a request that say a Form: OpenAI's, vLLM's, and those that vLLM had before.
type Fields struct {
	ResponseFormat    json.RawMessage `json:"response_format" is:"ResponseFormat"`
	StructuredOutputs json.RawMessage `json:"structured_outputs" is:"StructuredOutputs"`
	GuidedJSON        json.RawMessage `json:"guided_json" is:"JSONSchema"`
	GuidedRegex       json.RawMessage `json:"guided_regex" is:"Text"`
	GuidedChoice      json.RawMessage `json:"guided_choice" is:"Choices"`
	GuidedGrammar     json.RawMessage `json:"guided_grammar" is:"Text"`
	GuidedWhitespace  json.RawMessage `json:"guided_whitespace_pattern" only:""`
}

// Form is the one that the fields say; nil where they say none.
func (f *Fields) Form() (*Form, *api.Error) {
	forms, err := formsOf("", map[string]json.RawMessage{
		"guided_json": f.GuidedJSON, "guided_regex": f.GuidedRegex, "guided_choice": f.GuidedChoice, "guided_grammar": f.GuidedGrammar,
	})
	if err != nil {
		return nil, err
	}
	for _, more := range []func() ([]*Form, *api.Error){f.parseStructuredOutputs, f.parseResponseFormat} {
		also, err := more()
		if err != nil {
			return nil, err
		}
		forms = append(forms, also...)
	}
	switch {
	case len(forms) == 0:
		return nil, nil
	case len(forms) > 1:
		return nil, api.Invalid(forms[1].Field, "%s and %s both say what the answer must be; give one", forms[0].Field, forms[1].Field)
	}
	return forms[0], nil
}

// formsOf reads those of choice, regex, json and grammar that are given, whose fields are called prefix and their name.
func formsOf(prefix string, given map[string]json.RawMessage) ([]*Form, *api.Error) {
	var forms []*Form
	for _, name := range []string{"choice", "guided_choice", "json", "guided_json", "regex", "guided_regex", "grammar", "guided_grammar"} {
		raw := given[name]
		if len(raw) == 0 || api.Neutral(raw, "") {
			continue
		}
		form, err := newForm(prefix+name, strings.TrimPrefix(name, "guided_"), raw)
		if err != nil {
			return nil, err
		}
		forms = append(forms, form)
	}
	return forms, nil
}

func newForm(field, kind string, raw json.RawMessage) (*Form, *api.Error) {
	f := &Form{Field: field}
	switch kind {
	case "choice":
		return f, f.readChoices(raw)
	case "json":
		f.Kind = JSON
		return f, f.readSchema(raw)
	case "regex":
		f.Kind = Regex
	case "grammar":
		f.Kind = Grammar
	}
	if json.Unmarshal(raw, &f.Text) != nil || f.Text == "" {
		return nil, api.Invalid(field, "%s must be a string that is not empty", field)
	}
	if f.Kind == Regex {
		f.Text = narrowRegex(f.Text)
	}
	return f, nil
}

func (f *Form) readChoices(raw json.RawMessage) *api.Error {
	if json.Unmarshal(raw, &f.Choices) != nil {
		return api.Invalid(f.Field, "%s must be a list of strings", f.Field)
	}
	if n := len(f.Choices); n == 0 || n > maxChoices {
		return api.Invalid(f.Field, "%s has %d choices; it must have 1 to %d", f.Field, n, maxChoices)
	}
	for i, choice := range f.Choices {
		if choice == "" {
			return api.Invalid(f.Field, "%s: choice %d is empty", f.Field, i)
		}
	}
	return nil
}

// readSchema takes a schema as it is, or as a string of JSON.
func (f *Form) readSchema(raw json.RawMessage) *api.Error {
	f.Text = strings.TrimSpace(string(raw))
	if strings.HasPrefix(f.Text, `"`) {
		if json.Unmarshal(raw, &f.Text) != nil || !json.Valid([]byte(f.Text)) {
			return api.Invalid(f.Field, "%s is a string that is not the JSON of a schema", f.Field)
		}
		f.Text = strings.TrimSpace(f.Text)
	}
	if !strings.HasPrefix(f.Text, "{") {
		return api.Invalid(f.Field, "%s must be a JSON schema: an object", f.Field)
	}
	var err *api.Error
	f.Text, err = tightenSchema(f.Field, f.Text)
	return err
}

// parseStructuredOutputs reads vLLM's structured_outputs.
func (f *Fields) parseStructuredOutputs() ([]*Form, *api.Error) {
	if api.Neutral(f.StructuredOutputs, "") {
		return nil, nil
	}
	given := map[string]json.RawMessage{}
	if json.Unmarshal(f.StructuredOutputs, &given) != nil {
		return nil, api.Invalid("structured_outputs", "structured_outputs must be an object with one of choice, json, regex, grammar and json_object")
	}
	for _, name := range []string{"structural_tag", "whitespace_pattern", "disable_additional_properties"} {
		if raw := given[name]; len(raw) > 0 && !api.Neutral(raw, "false") {
			return nil, api.Unsupported("structured_outputs." + name)
		}
	}
	forms, err := formsOf("structured_outputs.", given)
	if err != nil {
		return nil, err
	}
	if !api.Neutral(given["json_object"], "false") {
		forms = append(forms, &Form{Field: "structured_outputs.json_object", Kind: JSON, Text: anyObject})
	}
	if len(forms) == 0 {
		return nil, api.Invalid("structured_outputs", "structured_outputs has none of choice, json, regex, grammar and json_object")
	}
	forms[0].Compact = !api.Neutral(given["disable_any_whitespace"], "false")
	return forms, nil
}

// parseResponseFormat reads OpenAI's response_format.
func (f *Fields) parseResponseFormat() ([]*Form, *api.Error) {
	if api.Neutral(f.ResponseFormat, "") {
		return nil, nil
	}
	var format struct {
		Type       string `json:"type"`
		JSONSchema *struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(f.ResponseFormat, &format) != nil {
		return nil, api.Invalid("response_format", "response_format must be an object with a type of text, json_object or json_schema")
	}
	switch format.Type {
	case "text":
		return nil, nil
	case "json_object":
		return []*Form{{Field: "response_format", Kind: JSON, Text: anyObject}}, nil
	case "json_schema":
		if format.JSONSchema == nil {
			return nil, api.Invalid("response_format.json_schema", "response_format.json_schema is missing")
		}
		const field = "response_format.json_schema.schema"
		if api.Neutral(format.JSONSchema.Schema, "") {
			return nil, api.Invalid(field, "%s is missing", field)
		}
		form, err := newForm(field, "json", format.JSONSchema.Schema)
		if err != nil {
			return nil, err
		}
		return []*Form{form}, nil
	}
	return nil, api.Invalid("response_format.type", "response_format.type is %.40q; it must be text, json_object or json_schema", format.Type)
}
