package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
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
		{template, "[101] [103]", "unsupported post_processor type TemplateProcessing"},
		{strings.ReplaceAll(template, `"B"`, `"A"`), "[101] [102]", `text "A" in the wrong place`},
		{strings.Replace(template, `,{"Sequence":{"id":"B","type_id":1}}`, "", 1), "[101] [102]", "leaves a text out"},
		{strings.Replace(template, `[102]`, `[999]`, 1), "[101] [999]", "names token 999, but the vocabulary has 300"},
		{strings.Replace(template, `"[CLS]":{"id"`, `"[X]":{"id"`, 1), "[101] [102]", `special token "[CLS]", which`},
		{`{"type":"New","single":[]}`, "[] []", "leaves a text out"},
		{`{"type":"BertProcessing","sep":3}`, "[] []", "cannot unmarshal"},
	} {
		tok := &Tokenizer{tokens: make([]token, 300), chat: newChat(&files{})}
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

// TestUntypedPairs: a tokenizer gives types only to models that take them.
func TestUntypedPairs(t *testing.T) {
	for names, want := range map[string]bool{`["input_ids","token_type_ids"]`: true, `["input_ids","attention_mask"]`: false, `null`: true, `7`: true} {
		tok := &Tokenizer{chat: newChat(&files{config: map[string]json.RawMessage{"model_input_names": json.RawMessage(names)}})}
		if tok.readPair([]byte(`{}`)); tok.pairError != nil || tok.pair.Typed != want {
			t.Errorf("%s: %+v, %v", names, tok.pair, tok.pairError)
		}
	}
}

// FuzzReadPair: any file gives a template of pairs within the vocabulary, or an error.
func FuzzReadPair(f *testing.F) {
	for _, processor := range []string{
		`null`, `{"type":"ByteLevel"}`, `{"type":"BertProcessing","sep":["s",2],"cls":["c",1]}`, `{"type":"RobertaProcessing","sep":["s",2],"cls":["c",1]}`,
		`{"type":"Sequence","processors":[{"type":"Sequence","processors":[]}]}`,
		`{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}],"pair":[{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"x":{"ids":[1,2]}}}`,
	} {
		f.Add([]byte(`{"post_processor":` + processor + `}`))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		tok := &Tokenizer{tokens: make([]token, 3), chat: newChat(&files{})}
		tok.readPair(file)
		p, err := tok.Pair()
		if all := append(append(p.Before, p.Between...), p.After...); err != nil && len(all) > 0 || len(all) > 0 && slices.Max(all) > 2 {
			t.Errorf("%v, %v", p, err)
		}
	})
}
