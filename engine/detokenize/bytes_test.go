package detokenize

import (
	"strings"

	"github.com/prefillonly/prefillonly/engine"
)

// Tokens of byteTokenizer beyond the bytes.
const (
	tokenBOS = 256 + iota
	tokenEOS
	tokenSmile // "😀" in one token
)

// byteTokenizer has a token for each byte, so characters of several bytes span tokens.
type byteTokenizer struct{}

func byteIDs(text string) []engine.TokenID {
	ids := make([]engine.TokenID, len(text))
	for i := range len(text) {
		ids[i] = engine.TokenID(text[i])
	}
	return ids
}

func (t byteTokenizer) Decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	var out []byte
	for _, id := range ids {
		if skipSpecial && (id == tokenBOS || id == tokenEOS) {
			continue
		}
		out = append(out, t.TokenBytes(id)...)
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), nil
}

func (byteTokenizer) TokenBytes(id engine.TokenID) []byte {
	switch id {
	case tokenBOS:
		return []byte("<s>")
	case tokenEOS:
		return []byte("</s>")
	case tokenSmile:
		return []byte("😀")
	}
	return []byte{byte(id)}
}
