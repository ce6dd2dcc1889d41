package api

import (
	"encoding/json"
	"strconv"
)

// unsupported are fields that other servers honour and this one does not. Each would change the
// answer, so a value that is not its neutral one is refused by name; any other unknown field is
// ignored.
type unsupported struct {
	Suffix            json.RawMessage `json:"suffix"`
	Tools             json.RawMessage `json:"tools"`
	Functions         json.RawMessage `json:"functions"`
	FunctionCall      json.RawMessage `json:"function_call"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ResponseFormat    json.RawMessage `json:"response_format"`
	StructuredOutputs json.RawMessage `json:"structured_outputs"`
	GuidedJSON        json.RawMessage `json:"guided_json"`
	GuidedRegex       json.RawMessage `json:"guided_regex"`
	GuidedChoice      json.RawMessage `json:"guided_choice"`
	GuidedGrammar     json.RawMessage `json:"guided_grammar"`
	Modalities        json.RawMessage `json:"modalities"`
	Audio             json.RawMessage `json:"audio"`
	PromptEmbeds      json.RawMessage `json:"prompt_embeds"`
	BadWords          json.RawMessage `json:"bad_words"`
	UseBeamSearch     json.RawMessage `json:"use_beam_search"`
	ChatTemplate      json.RawMessage `json:"chat_template"`
	PresencePenalty   json.RawMessage `json:"presence_penalty"`
	FrequencyPenalty  json.RawMessage `json:"frequency_penalty"`
	RepetitionPenalty json.RawMessage `json:"repetition_penalty"`
	MinTokens         json.RawMessage `json:"min_tokens"`
	TopK              json.RawMessage `json:"top_k"`
	MinP              json.RawMessage `json:"min_p"`
}

// check refuses fields of u that would change the answer of a request with parameters p.
func (u *unsupported) check(p *Params) *Error {
	for _, f := range []struct {
		name    string
		raw     json.RawMessage
		neutral []string
	}{
		{"suffix", u.Suffix, []string{`""`}},
		{"tools", u.Tools, []string{`[]`}},
		{"functions", u.Functions, []string{`[]`}},
		{"function_call", u.FunctionCall, []string{`"none"`, `"auto"`}},
		{"tool_choice", u.ToolChoice, []string{`"none"`, `"auto"`}},
		{"structured_outputs", u.StructuredOutputs, nil},
		{"guided_json", u.GuidedJSON, nil},
		{"guided_regex", u.GuidedRegex, nil},
		{"guided_choice", u.GuidedChoice, []string{`[]`}},
		{"guided_grammar", u.GuidedGrammar, nil},
		{"modalities", u.Modalities, []string{`["text"]`}},
		{"audio", u.Audio, nil},
		{"prompt_embeds", u.PromptEmbeds, nil},
		{"bad_words", u.BadWords, []string{`[]`}},
		{"use_beam_search", u.UseBeamSearch, []string{`false`}},
		{"chat_template", u.ChatTemplate, nil},
	} {
		if !neutral(f.raw, f.neutral) {
			return refuse(f.name)
		}
	}
	if !neutral(u.ResponseFormat, nil) && !isTextFormat(u.ResponseFormat) {
		return refuse("response_format")
	}
	return u.checkNumbers(p)
}

// checkNumbers lets a value pass where it cannot matter: penalties on generated tokens when only
// one is generated, and narrower draws when the likeliest token is taken anyway.
func (u *unsupported) checkNumbers(p *Params) *Error {
	oneToken := p.MaxTokens != nil && *p.MaxTokens <= 1
	greedy := p.Temperature == 0
	for _, f := range []struct {
		name     string
		raw      json.RawMessage
		neutral  []float64
		harmless bool
	}{
		{"presence_penalty", u.PresencePenalty, []float64{0}, oneToken},
		{"frequency_penalty", u.FrequencyPenalty, []float64{0}, oneToken},
		{"repetition_penalty", u.RepetitionPenalty, []float64{1}, false},
		{"min_tokens", u.MinTokens, []float64{0}, false},
		{"top_k", u.TopK, []float64{0, -1}, greedy},
		{"min_p", u.MinP, []float64{0}, greedy},
	} {
		if neutral(f.raw, nil) {
			continue
		}
		value, err := strconv.ParseFloat(string(f.raw), 64)
		if err != nil {
			return Invalid(f.name, "%s must be a number", f.name)
		}
		ok := f.harmless
		for _, n := range f.neutral {
			ok = ok || value == n
		}
		if !ok {
			return refuse(f.name)
		}
	}
	return nil
}

func refuse(name string) *Error {
	e := Invalid(name, "%s is not supported by this server; leave it out", name)
	e.Code = "unsupported_parameter"
	return e
}

// neutral reports whether raw is absent, null or, white space aside, one of the literals.
func neutral(raw json.RawMessage, literals []string) bool {
	packed := make([]byte, 0, 16)
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		}
		if len(packed) == cap(packed) {
			return false // longer than any literal
		}
		packed = append(packed, c)
	}
	if len(packed) == 0 || string(packed) == "null" {
		return true
	}
	for _, literal := range literals {
		if string(packed) == literal {
			return true
		}
	}
	return false
}

func isTextFormat(raw json.RawMessage) bool {
	var format struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(raw, &format) == nil && format.Type == "text"
}
