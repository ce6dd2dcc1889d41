package kvcache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/prefillonly/prefillonly/engine"
)

// Hash names a block by everything that decides its keys and values: its own tokens, all tokens
// before it, and the chain's Keys.
type Hash [sha256.Size]byte

// String is the hash's first eight bytes in hex, for transcripts and errors.
func (h Hash) String() string { return hex.EncodeToString(h[:8]) }

// RootHash is the parent of every first block: SHA-256 of the CBOR text "vllm-none-hash", as vLLM
// derives NONE_HASH for its sha256_cbor algorithm.
var RootHash = Hash{
	0x9b, 0xd9, 0x6a, 0x48, 0x5a, 0xd8, 0x4e, 0xfd,
	0xaf, 0xb7, 0x2e, 0xe4, 0x8a, 0x1d, 0x7a, 0x69,
	0xbc, 0xea, 0xd0, 0xf8, 0xf0, 0x43, 0x31, 0x73,
	0x94, 0x1b, 0x27, 0x6b, 0x95, 0x81, 0xee, 0xf0,
}

// Keys separate chains of equal tokens whose keys and values differ, or must not be shared.
type Keys struct {
	LoRA string // adapter; folded into every block
	Salt string // secret of a tenant; folded into the first block, and by the chain into all others
}

// Hasher computes block chains and reuses its buffer; it is not safe for concurrent use.
type Hasher struct {
	mode cbor.UserBufferEncMode
	buf  bytes.Buffer
}

// hashInput is the tuple that vLLM hashes for a block.
type hashInput struct {
	_      struct{} `cbor:",toarray"`
	Parent []byte
	Tokens []engine.TokenID
	Extra  []string // nil encodes as null
}

// NewHasher makes a Hasher.
func NewHasher() *Hasher {
	mode, err := cbor.CanonicalEncOptions().UserBufferEncMode()
	if err != nil {
		panic(fmt.Sprintf("kvcache: canonical CBOR options are refused: %v", err))
	}
	return &Hasher{mode: mode}
}

// Chain returns the hashes of the full blocks of blockTokens tokens, first block first; a trailing
// partial block has none. It is vLLM's sha256_cbor: SHA-256 over the canonical CBOR of
// (parent hash, token ids, extra keys), so that routers which know vLLM know these blocks too.
func (h *Hasher) Chain(tokens []engine.TokenID, blockTokens int, keys Keys) []Hash {
	if blockTokens <= 0 || len(tokens) < blockTokens {
		return nil
	}
	chain := make([]Hash, len(tokens)/blockTokens)
	parent := RootHash
	for i := range chain {
		parent = h.block(parent, tokens[i*blockTokens:(i+1)*blockTokens], extraKeys(keys, i))
		chain[i] = parent
	}
	return chain
}

// extraKeys lists the keys folded into block i, in vLLM's order.
func extraKeys(keys Keys, i int) []string {
	var extra []string
	if keys.LoRA != "" {
		extra = append(extra, keys.LoRA)
	}
	if keys.Salt != "" && i == 0 {
		extra = append(extra, keys.Salt)
	}
	return extra
}

func (h *Hasher) block(parent Hash, tokens []engine.TokenID, extra []string) Hash {
	h.buf.Reset()
	in := hashInput{Parent: parent[:], Tokens: tokens, Extra: extra}
	if err := h.mode.MarshalToBuffer(&in, &h.buf); err != nil {
		panic(fmt.Sprintf("kvcache: a block's hash input cannot be encoded: %v", err))
	}
	return sha256.Sum256(h.buf.Bytes())
}
