package api

import (
	"encoding/json"
	"strconv"
	"strings"
)

// unsupported are fields that other servers honour and this one does not. Each would change the
// answer, so a value that is not its neutral one is refused by name; any other unknown field is
// ignored.
type unsupported struct {
	Suffix            json.RawMessage `json:"suffix"`
	Functions         json.RawMessage `json:"functions"`
	FunctionCall      json.RawMessage `json:"function_call"`
	Documents         json.RawMessage `json:"documents"`
	LogitsProcessors  json.RawMessage `json:"logits_processors"`
	Modalities        json.RawMessage `json:"modalities"`
	Audio             json.RawMessage `json:"audio"`
	PromptEmbeds      json.RawMessage `json:"prompt_embeds"`
	UseBeamSearch     json.RawMessage `json:"use_beam_search"`
	ChatTemplate      json.RawMessage `json:"chat_template"`
	TruncationSide    json.RawMessage `json:"truncation_side"`
	PresencePenalty   json.RawMessage `json:"presence_penalty"`
	FrequencyPenalty  json.RawMessage `json:"frequency_penalty"`
	RepetitionPenalty json.RawMessage `json:"repetition_penalty"`
}

// chatOnly are fields that change a chat answer, and that a completion does not have.
type chatOnly struct {
	Tools      json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
}

func (c *chatOnly) check() *Error {
	for _, f := range [...]struct {
		name    string
		raw     json.RawMessage
		neutral string
	}{{"tools", c.Tools, "[]"}, {"tool_choice", c.ToolChoice, "\"none\"\n\"auto\""}} {
		if !Neutral(f.raw, f.neutral) {
			e := Unsupported(f.name)
			e.Message = f.name + " is served by /v1/chat/completions alone; leave it out"
			return e
		}
	}
	return nil
}

// check refuses fields of u that would change the answer of a request with parameters p.
func (u *unsupported) check(p *Params) *Error {
	for _, f := range [...]struct {
		name    string
		raw     json.RawMessage
		neutral string // JSON literals, one a line
	}{
		{"suffix", u.Suffix, `""`},
		{"functions", u.Functions, `[]`},
		{"function_call", u.FunctionCall, "\"none\"\n\"auto\""},
		{"documents", u.Documents, `[]`},
		{"logits_processors", u.LogitsProcessors, `[]`},
		{"modalities", u.Modalities, `["text"]`},
		{"audio", u.Audio, ""},
		{"prompt_embeds", u.PromptEmbeds, ""},
		{"use_beam_search", u.UseBeamSearch, `false`},
		{"chat_template", u.ChatTemplate, ""},
		{"truncation_side", u.TruncationSide, `"left"`},
	} {
		if len(f.raw) > 0 && !Neutral(f.raw, f.neutral) {
			return Unsupported(f.name)
		}
	}
	return u.checkNumbers(p)
}

// checkNumbers lets a value pass where it cannot matter: penalties on generated tokens when only
// one is generated.
func (u *unsupported) checkNumbers(p *Params) *Error {
	oneToken := p.MaxTokens != nil && *p.MaxTokens <= 1
	for _, f := range [...]struct {
		name     string
		raw      json.RawMessage
		neutral  float64
		harmless bool
	}{
		{"presence_penalty", u.PresencePenalty, 0, oneToken},
		{"frequency_penalty", u.FrequencyPenalty, 0, oneToken},
		{"repetition_penalty", u.RepetitionPenalty, 1, false},
	} {
		if len(f.raw) == 0 || Neutral(f.raw, "") {
			continue
		}
		value, err := strconv.ParseFloat(string(f.raw), 64)
		if err != nil {
			return Invalid(f.name, "%s must be a number", f.name)
		}
		if !f.harmless && value != f.neutral {
			return Unsupported(f.name)
		}
	}
	return nil
}

// Unsupported is the refusal of a field that would change the answer and is not served.
func Unsupported(name string) *Error {
	e := Invalid(name, "%s is not supported by this server; leave it out", name)
	e.Code = "unsupported_parameter"
	return e
}

// Neutral reports whether raw is absent, null or, white space aside, one of the lines of literals.
func Neutral(raw json.RawMessage, literals string) bool {
	var short [16]byte // no literal is longer
	packed := short[:0]
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		}
		if len(packed) == len(short) {
			return false
		}
		packed = append(packed, c)
	}
	if len(packed) == 0 || string(packed) == "null" {
		return true
	}
	for literal := range strings.SplitSeq(literals, "\n") {
		if string(packed) == literal {
			return true
		}
	}
	return false
}
