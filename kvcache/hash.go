package kvcache

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/prefillonly/prefillonly/engine"
)

// Hash names a block by everything that decides its keys and values: its own tokens, all tokens
// before it, and the chain's salt.
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

// Hasher computes block chains and reuses its buffer; the zero value is ready. It is not safe for
// concurrent use.
type Hasher struct{ buf []byte }

// Chain returns the hashes of the full blocks of blockTokens tokens, first block first; a trailing
// partial block has none. It is vLLM's sha256_cbor: SHA-256 over the canonical CBOR of
// (parent hash, token ids, extra keys), so that routers which know vLLM know these blocks too. salt, a secret of
// a tenant, is the first block's extra key and by the chain part of all others: chains of other salts have nothing in common.
func (h *Hasher) Chain(tokens []engine.TokenID, blockTokens int, salt string) []Hash {
	if blockTokens <= 0 || len(tokens) < blockTokens {
		return nil
	}
	return h.Extend(make([]Hash, 0, len(tokens)/blockTokens), tokens, blockTokens, salt)
}

// Extend appends to the chain of leading tokens the hashes of the full blocks that follow them.
func (h *Hasher) Extend(chain []Hash, tokens []engine.TokenID, blockTokens int, salt string) []Hash {
	for i := len(chain); i < len(tokens)/blockTokens; i++ {
		parent := RootHash
		if i > 0 {
			parent = chain[i-1]
		}
		chain = append(chain, h.hashBlock(parent, tokens[i*blockTokens:(i+1)*blockTokens], blockSalt(salt, i)))
	}
	return chain
}

// Root names the beginning of chains with this salt: what comes before their first blocks, for Sequence.
func (h *Hasher) Root(salt string) Hash {
	if salt == "" {
		return RootHash
	}
	return h.hashBlock(RootHash, nil, salt)
}

// blockSalt is what is folded into block i.
func blockSalt(salt string, i int) string {
	if i > 0 {
		return ""
	}
	return salt
}

// hashBlock hashes the canonical CBOR of (parent, tokens, the salt as a list or null). It is written out here, as
// a CBOR library's reflection takes three times as long as the hash itself.
func (h *Hasher) hashBlock(parent Hash, tokens []engine.TokenID, salt string) Hash {
	b := appendHead(h.buf[:0], cborArray, 3)
	b = append(appendHead(b, cborBytes, len(parent)), parent[:]...)
	b = appendHead(b, cborArray, len(tokens))
	for _, id := range tokens {
		b = appendHead(b, cborUnsigned, int(id))
	}
	if salt == "" {
		b = append(b, cborNull)
	} else {
		b = append(appendHead(appendHead(b, cborArray, 1), cborText, len(salt)), salt...)
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
