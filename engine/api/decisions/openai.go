package decisions

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/api"
)

// decisionBody is the body of POST /v1/decisions.
type decisionBody struct {
	api.Adapters
	Model              string                     `json:"model" is:"ModelName"`
	Input              json.RawMessage            `json:"input" is:"DecisionInput" required:"true"`
	Questions          []question                 `json:"questions" items:"400" required:"true"`
	PromptCacheKey     string                     `json:"prompt_cache_key" bytes:"256"`
	SafetyIdentifier   string                     `json:"safety_identifier" bytes:"256"`
	ChatTemplateKwargs map[string]json.RawMessage `json:"chat_template_kwargs"`
	CacheSalt          string                     `json:"cache_salt" bytes:"256"`
	Priority           int                        `json:"priority" default:"0"`
	RequestID          string                     `json:"request_id"`
	Joint              json.RawMessage            `json:"joint" only:"false" refused:"is not supported: each question is answered by itself; leave it out"`
}

// Decode decodes and validates the body of POST /v1/decisions.
func Decode(body []byte) (*Request, *api.Error) {
	var in decisionBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	messages, err := messagesOf(in.Input)
	if err != nil {
		return nil, err
	}
	r := &Request{
		Model: in.Model, Messages: messages, ChatTemplateKwargs: in.ChatTemplateKwargs, User: in.SafetyIdentifier,
		Salt: in.CacheSalt, Priority: in.Priority, RequestID: in.RequestID, answer: (*Request).decisionReply,
	}
	if in.PromptCacheKey != "" {
		r.Salt = joinedSalt(in.PromptCacheKey, r.Salt)
	}
	for i := range in.Questions {
		q, err := in.Questions[i].read(fmt.Sprintf("questions[%d]", i))
		if err != nil {
			return nil, err
		}
		r.Questions = append(r.Questions, q)
	}
	return r, r.validateCommon()
}

// joinedSalt is one salt of two: another one for each pair, and none that who does not know both can give as cache_salt.
func joinedSalt(key, salt string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(key), key, salt)))
}

// validateCommon holds what both APIs have in common.
func (r *Request) validateCommon() *api.Error {
	if len(r.Questions) == 0 {
		return api.Invalid("questions", "questions is missing; ask at least one")
	}
	return nil
}

// question is one of /v1/decisions.
type question struct {
	Type         Kind            `json:"type" enum:"predicate,choice,score" required:"true"`
	Name         *string         `json:"name"`
	Instructions json.RawMessage `json:"instructions" is:"DecisionText" required:"true"`
	Choices      []struct {
		Value       json.RawMessage `json:"value" is:"OptionValue" required:"true"`
		Description string          `json:"description"`
	} `json:"choices" items:"255"`
	Levels []struct {
		Label       string `json:"label" required:"true"`
		Description string `json:"description"`
	} `json:"levels" items:"10"`
}

func (q *question) read(field string) (Question, *api.Error) {
	text, err := contentOf(q.Instructions, field+".instructions")
	if err == nil && strings.TrimSpace(text) == "" {
		err = api.Invalid(field+".instructions", "%s.instructions is missing; say what is asked", field)
	}
	out := Question{Kind: q.Type, Name: q.Name, Instructions: text}
	switch {
	case err != nil:
		return out, err
	case q.Type == Predicate:
		out.Options = binaryOptions("", "")
		return out, nil
	case q.Type == Choice:
		out.Options, err = q.parseChoices(field + ".choices")
		return out, err
	case q.Type == Score:
		for _, l := range q.Levels {
			out.Options = append(out.Options, Option{Text: l.Label, Description: l.Description})
		}
		return out, checkOptions(out.Options, field+".levels", 2, MaxLevels)
	}
	return out, api.Invalid(field+".type", "%s.type is %.40q; it must be predicate, choice or score", field, q.Type)
}

func (q *question) parseChoices(field string) ([]Option, *api.Error) {
	var options []Option
	for i, c := range q.Choices {
		o := Option{Description: c.Description, Value: c.Value}
		var text string
		switch value := string(bytes.TrimSpace(c.Value)); {
		case json.Unmarshal(c.Value, &text) == nil && value != "null":
			o.Text = text
		case value == "true" || value == "false":
			o.Text = value
		default:
			return nil, api.Invalid(field, "%s[%d].value must be a string, or true or false", field, i)
		}
		options = append(options, o)
	}
	return options, checkOptions(options, field, 2, MaxOptions)
}

// checkOptions refuses too few or too many options, empty ones and some that are alike. A string is another value than a
// boolean of the same text.
func checkOptions(options []Option, field string, least, most int) *api.Error {
	if len(options) < least || len(options) > most {
		return api.Invalid(field, "%s has %d entries, want %d to %d", field, len(options), least, most)
	}
	type option struct {
		text    string
		boolean bool
	}
	seen := map[option]bool{}
	for i, o := range options {
		key := option{o.Text, len(o.Value) > 0 && o.Value[0] != '"'}
		switch {
		case strings.TrimSpace(o.Text) == "":
			return api.Invalid(field, "%s[%d] is empty", field, i)
		case seen[key]:
			return api.Invalid(field, "%s[%d] is there before: %.100q", field, i, o.Text)
		}
		seen[key] = true
	}
	return nil
}

// item is one of a list of input: a message, a call or what it returned.
type item struct {
	Type      string          `json:"type" enum:"message,function_call,custom_tool_call,function_call_output,custom_tool_call_output" default:"message"`
	Role      string          `json:"role" enum:"user,developer,system,assistant"`
	Content   json.RawMessage `json:"content" is:"DecisionText"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output" is:"DecisionText"`
}

// messagesOf reads input: a string, or a list of items. Calls and their outputs become text of the assistant and the user,
// which every chat template takes.
func messagesOf(raw json.RawMessage) ([]Message, *api.Error) {
	var text string
	var items []item
	switch trimmed := bytes.TrimSpace(raw); {
	case len(trimmed) == 0 || string(trimmed) == "null":
		return nil, api.Invalid("input", "input is missing; give a text, or a list of messages")
	case json.Unmarshal(raw, &text) == nil:
		return []Message{{"user", text}}, nil
	case json.Unmarshal(raw, &items) != nil:
		return nil, api.Invalid("input", "input must be a string, or a list of messages, function calls and their outputs")
	case len(items) == 0:
		return nil, api.Invalid("input", "input is an empty list; give at least one message")
	}
	messages := make([]Message, len(items))
	for i := range items {
		m, err := items[i].parseMessage(fmt.Sprintf("input[%d]", i))
		if err != nil {
			return nil, err
		}
		messages[i] = m
	}
	return messages, nil
}

func (it *item) parseMessage(field string) (m Message, err *api.Error) {
	switch it.Type {
	case "", "message":
		if m.Role = it.Role; m.Role == "developer" {
			m.Role = "system"
		}
		if m.Role != "user" && m.Role != "system" && m.Role != "assistant" {
			return m, api.Invalid(field+".role", "%s.role is %.40q; it must be user, developer, system or assistant", field, it.Role)
		}
		m.Content, err = contentOf(it.Content, field+".content")
	case "function_call":
		m = Message{"assistant", fmt.Sprintf("Call %s of %s: %s", it.CallID, it.Name, it.Arguments)}
	case "custom_tool_call":
		m = Message{"assistant", fmt.Sprintf("Call %s of %s: %s", it.CallID, it.Name, it.Input)}
	case "function_call_output", "custom_tool_call_output":
		m.Role = "user"
		m.Content, err = contentOf(it.Output, field+".output")
		m.Content = fmt.Sprintf("Output of call %s: %s", it.CallID, m.Content)
	default:
		err = api.Invalid(field+".type", "%s.type is %.40q; it must be message, or a call of a function or custom tool or its output", field, it.Type)
	}
	return m, err
}

// contentOf reads a string, or a list of parts of text and JSON, which follow each other in lines.
func contentOf(raw json.RawMessage, field string) (string, *api.Error) {
	var text string
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", api.Invalid(field, "%s must be a string or a list of parts", field)
	}
	lines := make([]string, len(parts))
	for i, raw := range parts {
		line, err := partOf(raw, fmt.Sprintf("%s[%d]", field, i))
		if err != nil {
			return "", err
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n"), nil
}

func partOf(raw json.RawMessage, field string) (string, *api.Error) {
	var part struct {
		Type    string          `json:"type"`
		Text    *string         `json:"text"`
		Refusal string          `json:"refusal"`
		JSON    json.RawMessage `json:"json"`
		Value   json.RawMessage `json:"value"`
	}
	if json.Unmarshal(raw, &part) != nil {
		return "", api.Invalid(field, "%s must be an object with a type", field)
	}
	switch {
	case strings.Contains(part.Type, "image"):
		return "", api.Invalid(field, "%s is an image; the models of this server read text alone", field)
	case part.Text != nil:
		return *part.Text, nil
	case part.Type == "refusal":
		return part.Refusal, nil
	case len(part.JSON) > 0:
		return string(part.JSON), nil
	case len(part.Value) > 0:
		return string(part.Value), nil
	}
	return "", api.Invalid(field+".type", "%s.type is %.40q; it must be input_text, output_text, refusal or JSON", field, part.Type)
}

type usage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
		Write  int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// valued is a possible answer with its probability.
type valued struct {
	Value       json.RawMessage `json:"value"`
	Label       string          `json:"label,omitempty"`
	Probability float64         `json:"probability"`
}

// decisionReply is the reply of /v1/decisions. Of a question whose labels were scored as sequences it says so.
func (r *Request) decisionReply(a *Answered) api.Encoder {
	answers := make([]map[string]any, len(r.Questions))
	for i, q := range r.Questions {
		answers[i] = q.encodeDecision(&a.Questions[i])
	}
	u := usage{Input: a.Tokens, Output: len(r.Questions), Total: a.Tokens + len(r.Questions)}
	u.InputDetails.Cached = a.Cached
	return reply{map[string]any{"model": a.Model, "answers": answers, "usage": u}}
}

func (q *Question) encodeDecision(f *Found) map[string]any {
	out := map[string]any{"type": q.Kind, "name": q.Name}
	if f.Sequences {
		out["scored"] = "sequences"
	}
	if q.Kind == Predicate {
		out["probability"] = f.Probabilities[1]
		return out
	}
	list := make([]valued, len(q.Options))
	for i, o := range q.Options {
		list[i] = valued{Value: o.Value, Probability: f.Probabilities[i]}
		if q.Kind == Score {
			list[i].Value, list[i].Label = json.RawMessage(fmt.Sprint(i)), o.Text
		}
	}
	out["probabilities"], out["confidence"] = list, f.confidence()
	if q.Kind == Score {
		out["score"] = f.meanLevel()
	} else {
		out["choice"] = q.Options[f.topOption()].Value
	}
	return out
}
