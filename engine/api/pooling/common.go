package pooling

import (
	"encoding/json"

	"github.com/prefillonly/prefillonly/engine/api"
)

// common is what bodies of OpenAI's and vLLM's kind have in common.
type common struct {
	api.Adapters
	Model          string `json:"model" is:"ModelName"`
	User           string `json:"user" bytes:"256"`
	CacheSalt      string `json:"cache_salt" bytes:"256"`
	RequestID      string `json:"request_id" bytes:"256"`
	Priority       int    `json:"priority" default:"0"`
	AddSpecial     *bool  `json:"add_special_tokens" default:"true"`
	Truncate       *int   `json:"truncate_prompt_tokens" min:"-1" except:"0" says:"1 or more, or -1 for the model's limit"`
	TruncationSide string `json:"truncation_side" enum:"left,right"`
}

// newRequest begins the request that c's body asks.
func (c *common) newRequest(task Task) *Request {
	r := &Request{Model: c.Model, User: c.User, Salt: c.CacheSalt, RequestID: c.RequestID, Priority: c.Priority, Task: task, AddSpecial: true}
	if c.AddSpecial != nil {
		r.AddSpecial = *c.AddSpecial
	}
	if c.Truncate != nil {
		r.Fit.Most = *c.Truncate
	}
	r.Fit.Left = c.TruncationSide == "left"
	return r
}

// chat is what bodies have that may bring messages in place of inputs.
type chat struct {
	api.Templating
	Messages json.RawMessage `json:"messages" is:"Messages"`
}

// readRequestInputs fills in what raw, which came in field, or the messages of c bring.
func (r *Request) readRequestInputs(field string, raw json.RawMessage, c *chat, addSpecial *bool) *api.Error {
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
		return newEmptyError(field, "%s is missing; give a string, a list of strings, or token ids", field)
	}
	return r.readInputs(field, raw)
}

func (r *Request) readInputs(field string, raw json.RawMessage) *api.Error {
	var p api.Prompt
	if api.Neutral(raw, "[]") {
		return newEmptyError(field, "%s is an empty list; give at least one", field)
	}
	if err := refusalOf(p.Read(field, raw)); err != nil {
		return err
	}
	for _, text := range p.Texts {
		r.Inputs = append(r.Inputs, Input{Text: text})
	}
	for i, ids := range p.Tokens {
		if len(ids) == 0 {
			return newEmptyError(field, "%s: list %d has no token ids", field, i)
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

// refusalOf is the *api.Error that err is, or none.
func refusalOf(err error) *api.Error {
	if err == nil {
		return nil
	}
	return err.(*api.Error) // of the api's own decoders
}

// readStrings reads a string or a list of them.
func readStrings(field string, raw json.RawMessage) ([]string, *api.Error) {
	var list api.Strings
	if api.Neutral(raw, "") {
		return nil, newEmptyError(field, "%s is missing", field)
	}
	if err := refusalOf(list.Read(field, raw)); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, newEmptyError(field, "%s is an empty list; give at least one", field)
	}
	return list, tooMany(field, len(list))
}
