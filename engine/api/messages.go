package api

import (
	"bytes"
	"encoding/json"
	"maps"
)

// Templating says how messages become a prompt.
type Templating struct {
	AddGenerationPrompt  *bool                      `json:"add_generation_prompt"`                  // nil: unless the final message is continued
	ContinueFinalMessage bool                       `json:"continue_final_message" default:"false"` // the prompt ends with the last message's text
	ChatTemplateKwargs   map[string]json.RawMessage `json:"chat_template_kwargs"`
	Tools                json.RawMessage            `json:"tools" is:"Tools"` // a variable of the template
}

// Variables are those of the template beside the messages.
func (t *Templating) Variables() map[string]json.RawMessage {
	if Neutral(t.Tools, "[]") {
		return t.ChatTemplateKwargs
	}
	all := map[string]json.RawMessage{"tools": t.Tools}
	maps.Copy(all, t.ChatTemplateKwargs)
	return all
}

// GenerationPrompt reports whether the prompt ends with the opening of an assistant's message.
func (t *Templating) GenerationPrompt() bool {
	if t.AddGenerationPrompt == nil {
		return !t.ContinueFinalMessage
	}
	return *t.AddGenerationPrompt
}

// Validate checks t.
func (t *Templating) Validate() *Error {
	if t.ContinueFinalMessage && t.GenerationPrompt() {
		return Invalid("continue_final_message", "continue_final_message and add_generation_prompt cannot both be true; leave one out")
	}
	return nil
}

// CheckMessages refuses what is no list of messages of text.
func CheckMessages(raw json.RawMessage) *Error {
	if Neutral(raw, "") {
		return Invalid("messages", "messages is missing; give a list of {\"role\", \"content\"} objects")
	}
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &messages); err != nil {
		return Invalid("messages", "messages must be a list of {\"role\", \"content\"} objects")
	}
	if len(messages) == 0 {
		return Invalid("messages", "messages is empty; give at least one")
	}
	for i, m := range messages {
		if m.Role == "" {
			return Invalid("messages", "messages[%d] has no role", i)
		}
		if err := checkContent(i, m.Content); err != nil {
			return err
		}
	}
	return nil
}

// checkContent refuses parts that are not text: an image dropped in silence changes the answer.
func checkContent(index int, raw json.RawMessage) *Error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == '"' || raw[0] == 'n' {
		return nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return Invalid("messages", "messages[%d].content must be a string or a list of text parts", index)
	}
	for j, part := range parts {
		if part.Type != "text" || part.Text == nil {
			return Invalid("messages", "messages[%d].content[%d] is of type %.40q; only text parts are served", index, j, part.Type)
		}
	}
	return nil
}
