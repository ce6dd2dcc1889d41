package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/mapped"
)

// Keys of a GGUF file's metadata.
const (
	ggufModel    = "tokenizer.ggml.model"
	ggufPre      = "tokenizer.ggml.pre"
	ggufTokens   = "tokenizer.ggml.tokens"
	ggufTypes    = "tokenizer.ggml.token_type"
	ggufMerges   = "tokenizer.ggml.merges"
	ggufScores   = "tokenizer.ggml.scores"
	ggufTemplate = "tokenizer.chat_template"
)

// Types of tokens in GGUF files.
const (
	typeUnknown = 2
	typeControl = 3
	typeUser    = 4
)

// ggufSpecial are the keys of special tokens, by what tokenizer_config.json calls them.
var ggufSpecial = map[string]string{
	"bos_token": "tokenizer.ggml.bos_token_id", "eos_token": "tokenizer.ggml.eos_token_id", "unk_token": "tokenizer.ggml.unknown_token_id", "pad_token": "tokenizer.ggml.padding_token_id",
	"sep_token": "tokenizer.ggml.seperator_token_id", "cls_token": "tokenizer.ggml.cls_token_id", "mask_token": "tokenizer.ggml.mask_token_id",
}

// ggufEnds are the special tokens that end an answer, whatever eos_token_id is: generation_config.json lists several, and GGUF has no place for it.
var ggufEnds = []string{"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"}

// bytePre is how a byte-level tokenizer cuts texts into words, by tokenizer.ggml.pre.
type bytePre struct {
	pattern string // empty: GPT-2's
	digits  bool   // each digit is a word
	nfc     bool
	whole   bool // a word that is in the vocabulary is taken whole, whatever the merges say
	bos     bool // unless add_bos_token says otherwise
}

var bytePres = map[string]bytePre{
	"gpt-2":            {},
	"smollm":           {digits: true},
	"refact":           {digits: true},
	"starcoder":        {digits: true},
	"llama-bpe":        {pattern: wordPatterns[0], whole: true, bos: true},
	"llama3":           {pattern: wordPatterns[0], whole: true, bos: true},
	"llama-v3":         {pattern: wordPatterns[0], whole: true, bos: true},
	"falcon3":          {pattern: wordPatterns[0], whole: true, bos: true},
	"smaug-bpe":        {pattern: wordPatterns[0], whole: true},
	"dbrx":             {pattern: wordPatterns[0]},
	"qwen2":            {pattern: wordPatterns[1], nfc: true},
	"deepseek-r1-qwen": {pattern: wordPatterns[1]},
	"tekken":           {pattern: wordPatterns[2], whole: true, bos: true},
	"gpt-4o":           {pattern: wordPatterns[3]},
}

// object is one of JSON.
type object = map[string]any

// maxVocab is the most bytes of all tokens; large vocabularies have 3 MB.
const maxVocab = 32 << 20

// ggufVocab is the vocabulary of a GGUF file.
type ggufVocab struct {
	*gguf.File
	tokens []string
	types  []int // of tokens; nil: all are of texts
	ids    map[string]int
}

// readGGUF makes the text of a tokenizer.json, and what the files beside it would say, of the metadata of a GGUF model's first file.
func readGGUF(path string) (text []byte, beside *files, err error) {
	err = mapped.Read(path, func(file *mapped.File) error {
		f, err := gguf.Parse(file.Data())
		if err != nil {
			return err
		}
		v, err := newGGUFVocab(f)
		if err != nil {
			return err
		}
		whole, err := v.describeTokenizer()
		if err != nil {
			return err
		}
		if beside, err = v.describeFiles(); err != nil {
			return err
		}
		text, err = json.Marshal(whole)
		return err
	})
	return text, beside, err
}

func newGGUFVocab(f *gguf.File) (*ggufVocab, error) {
	v := &ggufVocab{File: f}
	var err error
	if v.tokens, err = f.Strings(ggufTokens); err != nil {
		return nil, err
	}
	if f.Has(ggufTypes) {
		if v.types, err = f.Ints(ggufTypes); err == nil && len(v.types) != len(v.tokens) {
			err = fmt.Errorf("%s has %d elements for %d tokens", ggufTypes, len(v.types), len(v.tokens))
		}
	}
	bytes := 0
	v.ids = make(map[string]int, len(v.tokens))
	for id, text := range v.tokens {
		v.ids[text] = id
		bytes += len(text)
	}
	if bytes > maxVocab && err == nil {
		err = fmt.Errorf("%s has %d bytes, want at most %d", ggufTokens, bytes, maxVocab)
	}
	return v, err
}

// typeOf is the type of a token; 0: not known.
func (v *ggufVocab) typeOf(id int) int {
	if v.types == nil {
		return 0
	}
	return v.types[id]
}

// describeTokenizer is what tokenizer.json would be.
func (v *ggufVocab) describeTokenizer() (object, error) {
	kind, err := v.String(ggufModel)
	if err != nil {
		return nil, err
	}
	var t object
	var bos bool
	switch kind {
	case "gpt2":
		t, bos, err = v.describeBytes()
	case "llama":
		t, err = v.describeSentencePiece()
		bos = true
	default:
		err = fmt.Errorf("unsupported %s %.60q, want gpt2 or llama", ggufModel, kind)
	}
	if err != nil {
		return nil, err
	}
	t["version"], t["truncation"], t["padding"] = "1.0", nil, nil
	t["added_tokens"] = v.addedTokens()
	t["post_processor"], err = v.describeSurroundings(bos)
	return t, err
}

// addedTokens are those that are found in texts before all else.
func (v *ggufVocab) addedTokens() []object {
	added := []object{}
	for id, text := range v.tokens {
		switch typ := v.typeOf(id); typ {
		case typeUnknown, typeControl, typeUser:
			if text != "" && v.ids[text] == id {
				added = append(added, object{"id": id, "content": text, "special": typ != typeUser, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
			}
		}
	}
	return added
}

// describeBytes is a byte-level BPE, and whether it puts a first token before texts by default.
func (v *ggufVocab) describeBytes() (t object, bos bool, err error) {
	name, err := v.String(ggufPre)
	if err != nil {
		return nil, false, fmt.Errorf("%w, which says how texts are cut into words: convert the model anew", err)
	}
	pre, ok := bytePres[name]
	if !ok {
		return nil, false, fmt.Errorf("unsupported %s %.60q, want one of %s", ggufPre, name, strings.Join(slices.Sorted(maps.Keys(bytePres)), ", "))
	}
	written, err := v.Strings(ggufMerges)
	if err != nil {
		return nil, false, err
	}
	merges := make([][2]string, len(written))
	for i, m := range written {
		at := strings.IndexByte(m[min(1, len(m)):], ' ') + 1
		if at < 1 {
			return nil, false, fmt.Errorf("%s: element %d is %.60q, want two texts with a space between", ggufMerges, i, m)
		}
		merges[i] = [2]string{m[:at], m[at+1:]}
	}
	t = object{
		"normalizer": nil, "pre_tokenizer": pre.describe(), "decoder": byteLevel(false),
		"model": object{"type": "BPE", "ignore_merges": pre.whole, "vocab": v.ids, "merges": merges},
	}
	if pre.nfc {
		t["normalizer"] = object{"type": "NFC"}
	}
	return t, pre.bos, nil
}

func byteLevel(regex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
}

func (p bytePre) describe() object {
	switch {
	case p.pattern != "":
		return object{"type": "Sequence", "pretokenizers": []object{{"type": "Split", "pattern": object{"Regex": p.pattern}, "behavior": "Isolated", "invert": false}, byteLevel(false)}}
	case p.digits:
		return object{"type": "Sequence", "pretokenizers": []object{{"type": "Digits", "individual_digits": true}, byteLevel(true)}}
	}
	return byteLevel(true)
}

// describeSentencePiece is SentencePiece's BPE: what two tokens make is merged in the order of its score.
func (v *ggufVocab) describeSentencePiece() (object, error) {
	scores, err := v.Floats(ggufScores)
	if err == nil && len(scores) != len(v.tokens) {
		err = fmt.Errorf("%s has %d elements for %d tokens", ggufScores, len(scores), len(v.tokens))
	}
	if err != nil {
		return nil, err
	}
	prefix, err := v.boolOr("tokenizer.ggml.add_space_prefix", true)
	if err != nil {
		return nil, err
	}
	replace := object{"type": "Replace", "pattern": object{"String": " "}, "content": metaspace}
	t := object{"normalizer": replace, "pre_tokenizer": nil}
	decoders := []object{{"type": "Replace", "pattern": object{"String": metaspace}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}}
	if prefix {
		t["normalizer"] = object{"type": "Sequence", "normalizers": []object{{"type": "Prepend", "prepend": metaspace}, replace}}
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	t["decoder"] = object{"type": "Sequence", "decoders": decoders}
	merges, err := v.mergesByScore(scores)
	if err != nil {
		return nil, err
	}
	model := object{"type": "BPE", "fuse_unk": true, "byte_fallback": true, "vocab": v.ids, "merges": merges}
	if unknown, ok, err := v.specialToken("unk_token"); err != nil {
		return nil, err
	} else if ok {
		model["unk_token"] = v.tokens[unknown]
	}
	t["model"] = model
	return t, nil
}

// longestPiece is the most bytes of a token that merges make: the vocabularies there are have some tens. mostMerges are of all tokens, of which a
// hostile vocabulary could have one for each of its bytes; the largest there are have 2^19.
const (
	longestPiece = 512
	mostMerges   = 1 << 22
)

// mergesByScore lists all pairs of tokens that make a token, that of the highest score first.
func (v *ggufVocab) mergesByScore(scores []float64) ([][2]string, error) {
	order := make([]int, 0, len(v.tokens))
	for id, text := range v.tokens {
		if v.ids[text] == id && len(text) <= longestPiece {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	merges := [][2]string{}
	for _, id := range order {
		text, first := v.tokens[id], len(merges)
		for at := range text {
			_, left := v.ids[text[:at]]
			_, right := v.ids[text[at:]]
			if left && right && at > 0 {
				merges = append(merges, [2]string{text[:at], text[at:]})
			}
		}
		if len(merges) > mostMerges {
			return nil, fmt.Errorf("%s: more than %d pairs of tokens make a token", ggufTokens, mostMerges)
		}
		slices.SortStableFunc(merges[first:], func(a, b [2]string) int {
			if a[0] != b[0] {
				return v.ids[a[0]] - v.ids[b[0]]
			}
			return v.ids[a[1]] - v.ids[b[1]]
		})
	}
	return merges, nil
}

// boolOr is a key that may be absent.
func (v *ggufVocab) boolOr(key string, otherwise bool) (bool, error) {
	if !v.Has(key) {
		return otherwise, nil
	}
	return v.Bool(key)
}

// specialToken is the id of a token that tokenizer_config.json would name.
func (v *ggufVocab) specialToken(name string) (id int, ok bool, err error) {
	key := ggufSpecial[name]
	if !v.Has(key) {
		return 0, false, nil
	}
	if id, err = v.Int(key); err == nil && (id < 0 || id >= len(v.tokens)) {
		err = fmt.Errorf("key %q is %d, and there are %d tokens", key, id, len(v.tokens))
	}
	return id, err == nil, err
}

// describeSurroundings is the post-processor: the special tokens around a text, or around each of two.
func (v *ggufVocab) describeSurroundings(bos bool) (any, error) {
	a, b := []object{{"Sequence": object{"id": "A", "type_id": 0}}}, []object{{"Sequence": object{"id": "B", "type_id": 1}}}
	named := object{}
	for _, end := range []struct {
		name, key string
		add       bool
	}{{"bos_token", "tokenizer.ggml.add_bos_token", bos}, {"eos_token", "tokenizer.ggml.add_eos_token", false}} {
		add, err := v.boolOr(end.key, end.add)
		if err != nil {
			return nil, err
		}
		id, ok, err := v.specialToken(end.name)
		if err != nil {
			return nil, err
		}
		if !add || !ok {
			continue
		}
		text := v.tokens[id]
		named[text] = object{"id": text, "ids": []int{id}, "tokens": []string{text}}
		for typ, list := range []*[]object{&a, &b} {
			at := len(*list)
			if end.name == "bos_token" {
				at = 0
			}
			*list = slices.Insert(*list, at, object{"SpecialToken": object{"id": text, "type_id": typ}})
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	return object{"type": "TemplateProcessing", "single": a, "pair": slices.Concat(a, b), "special_tokens": named}, nil
}

// describeFiles is what the files beside tokenizer.json would say.
func (v *ggufVocab) describeFiles() (*files, error) {
	f := &files{special: map[string]string{}, templates: map[string]namedTemplate{}}
	for _, name := range specialNames {
		id, ok, err := v.specialToken(name)
		if err != nil {
			return nil, err
		}
		if ok {
			f.special[name] = v.tokens[id]
		}
	}
	for _, text := range append([]string{f.special["eos_token"]}, ggufEnds...) {
		if id, ok := v.ids[text]; ok && (v.typeOf(id) == typeControl || text == f.special["eos_token"]) && !slices.Contains(f.eosIDs, engine.TokenID(id)) {
			f.eosIDs = append(f.eosIDs, engine.TokenID(id))
		}
	}
	if !v.Has(ggufTemplate) {
		return f, nil
	}
	source, err := v.String(ggufTemplate)
	f.templates["default"] = namedTemplate{source, ggufTemplate}
	return f, err
}
