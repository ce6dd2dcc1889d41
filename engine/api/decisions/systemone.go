package decisions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/api/fields"
)

// systemOneBody is the body of POST /v1/systemone.
type systemOneBody struct {
	api.Adapters
	Model              string                     `json:"model" is:"ModelName"`
	State              json.RawMessage            `json:"state" is:"Any"`
	Instructions       json.RawMessage            `json:"instructions" is:"Content"`
	Questions          named                      `json:"questions" items:"400" required:"true"`
	ChatTemplateKwargs map[string]json.RawMessage `json:"chat_template_kwargs"`
	CacheSalt          string                     `json:"cache_salt" bytes:"256"`
	Priority           int                        `json:"priority" default:"0"`
	RequestID          string                     `json:"request_id"`
	User               string                     `json:"user" bytes:"256"`
	Images             json.RawMessage            `json:"images" only:"[]" refused:"cannot be read: the models of this server read text alone"`
	Files              json.RawMessage            `json:"files" only:"[]" refused:"cannot be read: the models of this server read text alone"`
	Audio              json.RawMessage            `json:"audio" only:"[]" refused:"cannot be read: the models of this server read text alone"`
	Videos             json.RawMessage            `json:"videos" only:"[]" refused:"cannot be read: the models of this server read text alone"`
}

// DecodeSystemOne decodes and validates the body of POST /v1/systemone.
func DecodeSystemOne(body []byte) (*Request, *api.Error) {
	var in systemOneBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	r := &Request{
		Model: in.Model, ChatTemplateKwargs: in.ChatTemplateKwargs, Salt: in.CacheSalt, User: in.User, Priority: in.Priority,
		RequestID: in.RequestID, answer: (*Request).systemOne,
	}
	instructions, err := contentText(in.Instructions, "instructions")
	if err != nil {
		return nil, err
	}
	if instructions != "" {
		r.Messages = append(r.Messages, Message{"system", instructions})
	}
	r.Messages = append(r.Messages, Message{"user", stateText(in.State)})
	for _, e := range in.Questions {
		q, err := readSystemOne(e.name, e.value)
		if err != nil {
			return nil, err
		}
		r.Questions = append(r.Questions, q)
	}
	return r, r.validateCommon()
}

// stateText is a state as a model reads it: a string by itself, everything else as JSON.
func stateText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text // "" of null
	}
	return string(bytes.TrimSpace(raw))
}

// contentText is what a model reads of a text, an object or a list; nothing of null.
func contentText(raw json.RawMessage, field string) (string, *api.Error) {
	text := stateText(raw)
	if first := bytes.TrimSpace(raw); len(first) > 0 && !bytes.ContainsAny(first[:1], `"{[n`) {
		return "", api.Invalid(field, "%s must be a text, an object or a list, not %.40s", field, first)
	}
	return text, nil
}

type systemOneQuestion struct {
	Type         Kind            `json:"type" enum:"choice,noul,score" required:"true"`
	Instructions json.RawMessage `json:"instructions" is:"Content" required:"true"`
	Criteria     json.RawMessage `json:"criteria" is:"Criteria"`
}

func readSystemOne(name string, raw json.RawMessage) (Question, *api.Error) {
	field := "questions." + name
	var in systemOneQuestion
	if err := json.Unmarshal(raw, &in); err != nil {
		return Question{}, api.Invalid(field, "%s must be an object with type, a text, instructions and criteria", field)
	}
	q := Question{Kind: in.Type, Name: &name}
	err := checkKnownMembers(raw, field, "type", "instructions", "criteria")
	if err == nil {
		q.Instructions, err = contentText(in.Instructions, field+".instructions")
	}
	if err != nil {
		return q, err
	}
	if strings.TrimSpace(q.Instructions) == "" {
		return q, api.Invalid(field+".instructions", "%s.instructions is missing; say what is asked", field)
	}
	switch field += ".criteria"; in.Type {
	case Choice:
		q.Options, err = parseCriteria(in.Criteria, field, "an object from options to what they mean, or null")
		if err == nil {
			err = checkOptions(q.Options, field, 1, MaxOptions)
		}
	case Noul:
		q.Options, err = parseTruths(in.Criteria, field)
	case Score:
		q.Options, err = parseLevels(in.Criteria, field)
	default:
		err = api.Invalid("questions."+name+".type", "questions.%s.type is %.40q; it must be choice, noul or score", name, in.Type)
	}
	return q, err
}

// checkKnownMembers refuses an object with other members than these, whose names are told apart by case.
func checkKnownMembers(raw json.RawMessage, field string, names ...string) *api.Error {
	var members ordered
	if json.Unmarshal(raw, &members) != nil {
		return nil // null: it has none
	}
	for _, m := range members {
		if !slices.Contains(names, m.name) {
			return api.Invalid(field, "%s has %.60q; it may have %s", field, m.name, strings.Join(names, ", "))
		}
	}
	return nil
}

// parseCriteria are options with what they mean, in the order in which they are written.
func parseCriteria(raw json.RawMessage, field, want string) ([]Option, *api.Error) {
	var list ordered
	if json.Unmarshal(raw, &list) != nil {
		return nil, api.Invalid(field, "%s must be %s", field, want)
	}
	var options []Option
	for _, e := range list {
		description, err := contentText(e.value, field+"."+e.name)
		if err != nil {
			return nil, err
		}
		options = append(options, Option{Text: e.name, Description: description})
	}
	return options, nil
}

// parseTruths are the options of a noul.
func parseTruths(raw json.RawMessage, field string) ([]Option, *api.Error) {
	options := binaryOptions("", "")
	if api.Neutral(raw, "") {
		return options, nil
	}
	given, err := parseCriteria(raw, field, "an object of true and false")
	if err == nil {
		err = checkKnownMembers(raw, field, "true", "false")
	}
	for _, o := range given {
		if o.Text == "true" {
			options[1].Description = o.Description
		} else {
			options[0].Description = o.Description
		}
	}
	return options, err
}

// parseLevels are those of a score: texts, objects or lists, which its legend repeats as they came.
func parseLevels(raw json.RawMessage, field string) ([]Option, *api.Error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, api.Invalid(field, "%s must be a list of levels", field)
	}
	var options []Option
	for i, l := range list {
		text, err := contentText(l, fmt.Sprintf("%s[%d]", field, i))
		if err != nil {
			return nil, err
		}
		options = append(options, Option{Text: text, Value: l})
	}
	return options, checkOptions(options, field, 2, MaxLevels)
}

// named are the questions of a systemOneBody, by name.
type named ordered

// UnmarshalJSON decodes an object.
func (n *named) UnmarshalJSON(raw []byte) error { return (*ordered)(n).UnmarshalJSON(raw) }

// JSONSchema implements fields.Shaped.
func (n *named) JSONSchema() fields.Schema {
	return fields.Schema{"type": "object", "additionalProperties": fields.Body(reflect.TypeFor[systemOneQuestion]())}
}

// ordered is the members of a JSON object in the order in which they are written.
type ordered []member

type member struct {
	name  string
	value json.RawMessage
}

// UnmarshalJSON decodes an object.
func (o *ordered) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("%.20s is not an object", raw)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// MarshalJSON encodes the object in its order.
func (o ordered) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(api.AppendString(b, m.name), ':'), m.value...)
	}
	return append(b, '}'), nil
}

// systemOne is the reply of /v1/systemone.
func (r *Request) systemOne(a *Answered) api.Encoder {
	var answers, diagnostics ordered
	for i, q := range r.Questions {
		f := &a.Questions[i]
		answers = append(answers, member{*q.Name, encodeJSON(q.systemOne(f))})
		seen := map[string]any{"label_mass": f.Mass, "argmax_is_label": f.Likeliest}
		if f.Sequences {
			seen["scored"] = "sequences"
		}
		diagnostics = append(diagnostics, member{*q.Name, encodeJSON(seen)})
	}
	return reply{map[string]any{
		"id": "systemone-" + a.ID, "object": "structured_decision", "created": a.Created, "model": a.Model,
		"answers": answers, "diagnostics": diagnostics, "usage": map[string]int{"input_tokens": a.Tokens, "output_tokens": len(r.Questions)},
	}}
}

func (q *Question) systemOne(f *Found) map[string]any {
	var probabilities, legend ordered
	for i, o := range q.Options {
		name := o.Text
		if q.Kind == Score {
			name = fmt.Sprint(i)
			legend = append(legend, member{name, o.Value})
		}
		probabilities = append(probabilities, member{name, encodeJSON(f.Probabilities[i])})
	}
	out := map[string]any{"type": q.Kind, "probabilities": probabilities, "confidence": f.confidence()}
	switch q.Kind {
	case Noul:
		out["noul"] = f.Probabilities[1]
	case Score:
		out["score"], out["legend"] = f.meanLevel(), legend
	default:
		out["choice"] = q.Options[f.topOption()].Text
	}
	return out
}

func encodeJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings alone, all of them finite
	}
	return raw
}
