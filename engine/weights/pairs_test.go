package weights

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReadPairs: what tokenizers' files say of the second text of a pair.
func TestReadPairs(t *testing.T) {
	const template = `{"post_processor":{"type":"TemplateProcessing","pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
		{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
		"special_tokens":{"[CLS]":{"ids":[101]},"[SEP]":{"ids":[102]}}}}`
	const untyped = `{"post_processor":{"type":"TemplateProcessing","pair":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}},
		{"Sequence":{"id":"B","type_id":0}}],"special_tokens":{"</s>":{"ids":[2]}}}}`
	for _, c := range []struct {
		tokenizer, config string
		want              Pairs
	}{
		{"", "", Pairs{}},
		{`{"post_processor":null}`, "", Pairs{}},
		{`{"post_processor":{"type":"BertProcessing","sep":["[SEP]",102],"cls":["[CLS]",101]}}`, "", Pairs{true, 102}},
		{`{"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"BertProcessing","sep":["[SEP]",7]}]}}`, "", Pairs{true, 7}},
		{`{"post_processor":{"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0]}}`, "", Pairs{}},
		{template, "", Pairs{true, 102}},
		{template, `{"model_input_names":["input_ids","token_type_ids","attention_mask"]}`, Pairs{true, 102}},
		{template, `{"model_input_names":["input_ids","attention_mask"]}`, Pairs{}},
		{untyped, "", Pairs{}},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"tokenizer.json": c.tokenizer, "tokenizer_config.json": c.config} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := ReadPairs(dir); err != nil || got != c.want {
			t.Errorf("%s %s: %v, %v, want %v", c.tokenizer, c.config, got, err, c.want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPairs(dir); err == nil {
		t.Error("half a file: no error")
	}
}
