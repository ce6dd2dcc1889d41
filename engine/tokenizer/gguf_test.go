package tokenizer

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/weights/gguf/gguftest"
)

// byteTokens are all bytes as GPT-2 spells them, by their value, and then others.
func byteTokens(more ...string) []string {
	tokens := make([]string, 256)
	for r, b := range byteOfRune {
		tokens[b] = string(r)
	}
	return append(tokens, more...)
}

// typesOf are texts but for control tokens, which are spelt <|so|>.
func typesOf(tokens []string) []int32 {
	types := make([]int32, len(tokens))
	for i, text := range tokens {
		if types[i] = 1; strings.HasPrefix(text, "<|") {
			types[i] = typeControl
		}
	}
	return types
}

// byteKeys are those of a byte-level tokenizer whose control tokens are 258 and 259.
func byteKeys(pre string, more ...gguftest.Key) []gguftest.Key {
	tokens := byteTokens("12", "Ġa", "<|start|>", "<|im_end|>")
	return append([]gguftest.Key{
		{Name: ggufModel, Value: "gpt2"}, {Name: ggufPre, Value: pre}, {Name: ggufTokens, Value: tokens}, {Name: ggufTypes, Value: typesOf(tokens)},
		{Name: ggufMerges, Value: []string{"1 2", "Ġ a"}}, {Name: ggufSpecial["bos_token"], Value: uint32(258)}, {Name: ggufSpecial["eos_token"], Value: uint32(258)},
		{Name: ggufTemplate, Value: "{{ bos_token }}{{ messages[0]['content'] }}"},
	}, more...)
}

func openGGUF(t *testing.T, keys []gguftest.Key) (*Tokenizer, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.gguf")
	gguftest.Write(t, path, keys, nil)
	tok, err := Open(path)
	if err == nil {
		t.Cleanup(tok.Close)
	}
	return tok, err
}

// TestGGUFBytes: merges, digits by the kind of pre-tokenizer, tokens around texts, control tokens, ends of answers, the template.
func TestGGUFBytes(t *testing.T) {
	for _, c := range []struct {
		pre  string
		bos  bool
		more []gguftest.Key
		want []engine.TokenID
	}{
		{"gpt-2", false, nil, []engine.TokenID{'x', 257, 256, 259}},
		{"smollm", false, nil, []engine.TokenID{'x', 257, '1', '2', 259}},
		{"llama-bpe", true, nil, []engine.TokenID{258, 'x', 257, 256, 259}},
		{"llama-bpe", false, []gguftest.Key{{Name: "tokenizer.ggml.add_bos_token", Value: false}}, []engine.TokenID{'x', 257, 256, 259}},
		{"qwen2", false, []gguftest.Key{{Name: "tokenizer.ggml.add_eos_token", Value: true}}, []engine.TokenID{'x', 257, '1', '2', 259, 258}},
	} {
		tok, err := openGGUF(t, byteKeys(c.pre, c.more...))
		if err != nil {
			t.Fatalf("%s: %v", c.pre, err)
		}
		got, err := tok.Encode(t.Context(), "", "x a12<|im_end|>", true)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.pre, got, err, c.want)
		}
		back, err := tok.Decode(got, true)
		if err != nil || back != "x a12" {
			t.Errorf("%s: %q, %v", c.pre, back, err)
		}
		if eos := tok.EOS(); !reflect.DeepEqual(eos, []engine.TokenID{258, 259}) {
			t.Errorf("%s: answers end with %v", c.pre, eos)
		}
		prompt, err := tok.RenderChat([]byte(`[{"role":"user","content":"hi"}]`), text.ChatOptions{})
		if err != nil || prompt != "<|start|>hi" {
			t.Errorf("%s: %q, %v", c.pre, prompt, err)
		}
	}
}

// pieceKeys are those of SentencePiece's tokenizer: "ab" is made before "bc" by its score, other bytes by their own tokens.
func pieceKeys(more ...gguftest.Key) []gguftest.Key {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types, scores := []int32{typeUnknown, typeControl, typeControl}, []float32{0, 0, 0}
	for b := range 256 {
		tokens = append(tokens, "<0x"+strings.ToUpper(hex(byte(b)))+">")
		types, scores = append(types, 6), append(scores, 0)
	}
	for i, piece := range []string{"ab", "bc", "▁a", "▁", "a", "b", "c"} {
		tokens, types, scores = append(tokens, piece), append(types, 1), append(scores, -float32(i))
	}
	return append([]gguftest.Key{
		{Name: ggufModel, Value: "llama"}, {Name: ggufTokens, Value: tokens}, {Name: ggufTypes, Value: types}, {Name: ggufScores, Value: scores},
		{Name: ggufSpecial["bos_token"], Value: uint32(1)}, {Name: ggufSpecial["eos_token"], Value: uint32(2)}, {Name: ggufSpecial["unk_token"], Value: uint32(0)},
	}, more...)
}

func hex(b byte) string { return string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15]) }

func TestGGUFPieces(t *testing.T) {
	const ab, bc, spaceA, space, a, c = 259, 260, 261, 262, 263, 265
	tok, err := openGGUF(t, pieceKeys())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]engine.TokenID{
		"abc":    {1, space, ab, c},
		"a bc":   {1, spaceA, space, bc},
		"aé</s>": {1, spaceA, 3 + 0xC3, 3 + 0xA9, 2},
		"":       {1},
	} {
		got, err := tok.Encode(t.Context(), "", text, true)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if back, err := tok.Decode(got, true); err != nil || back != strings.TrimSuffix(text, "</s>") {
			t.Errorf("%q: %q, %v", text, back, err)
		}
	}
	bare, err := openGGUF(t, pieceKeys(gguftest.Key{Name: "tokenizer.ggml.add_space_prefix", Value: false}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bare.Encode(t.Context(), "", "a bc", false); err != nil || !slices.Equal(got, []engine.TokenID{a, space, bc}) {
		t.Errorf("without a space in front: %v, %v", got, err)
	}
}

// TestGGUFHostile: what cannot be a tokenizer is an error that names the file and the key.
func TestGGUFHostile(t *testing.T) {
	replace := func(keys []gguftest.Key, name string, value any) []gguftest.Key {
		list := slices.DeleteFunc(slices.Clone(keys), func(k gguftest.Key) bool { return k.Name == name })
		if value != nil {
			list = append(list, gguftest.Key{Name: name, Value: value})
		}
		return list
	}
	bytes, pieces := byteKeys("gpt-2"), pieceKeys()
	for name, c := range map[string]struct {
		keys []gguftest.Key
		want string
	}{
		"no model":               {replace(bytes, ggufModel, nil), ggufModel},
		"another model":          {replace(bytes, ggufModel, "bert"), `unsupported tokenizer.ggml.model "bert"`},
		"no tokens":              {replace(bytes, ggufTokens, nil), ggufTokens},
		"no pre":                 {replace(bytes, ggufPre, nil), "tokenizer.ggml.pre\", which says how texts are cut"},
		"another pre":            {replace(bytes, ggufPre, "magic"), `unsupported tokenizer.ggml.pre "magic", want one of dbrx`},
		"types too few":          {replace(bytes, ggufTypes, []int32{1}), "tokenizer.ggml.token_type has 1 elements for 260 tokens"},
		"a merge of one":         {replace(bytes, ggufMerges, []string{"12"}), `tokenizer.ggml.merges: element 0 is "12"`},
		"an empty merge":         {replace(bytes, ggufMerges, []string{""}), "element 0"},
		"a merge of none":        {replace(bytes, ggufMerges, []string{"Q Ġnothing"}), "x.gguf"},
		"merges of numbers":      {replace(bytes, ggufMerges, []int32{1}), ggufMerges},
		"scores too few":         {replace(pieces, ggufScores, []float32{1}), "tokenizer.ggml.scores has 1 elements for 266 tokens"},
		"a first token beyond":   {replace(bytes, ggufSpecial["bos_token"], uint32(1<<31)), `key "tokenizer.ggml.bos_token_id" is 2147483648, and there are 260 tokens`},
		"a last token of text":   {replace(bytes, ggufSpecial["eos_token"], "x"), "tokenizer.ggml.eos_token_id"},
		"a template of a number": {replace(bytes, ggufTemplate, uint32(1)), ggufTemplate},
		"bos as text":            {replace(pieces, "tokenizer.ggml.add_bos_token", "yes"), "tokenizer.ggml.add_bos_token"},
	} {
		_, err := openGGUF(t, c.keys)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.gguf") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	long := strings.Repeat("a", 1<<17)
	if _, err := openGGUF(t, replace(pieces, ggufTokens, slices.Repeat([]string{long}, 266))); err == nil || !strings.Contains(err.Error(), "tokenizer.ggml.tokens has 34865152 bytes, want at most 33554432") {
		t.Errorf("tokens of 128 KiB: %v", err)
	}
	if _, err := openGGUF(t, replace(pieces, ggufTokens, slices.Repeat([]string{"a"}, 266))); err != nil {
		t.Errorf("equal tokens: %v", err)
	}
}

// TestMergesOfAVocabularyAreBounded: all words of two letters up to 18 long have 16 pairs each in the mean.
func TestMergesOfAVocabularyAreBounded(t *testing.T) {
	v := &ggufVocab{tokens: []string{""}, ids: map[string]int{}}
	for at := 0; len(v.tokens[at]) < 18; at++ {
		v.tokens = append(v.tokens, v.tokens[at]+"a", v.tokens[at]+"b")
	}
	for id, text := range v.tokens {
		v.ids[text] = id
	}
	if _, err := v.mergesByScore(make([]float64, len(v.tokens))); err == nil || !strings.Contains(err.Error(), "more than 4194304 pairs of tokens make a token") {
		t.Errorf("error %v", err)
	}
}
