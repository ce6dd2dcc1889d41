package pooling

import (
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
)

// common is what bodies of OpenAI's and vLLM's kind have in common.
type common struct {
	Model          string  `json:"model"`
	User           string  `json:"user"`
	CacheSalt      string  `json:"cache_salt"`
	RequestID      string  `json:"request_id"`
	Priority       int     `json:"priority"`
	AddSpecial     *bool   `json:"add_special_tokens"`
	Truncate       *int    `json:"truncate_prompt_tokens"`
	TruncationSide *string `json:"truncation_side"`
}

// request begins the request that c's body asks.
func (c *common) request(task Task) (*Request, *api.Error) {
	r := &Request{Model: c.Model, User: c.User, Salt: c.CacheSalt, RequestID: c.RequestID, Priority: c.Priority, Task: task, AddSpecial: true}
	for _, s := range []struct{ param, value string }{{"cache_salt", r.Salt}, {"user", r.User}, {"request_id", r.RequestID}} {
		if len(s.value) > api.MaxSaltBytes {
			return nil, api.Invalid(s.param, "%s has %d bytes; the limit is %d", s.param, len(s.value), api.MaxSaltBytes)
		}
	}
	if c.AddSpecial != nil {
		r.AddSpecial = *c.AddSpecial
	}
	if c.Truncate != nil {
		if *c.Truncate < -1 || *c.Truncate == 0 {
			return nil, api.Invalid("truncate_prompt_tokens", "truncate_prompt_tokens is %d; it must be 1 or more, or -1 for the model's limit", *c.Truncate)
		}
		r.Fit.Most = *c.Truncate
	}
	if c.TruncationSide != nil {
		left, err := side("truncation_side", *c.TruncationSide, "left", "right")
		if err != nil {
			return nil, err
		}
		r.Fit.Left = left
	}
	return r, nil
}

func side(field, value, left, right string) (isLeft bool, err *api.Error) {
	if value != left && value != right {
		return false, api.Invalid(field, "%s is %.40q; it must be %q or %q", field, value, left, right)
	}
	return value == left, nil
}

// chat is what bodies have that may bring messages in place of inputs.
type chat struct {
	api.Templating
	Messages json.RawMessage `json:"messages"`
}

// inputs fills in what raw, which came in field, or the messages of c bring.
func (r *Request) inputs(field string, raw json.RawMessage, c *chat, addSpecial *bool) *api.Error {
	r.Field = field
	messages := c != nil && !api.Neutral(c.Messages, "")
	switch {
	case messages && !api.Neutral(raw, ""):
		return api.Invalid(field, "give %s or messages, not both", field)
	case messages:
		r.Field, r.Messages, r.Templating = "messages", c.Messages, c.Templating
		if r.AddSpecial = addSpecial != nil && *addSpecial; r.Templating.AddGenerationPrompt == nil {
			r.Templating.AddGenerationPrompt = new(bool) // what is embedded is the conversation
		}
		if err := r.Templating.Validate(); err != nil {
			return err
		}
		return api.CheckMessages(r.Messages)
	case api.Neutral(raw, ""):
		return empty(field, "%s is missing; give a string, a list of strings, or token ids", field)
	}
	return r.readInputs(field, raw)
}

func (r *Request) readInputs(field string, raw json.RawMessage) *api.Error {
	var p api.Prompt
	if api.Neutral(raw, "[]") {
		return empty(field, "%s is an empty list; give at least one", field)
	}
	if err := refused(p.Read(field, raw)); err != nil {
		return err
	}
	for _, text := range p.Texts {
		r.Inputs = append(r.Inputs, Input{Text: text})
	}
	for i, ids := range p.Tokens {
		if len(ids) == 0 {
			return empty(field, "%s: list %d has no token ids", field, i)
		}
		r.Inputs = append(r.Inputs, Input{Tokens: ids})
	}
	return tooMany(field, len(r.Inputs))
}

func tooMany(field string, n int) *api.Error {
	if n > MaxInputs {
		return api.Invalid(field, "%s has %d elements; one request may have %d", field, n, MaxInputs)
	}
	return nil
}

// refused is the *api.Error that err is, or none.
func refused(err error) *api.Error {
	if err == nil {
		return nil
	}
	return err.(*api.Error) // of the api's own decoders
}

// strings reads a string or a list of them.
func readStrings(field string, raw json.RawMessage) ([]string, *api.Error) {
	var list api.Strings
	if api.Neutral(raw, "") {
		return nil, empty(field, "%s is missing", field)
	}
	if err := refused(list.Read(field, raw)); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, empty(field, "%s is an empty list; give at least one", field)
	}
	return list, tooMany(field, len(list))
}

// field is a field of a body that changes the answer and is not served, with the values at which it does not.
type field struct {
	name    string
	raw     json.RawMessage
	neutral string // JSON literals, one a line
}

func checkUnsupported(fields ...field) *api.Error {
	for _, f := range fields {
		if !api.Neutral(f.raw, f.neutral) {
			return api.Unsupported(f.name)
		}
	}
	return nil
}
