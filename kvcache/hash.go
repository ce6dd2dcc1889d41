package kvcache

import (
	"crypto/sha256"
	"encoding/hex"

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

// Hasher computes block chains and reuses its buffer; the zero value is ready. It is not safe for
// concurrent use.
type Hasher struct{ buf []byte }

// Chain returns the hashes of the full blocks of blockTokens tokens, first block first; a trailing
// partial block has none. It is vLLM's sha256_cbor: SHA-256 over the canonical CBOR of
// (parent hash, token ids, extra keys), so that routers which know vLLM know these blocks too.
func (h *Hasher) Chain(tokens []engine.TokenID, blockTokens int, keys Keys) []Hash {
	if blockTokens <= 0 || len(tokens) < blockTokens {
		return nil
	}
	return h.Extend(make([]Hash, 0, len(tokens)/blockTokens), tokens, blockTokens, keys)
}

// Extend appends to the chain of leading tokens the hashes of the full blocks that follow them.
func (h *Hasher) Extend(chain []Hash, tokens []engine.TokenID, blockTokens int, keys Keys) []Hash {
	for i := len(chain); i < len(tokens)/blockTokens; i++ {
		parent := RootHash
		if i > 0 {
			parent = chain[i-1]
		}
		chain = append(chain, h.hashBlock(parent, tokens[i*blockTokens:(i+1)*blockTokens], extraKeys(keys, i)))
	}
	return chain
}

// Root names the beginning of chains with these keys: what comes before their first blocks, for Sequence.
func (h *Hasher) Root(keys Keys) Hash {
	if keys == (Keys{}) {
		return RootHash
	}
	return h.hashBlock(RootHash, nil, extraKeys(keys, 0))
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

// hashBlock hashes the canonical CBOR of (parent, tokens, extra keys or null). It is written out here, as
// a CBOR library's reflection takes three times as long as the hash itself.
func (h *Hasher) hashBlock(parent Hash, tokens []engine.TokenID, extra []string) Hash {
	b := appendHead(h.buf[:0], cborArray, 3)
	b = append(appendHead(b, cborBytes, len(parent)), parent[:]...)
	b = appendHead(b, cborArray, len(tokens))
	for _, id := range tokens {
		b = appendHead(b, cborUnsigned, int(id))
	}
	if extra == nil {
		b = append(b, cborNull)
	} else {
		b = appendHead(b, cborArray, len(extra))
		for _, s := range extra {
			b = append(appendHead(b, cborText, len(s)), s...)
		}
	}
	h.buf = b
	return sha256.Sum256(b)
}

// The major types of CBOR (RFC 8949, section 3.1) that a block needs, and null.
const (
	cborUnsigned = 0 << 5
	cborBytes    = 2 << 5
	cborText     = 3 << 5
	cborArray    = 4 << 5
	cborNull     = 0xf6
)

// appendHead appends a CBOR head in its shortest form, which canonical CBOR asks for; n is at most
// 32 bits wide.
func appendHead(b []byte, major byte, n int) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return append(b, major|25, byte(n>>8), byte(n))
	}
	return append(b, major|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}
