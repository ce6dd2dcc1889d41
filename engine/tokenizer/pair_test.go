package tokenizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// TestPairs: every kind of post-processor of the library, as it writes it, makes the pairs that transformers' tokenizers make.
func TestPairs(t *testing.T) {
	const bert, roberta = `"sep":["[SEP]",102],"cls":["[CLS]",101]`, `"sep":["</s>",2],"cls":["<s>",0],"trim_offsets":true,"add_prefix_space":false`
	const template = `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
		"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
		"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[101],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[102],"tokens":["[SEP]"]}}}`
	for _, c := range []struct {
		processor, around string // around one text
		want              string
	}{
		{`null`, "[] []", "[] [] [] true"},
		{`{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}`, "[] []", "[] [] [] true"},
		{`{"type":"BertProcessing",` + bert + `}`, "[101] [102]", "[101] [102] [102] true"},
		{`{"type":"RobertaProcessing",` + roberta + `}`, "[0] [2]", "[0] [2 2] [2] false"},
		{template, "[101] [102]", "[101] [102] [102] true"},
		{`{"type":"Sequence","processors":[{"type":"ByteLevel"},` + template + `]}`, "[101] [102]", "[101] [102] [102] true"},
		{`{"type":"Sequence","processors":[{"type":"ByteLevel"}]}`, "[] []", "[] [] [] true"},
		{template, "[101] [103]", "not known to do what it does"},
		{strings.ReplaceAll(template, `"B"`, `"A"`), "[101] [102]", `the text "A" where another belongs`},
		{strings.Replace(template, `,{"Sequence":{"id":"B","type_id":1}}`, "", 1), "[101] [102]", "leaves a text out"},
		{strings.Replace(template, `[102]`, `[999]`, 1), "[101] [999]", "names token 999; the vocabulary has 300"},
		{strings.Replace(template, `"[CLS]":{"id"`, `"[X]":{"id"`, 1), "[101] [102]", `special token "[CLS]", which`},
		{`{"type":"New","single":[]}`, "[] []", "leaves a text out"},
		{`{"type":"BertProcessing","sep":3}`, "[] []", "cannot unmarshal"},
	} {
		tok := &Tokenizer{tokens: make([]token, 300)}
		var before, after int
		if _, err := fmt.Sscanf(c.around, "[%d] [%d]", &before, &after); err == nil {
			tok.leading, tok.trailing = []engine.TokenID{engine.TokenID(before)}, []engine.TokenID{engine.TokenID(after)}
		}
		tok.readPair([]byte(`{"post_processor":` + c.processor + `}`))
		p, err := tok.Pair()
		got := fmt.Sprint(p.Before, p.Between, p.After, p.Typed)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%.120s: got %s, want %s", c.processor, got, c.want)
		}
	}
}
