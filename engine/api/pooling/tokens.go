package pooling

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/prefillonly/prefillonly/engine/api"
)

// TextsRequest is TEI's body of POST /tokenize.
type TextsRequest struct {
	Model      string
	Texts      []string
	AddSpecial bool
	Prompt     *string // name of the checkpoint's prompt that texts get in front
}

// TokenizesTexts tells TEI's body of POST /tokenize from others by its inputs.
func TokenizesTexts(body []byte) bool {
	var in struct {
		Inputs json.RawMessage `json:"inputs"`
	}
	return json.Unmarshal(body, &in) == nil && in.Inputs != nil
}

type textsBody struct {
	Model      string          `json:"model" is:"ModelName"`
	Inputs     json.RawMessage `json:"inputs" is:"Strings" required:"true"`
	AddSpecial *bool           `json:"add_special_tokens" default:"true"`
	Prompt     *string         `json:"prompt_name"`
}

// DecodeTokenize decodes TEI's body of POST /tokenize.
func DecodeTokenize(body []byte) (*TextsRequest, *api.Error) {
	var in textsBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	texts, err := readStrings("inputs", in.Inputs)
	return &TextsRequest{in.Model, texts, in.AddSpecial == nil || *in.AddSpecial, in.Prompt}, err
}

// IDsRequest is TEI's body of POST /decode.
type IDsRequest struct {
	Model       string
	IDs         [][]uint32
	SkipSpecial bool
}

type idsBody struct {
	Model       string          `json:"model" is:"ModelName"`
	IDs         json.RawMessage `json:"ids" is:"TokenLists" required:"true"`
	SkipSpecial *bool           `json:"skip_special_tokens" default:"true"`
}

// DecodeIDs decodes TEI's body of POST /decode.
func DecodeIDs(body []byte) (*IDsRequest, *api.Error) {
	var in idsBody
	if err := api.Decode(body, &in); err != nil {
		return nil, err
	}
	var p api.Prompt
	switch {
	case api.Neutral(in.IDs, ""):
		return nil, newEmptyError("ids", "ids is missing; give a list of token ids, or a list of such lists")
	case api.Neutral(in.IDs, "[]"):
		return nil, newEmptyError("ids", "ids is an empty list; give at least one")
	case bytes.ContainsRune(in.IDs, '"'):
		return nil, api.Invalid("ids", "ids must be a list of token ids, or a list of such lists")
	}
	if err := refusalOf(p.Read("ids", in.IDs)); err != nil {
		return nil, err
	}
	return &IDsRequest{in.Model, p.Tokens, in.SkipSpecial == nil || *in.SkipSpecial}, tooMany("ids", len(p.Tokens))
}

// Token is a token of a text as TEI tells of it. Start and Stop are characters of the text; those of special tokens, and of
// tokens that are not spelt as the text is, are not known.
type Token struct {
	ID      uint32 `json:"id"`
	Text    string `json:"text"`
	Special bool   `json:"special"`
	Start   *int   `json:"start"`
	Stop    *int   `json:"stop"`
}

// Place tells where the tokens, whose Text is what they spell, stand in text. Their case may be another, and white space may
// be missing.
func Place(tokens []Token, text string) {
	at := 0 // characters of text before what is left of it
	for i := range tokens {
		t := &tokens[i]
		if t.Special {
			continue
		}
		spelt, skipped := t.Text, 0
		if n := len(spelt); n == 0 || n > len(text) || !strings.EqualFold(text[:n], spelt) {
			spelt = strings.TrimSpace(spelt)
			skipped = len(text) - len(strings.TrimLeft(text, " \t\r\n"))
		}
		end := skipped + len(spelt)
		if spelt == "" || end > len(text) || !strings.EqualFold(text[skipped:end], spelt) {
			continue
		}
		start := at + utf8.RuneCountInString(text[:skipped])
		stop := start + utf8.RuneCountInString(text[skipped:end])
		t.Text, t.Start, t.Stop = text[skipped:end], &start, &stop
		at, text = stop, text[end:]
	}
}
