package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/text"
)

// Around are the special tokens that Encode puts before and after a text.
func (t *Tokenizer) Around() (before, after []engine.TokenID) { return t.leading, t.trailing }

// Pair says how two texts become one input. The error says why this tokenizer makes none.
func (t *Tokenizer) Pair() (text.Pair, error) { return t.pair, t.pairError }

// postProcessor is the part of tokenizer.json that puts special tokens around texts.
type postProcessor struct {
	Type       string                `json:"type"`
	Processors []postProcessor       `json:"processors"`
	Single     []piece               `json:"single"`
	Pair       []piece               `json:"pair"`
	Special    map[string]specialIDs `json:"special_tokens"`
	Sep        special               `json:"sep"`
	Cls        special               `json:"cls"`
}

// piece is one step of a template: a special token or one of the texts, "A" and "B".
type piece struct{ SpecialToken, Sequence *step }

type step struct {
	ID   string `json:"id"`
	Type int    `json:"type_id"`
}

type specialIDs struct {
	IDs []engine.TokenID `json:"ids"`
}

// special is a token as ["[SEP]", 102].
type special struct{ id engine.TokenID }

// UnmarshalJSON decodes the pair of a text and an id.
func (s *special) UnmarshalJSON(raw []byte) error {
	var text string
	return json.Unmarshal(raw, &[]any{&text, &s.id})
}

// readPair learns from a tokenizer.json how texts become one input. What it says of one text has to be what the tokenizer does.
// Where model_input_names of the tokenizer's configuration leave token_type_ids out, the model is given none.
func (t *Tokenizer) readPair(tokenizerJSON []byte) {
	var file struct {
		Processor *postProcessor `json:"post_processor"`
	}
	if t.pairError = json.Unmarshal(tokenizerJSON, &file); t.pairError != nil {
		return
	}
	p := file.Processor.asTemplate()
	single, err := p.readTemplate(p.Single, "A")
	if err == nil && !(slices.Equal(single.Before, t.leading) && slices.Equal(single.After, t.trailing)) {
		err = fmt.Errorf("unsupported post_processor type %s", p.Type)
	}
	if err == nil {
		t.pair, err = p.readTemplate(p.Pair, "A", "B")
	}
	var inputs []string
	if json.Unmarshal(t.chat.config["model_input_names"], &inputs) == nil && inputs != nil && !slices.Contains(inputs, "token_type_ids") {
		t.pair.Typed = false
	}
	for _, id := range slices.Concat(t.pair.Before, t.pair.Between, t.pair.After) {
		if int(id) >= len(t.tokens) && err == nil {
			err = fmt.Errorf("post_processor names token %d, but the vocabulary has %d", id, len(t.tokens))
		}
	}
	if err != nil {
		t.pair, t.pairError = text.Pair{}, fmt.Errorf("tokenizer.json has no template for a pair of texts: %w", err)
	}
}

// asTemplate is p as a template, which all of the library's can be written as.
func (p *postProcessor) asTemplate() *postProcessor {
	a, b := piece{Sequence: &step{ID: "A"}}, piece{Sequence: &step{ID: "B", Type: 1}}
	if p == nil {
		return &postProcessor{Type: "null", Single: []piece{a}, Pair: []piece{a, b}}
	}
	t := *p
	cls, sep := piece{SpecialToken: &step{ID: "cls"}}, piece{SpecialToken: &step{ID: "sep"}}
	switch p.Type {
	case "ByteLevel":
		t.Single, t.Pair = []piece{a}, []piece{a, b}
	case "BertProcessing":
		t.Single, t.Pair = []piece{cls, a, sep}, []piece{cls, a, sep, b, sep}
	case "RobertaProcessing":
		b.Sequence.Type = 0
		t.Single, t.Pair = []piece{cls, a, sep}, []piece{cls, a, sep, sep, b, sep}
	case "Sequence":
		return lastThatAdds(p.Processors)
	}
	if t.Special == nil {
		t.Special = map[string]specialIDs{"cls": {[]engine.TokenID{p.Cls.id}}, "sep": {[]engine.TokenID{p.Sep.id}}}
	}
	return &t
}

// lastThatAdds is the one of a sequence that puts tokens around texts; ByteLevel changes offsets alone.
func lastThatAdds(list []postProcessor) *postProcessor {
	for _, p := range slices.Backward(list) {
		if p.Type != "ByteLevel" {
			return p.asTemplate()
		}
	}
	return (*postProcessor)(nil).asTemplate()
}

// readTemplate reads a template of the named texts, in their order.
func (p *postProcessor) readTemplate(template []piece, texts ...string) (text.Pair, error) {
	var pair text.Pair
	parts := [3]*[]engine.TokenID{&pair.Before, &pair.Between, &pair.After}
	if len(texts) == 1 {
		parts[1] = &pair.After
	}
	at, types := 0, []int{}
	for _, step := range template {
		switch {
		case step.Sequence != nil:
			if at == len(texts) || step.Sequence.ID != texts[at] {
				return text.Pair{}, fmt.Errorf("its template has text %.20q in the wrong place", step.Sequence.ID)
			}
			types = append(types, step.Sequence.Type)
			at++
		case step.SpecialToken != nil:
			token, ok := p.Special[step.SpecialToken.ID]
			if !ok {
				return text.Pair{}, fmt.Errorf("its template names special token %.40q, which is not defined", step.SpecialToken.ID)
			}
			*parts[at] = append(*parts[at], token.IDs...)
		}
	}
	if at < len(texts) {
		return text.Pair{}, errors.New("its template leaves a text out")
	}
	pair.Typed = len(types) == 2 && types[0] != types[1]
	return pair, nil
}
