package tokenizer

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
)

// parts is what the native library says of a tokenizer.json.
type parts struct {
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Decoder      component       `json:"decoder"`
	Added        []addedToken    `json:"added_tokens"`
	Vocab        []*string       `json:"vocab"` // by id; nil where there is none
	Model        struct {
		Type         string `json:"type"` // "BPE", or empty for another
		ByteFallback bool   `json:"byte_fallback"`
	} `json:"model"`
}

// component is a part of tokenizer.json, with the fields that matter here.
type component struct {
	Type           string      `json:"type"`
	Decoders       []component `json:"decoders"`
	Normalizers    []component `json:"normalizers"`
	PreTokenizers  []component `json:"pretokenizers"`
	Prepend        string      `json:"prepend"`
	Content        string      `json:"content"`
	Replacement    string      `json:"replacement"`
	PrependScheme  string      `json:"prepend_scheme"`
	Behavior       string      `json:"behavior"`
	Invert         bool        `json:"invert"`
	AddPrefixSpace bool        `json:"add_prefix_space"`
	UseRegex       bool        `json:"use_regex"`
	Split          bool        `json:"split"`
	Pattern        struct {
		Regex  string
		String string
	} `json:"pattern"`
}

type addedToken struct {
	ID         engine.TokenID `json:"id"`
	Content    string         `json:"content"`
	LStrip     bool           `json:"lstrip"`
	RStrip     bool           `json:"rstrip"`
	SingleWord bool           `json:"single_word"`
	Special    bool           `json:"special"`
}

// spelling is how the vocabulary writes bytes.
type spelling uint8

const (
	plainSpelling     spelling = iota
	byteLevelSpelling          // GPT-2's table of one printable character for each byte
	metaspaceSpelling          // SentencePiece: U+2581 for a space, <0xAB> for a byte
)

// token is one entry of the vocabulary.
type token struct {
	text     string
	spelling spelling
	special  bool // no part of a text
}

// decodedBytes is what the token stands for.
func (t token) decodedBytes() []byte {
	switch t.spelling {
	case byteLevelSpelling:
		out := make([]byte, 0, len(t.text))
		for _, r := range t.text {
			b, ok := byteOfRune[r]
			if !ok {
				return []byte(t.text)
			}
			out = append(out, b)
		}
		return out
	case metaspaceSpelling:
		if len(t.text) == 6 && strings.HasPrefix(t.text, "<0x") && t.text[5] == '>' {
			if b, err := strconv.ParseUint(t.text[3:5], 16, 8); err == nil {
				return []byte{byte(b)}
			}
		}
		return []byte(strings.ReplaceAll(t.text, metaspace, " "))
	}
	return []byte(t.text)
}

const metaspace = "\u2581"

// byteOfRune inverts GPT-2's bytes_to_unicode: printable Latin-1 stands for itself, the other
// bytes for the characters from U+0100 on, in their order.
var byteOfRune = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE) {
			r = next
			next++
		}
		m[r] = byte(b)
	}
	return m
}()

// vocabTokens returns the vocabulary by id. Added tokens are spelt as they are.
func (p *parts) vocabTokens() []token {
	s := p.Decoder.tokenSpelling()
	tokens := make([]token, len(p.Vocab))
	for id, text := range p.Vocab {
		if text != nil {
			tokens[id] = token{text: *text, spelling: s}
		}
	}
	for _, a := range p.Added {
		tokens[a.ID] = token{text: a.Content, special: a.Special}
	}
	return tokens
}

func (c component) tokenSpelling() spelling {
	switch c.Type {
	case "ByteLevel":
		return byteLevelSpelling
	case "ByteFallback", "Metaspace":
		return metaspaceSpelling
	case "Replace":
		if c.Pattern.String == metaspace {
			return metaspaceSpelling
		}
	}
	for _, d := range c.Decoders {
		if s := d.tokenSpelling(); s != plainSpelling {
			return s
		}
	}
	return plainSpelling
}

// specialIDs gives the ids of all texts that a configuration may name as special tokens.
func (p *parts) specialIDs() map[string]engine.TokenID {
	m := make(map[string]engine.TokenID, len(p.Added))
	for _, a := range p.Added {
		m[a.Content] = a.ID
	}
	return m
}

// decodeLossy reads bytes as UTF-8, with one U+FFFD for each run that is not.
func decodeLossy(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
