package completions

import (
	"encoding/json"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// unsupported are fields that other servers honour and this one does not. Each would change the
// answer, so a value that is not its neutral one is refused by name; any other unknown field is
// passed over.
type unsupported struct {
	api.Adapters
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
	InputIDs          json.RawMessage `json:"input_ids" only:"" refused:"is not read by this server; give token ids as prompt"`
	InputEmbeds       json.RawMessage `json:"input_embeds" only:""`
	MaxNewTokens      json.RawMessage `json:"max_new_tokens" only:"" refused:"is not read by this server; give it as max_tokens"`
	Predict           json.RawMessage `json:"n_predict" only:"-1" refused:"is not read by this server; give it as max_tokens"`
	Regex             json.RawMessage `json:"regex" only:"\"\"" refused:"is not read by this server; give it as structured_outputs.regex"`
	EBNF              json.RawMessage `json:"ebnf" only:"\"\"" refused:"is not read by this server; give a grammar as structured_outputs.grammar"`
	Grammar           json.RawMessage `json:"grammar" only:"\"\"" refused:"is not read by this server; give it as structured_outputs.grammar"`
	JSONSchema        json.RawMessage `json:"json_schema" only:"" refused:"is not read by this server; give it as structured_outputs.json"`
	StructuralTag     json.RawMessage `json:"structural_tag" only:"\"\""`
	TypicalP          json.RawMessage `json:"typical_p" only:"1|1.0"`
	TopNSigma         json.RawMessage `json:"top_n_sigma" only:"-1|-1.0|0|0.0"`
	TopA              json.RawMessage `json:"top_a" only:"0|0.0"`
	XTC               json.RawMessage `json:"xtc_probability" only:"0|0.0"`
	DRY               json.RawMessage `json:"dry_multiplier" only:"0|0.0"`
	Mirostat          json.RawMessage `json:"mirostat" only:"0"`
	DynamicRange      json.RawMessage `json:"dynatemp_range" only:"0|0.0"`
	NoRepeat          json.RawMessage `json:"no_repeat_ngram_size" only:"0"`
	StopRegex         json.RawMessage `json:"stop_regex" only:"[]|\"\""`
	LogitProcessor    json.RawMessage `json:"custom_logit_processor" only:"\"\""`
	NegativePrompt    json.RawMessage `json:"negative_prompt" only:"\"\""`
	Watermark         json.RawMessage `json:"watermark" only:"false"`
	WebSearch         json.RawMessage `json:"web_search_options" only:""`
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
