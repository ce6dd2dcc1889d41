package kvcache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/prefillonly/prefillonly/engine"
)

// The hashes come from Python's cbor2 6.2.1 and hashlib, fed as vLLM feeds them.
func TestChainIsVLLMs(t *testing.T) {
	tokens := []engine.TokenID{0, 1, 23, 24, 255, 256, 65535, 65536, 151935, 1<<32 - 1, 7, 8, 9}
	for _, tt := range []struct {
		name string
		salt string
		want [3]string
	}{
		{"plain", "", [3]string{
			"9e85762a91def2a8c95633b296ff858a1304ca43d1c6d5cf5ac75c989d90ee6c",
			"5d203f5d5f17a692f178862e6dec68ea216ff9c871972729fca592dff2c05659",
			"3a4705aec24cb59e2ca1978f10b948b3a0a6d05b4c5bed4d6fc4cf041482111e"}},
		{"salt", "tenant-a", [3]string{
			"8a432956f894b1ebacacb05b84279155a2aee5c55443482bd5e0cee164b260a9",
			"2dc433ccd28dc7892a3ceba6f649e1cbf411aa5ba55640099a5ca2718f9848a1",
			"fbd383a461a13d3403743e5b3388c4fd01190d0f2a4486b751d5be84f90fa79f"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chain := new(Hasher).Chain(tokens, 4, tt.salt)
			longer := new(Hasher).Extend(chain[:1:1], tokens, 4, tt.salt)
			if !slices.Equal(longer, chain) {
				t.Errorf("the chain of 4 tokens is extended to %v, that of all is %v", longer, chain)
			}
			if len(chain) != 3 {
				t.Fatalf("13 tokens in blocks of 4 have %d hashes, want 3", len(chain))
			}
			for i, h := range chain {
				if got := hex.EncodeToString(h[:]); got != tt.want[i] {
					t.Errorf("block %d: %s, want %s", i, got, tt.want[i])
				}
			}
		})
	}
}

// TestBlockIsCanonicalCBOR compares the hash's input with what a CBOR library makes of it, at the
// lengths and numbers where the encoding changes.
func TestBlockIsCanonicalCBOR(t *testing.T) {
	mode, err := cbor.CanonicalEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	edges := []engine.TokenID{0, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1}
	for _, n := range []int{1, 23, 24, 255, 256, 65535, 65536} {
		for _, extra := range [][]string{nil, {"a"}, {strings.Repeat("s", 300)}} {
			tokens := make([]engine.TokenID, n)
			for i := range tokens {
				tokens[i] = edges[i%len(edges)]
			}
			parent := Hash{1, 2, 3}
			input, err := mode.Marshal([]any{parent[:], tokens, extra})
			if err != nil {
				t.Fatal(err)
			}
			if got := new(Hasher).hashBlock(parent, tokens, strings.Join(extra, "")); got != sha256.Sum256(input) {
				t.Errorf("%d tokens with salt %.20q: the hash is not that of their canonical CBOR", n, extra)
			}
		}
	}
}

func TestRootHash(t *testing.T) {
	const text = "vllm-none-hash"
	if got := sha256.Sum256(append([]byte{0x60 | byte(len(text))}, text...)); RootHash != got {
		t.Errorf("RootHash is %x, want %x", RootHash[:], got[:])
	}
}

func TestChainOfNoBlocks(t *testing.T) {
	h := new(Hasher)
	for _, tt := range []struct{ tokens, block int }{{0, 4}, {3, 4}, {10, 0}, {10, -1}} {
		if c := h.Chain(make([]engine.TokenID, tt.tokens), tt.block, ""); c != nil {
			t.Errorf("%d tokens in blocks of %d: %d hashes, want none", tt.tokens, tt.block, len(c))
		}
	}
}

func BenchmarkChain98k(b *testing.B) {
	tokens := make([]engine.TokenID, 98304)
	for i := range tokens {
		tokens[i] = uint32(i*7919) % 151936
	}
	for _, size := range []int{16, 256} {
		b.Run(fmt.Sprintf("block=%d", size), func(b *testing.B) {
			h := new(Hasher)
			for b.Loop() {
				h.Chain(tokens, size, "")
			}
		})
	}
}
