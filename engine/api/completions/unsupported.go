package completions

import (
	"encoding/json"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// unsupported are fields that other servers honour and this one does not. Each would change the
// answer, so a value that is not its neutral one is refused by name; any other unknown field is
// ignored.
type unsupported struct {
	Suffix            json.RawMessage `json:"suffix" only:"\"\""`
	Functions         json.RawMessage `json:"functions" only:"[]"`
	FunctionCall      json.RawMessage `json:"function_call" only:"\"none\"|\"auto\""`
	Documents         json.RawMessage `json:"documents" only:"[]"`
	LogitsProcessors  json.RawMessage `json:"logits_processors" only:"[]"`
	Modalities        json.RawMessage `json:"modalities" only:"[\"text\"]"`
	Audio             json.RawMessage `json:"audio" only:""`
	PromptEmbeds      json.RawMessage `json:"prompt_embeds" only:""`
	UseBeamSearch     json.RawMessage `json:"use_beam_search" only:"false"`
	ChatTemplate      json.RawMessage `json:"chat_template" only:""`
	TruncationSide    json.RawMessage `json:"truncation_side" only:"\"left\""`
	PresencePenalty   json.RawMessage `json:"presence_penalty" is:"Number" default:"0" about:"Another value is taken where one token at most is generated."`
	FrequencyPenalty  json.RawMessage `json:"frequency_penalty" is:"Number" default:"0" about:"Another value is taken where one token at most is generated."`
	RepetitionPenalty json.RawMessage `json:"repetition_penalty" is:"Number" default:"1" about:"Another value is refused."`
}

// chatOnly are fields that change a chat answer, and that a completion does not have.
type chatOnly struct {
	Tools      json.RawMessage `json:"tools" only:"[]" refused:"is served by /v1/chat/completions alone; leave it out"`
	ToolChoice json.RawMessage `json:"tool_choice" only:"\"none\"|\"auto\"" refused:"is served by /v1/chat/completions alone; leave it out"`
}

// check refuses penalties of a request with parameters p. It lets a value pass where it cannot matter: penalties on generated tokens when only
// one is generated.
func (u *unsupported) check(p *Params) *api.Error {
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
		if len(f.raw) == 0 || api.Neutral(f.raw, "") {
			continue
		}
		value, err := strconv.ParseFloat(string(f.raw), 64)
		if err != nil {
			return api.Invalid(f.name, "%s must be a number", f.name)
		}
		if !f.harmless && value != f.neutral {
			return api.Unsupported(f.name)
		}
	}
	return nil
}
