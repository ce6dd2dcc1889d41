package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// splitter cuts a text into chunks whose ids, put one after the other, are the ids of the text.
//
// A cut stands before a space that follows a printable ASCII character. No normalisation (NFC)
// reaches over it, no added token spans it (checked by splitter), and:
//
//   - With the byte-level pre-tokenizers named in wordPatterns, every alternative of the pattern
//     takes a space only as its first character or within white space, so a match that holds the
//     character before the cut ends there, having looked no further than the space; and none looks
//     back. The same holds for a line feed after a letter or digit, and for U+3002 (the full stop
//     of Chinese) after an ideograph.
//   - BERT's normalizer changes one character at a time, but for accents that it decomposes and drops, and its pre-tokenizer
//     drops white space and sets punctuation and ideographs apart; words are encoded each by itself.
//   - With SentencePiece's BPE a space is U+2581 and merges go over the whole text; but each step of
//     a merge is in the vocabulary, and no entry has U+2581 after another character (checked), so no
//     merge goes over the cut. A chunk is encoded without its leading space, since the tokenizer
//     puts one before every text.
type splitter struct{ sentencePiece bool }

// wordPatterns are the pre-tokenizer patterns for which the argument above was made: of Llama 3,
// Qwen 2 and 3, Mistral's tekken and o200k.
var wordPatterns = []string{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

// Sizes of chunks in bytes. Between the first two a cut is made where the bytes before it hash to
// a certain value, so that equal stretches of different texts are cut alike; beyond, anywhere.
const (
	minChunk    = 256
	looseChunk  = 4096
	chunkSample = 8      // bytes before a cut that decide
	chunkShift  = 64 - 6 // one cut in 64
	hashFactor  = 0x9E3779B97F4A7C15
)

// newSplitter returns how texts can be cut, or nil when it is not known to be safe.
func (p *parts) newSplitter() *splitter {
	for _, a := range p.Added {
		if a.LStrip || a.RStrip || a.SingleWord || a.Content == "" || !isNeverCut(a.Content) {
			return nil
		}
	}
	var normalizer, pre component
	if json.Unmarshal(p.Normalizer, &normalizer) != nil || json.Unmarshal(p.PreTokenizer, &pre) != nil {
		return nil
	}
	if (normalizer.Type == "" || normalizer.Type == "NFC") && pre.splitsWords() {
		return &splitter{}
	}
	if normalizer.Type == "BertNormalizer" && pre.Type == "BertPreTokenizer" {
		return &splitter{}
	}
	if sentencePiece(normalizer, pre) && p.spacesLead() {
		return &splitter{sentencePiece: true}
	}
	return nil
}

// isNeverCut reports whether no cut can fall inside an added token, nor, with SentencePiece, beside it.
func isNeverCut(content string) bool {
	return !strings.ContainsAny(content, " \n\u3002") && !isAlphanumeric(content[0]) && !isAlphanumeric(content[len(content)-1])
}

func (c component) splitsWords() bool {
	if c.Type == "ByteLevel" {
		return !c.AddPrefixSpace && c.UseRegex
	}
	if c.Type != "Sequence" || len(c.PreTokenizers) != 2 {
		return false
	}
	split, bytes := c.PreTokenizers[0], c.PreTokenizers[1]
	return split.Type == "Split" && split.Behavior == "Isolated" && !split.Invert &&
		slices.Contains(wordPatterns, split.Pattern.Regex) &&
		bytes.Type == "ByteLevel" && !bytes.AddPrefixSpace && !bytes.UseRegex
}

// sentencePiece recognises the two ways in which SentencePiece's spaces are written down.
func sentencePiece(normalizer, pre component) bool {
	if pre.Type == "" && normalizer.Type == "Sequence" && len(normalizer.Normalizers) == 2 {
		prepend, replace := normalizer.Normalizers[0], normalizer.Normalizers[1]
		return prepend.Type == "Prepend" && prepend.Prepend == metaspace && replace.Type == "Replace" &&
			replace.Pattern.String == " " && replace.Content == metaspace
	}
	return normalizer.Type == "" && pre.Type == "Metaspace" && pre.Replacement == metaspace && !pre.Split &&
		(pre.PrependScheme == "first" || pre.PrependScheme == "always")
}

// spacesLead reports whether every entry of the vocabulary has its U+2581 at its beginning.
func (p *parts) spacesLead() bool {
	for _, text := range p.Vocab {
		if text != nil && strings.Contains(strings.TrimLeft(*text, metaspace), metaspace) {
			return false
		}
	}
	return true
}

// chunkLen returns the length of a chunk of hundreds of bytes that text begins with.
func (s splitter) chunkLen(text string) int {
	for i := minChunk; i < len(text); i++ {
		if !s.isSafeCut(text, i) {
			continue
		}
		sample := binary.LittleEndian.Uint64([]byte(text[i-chunkSample : i]))
		if i >= looseChunk || (sample*hashFactor)>>chunkShift == 0 {
			return i
		}
	}
	return len(text)
}

// wordLen returns the length of the shortest chunk that text begins with.
func (s splitter) wordLen(text string) int {
	for i := 1; i < len(text); i++ {
		if s.isSafeCut(text, i) {
			return i
		}
	}
	return len(text)
}

// isSafeCut reports whether text can be cut before its byte i.
func (s splitter) isSafeCut(text string, i int) bool {
	before := text[i-1]
	switch text[i] {
	case ' ':
		if s.sentencePiece {
			return isAlphanumeric(before) && i+1 < len(text) && isAlphanumeric(text[i+1])
		}
		return before > ' ' && before < 0x7F
	case '\n':
		return !s.sentencePiece && isAlphanumeric(before)
	case "\u3002"[0]:
		if s.sentencePiece || !strings.HasPrefix(text[i:], "\u3002") {
			return false
		}
		r, _ := utf8.DecodeLastRuneInString(text[:i])
		return r >= 0x4E00 && r <= 0x9FFF
	}
	return false
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
