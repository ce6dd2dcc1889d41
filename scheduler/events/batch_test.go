package events

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// TestEventBytes holds the encoding to bytes put together by hand from msgpack's specification.
func TestEventBytes(t *testing.T) {
	a, b := kvcache.Hash{0: 0xaa, 31: 1}, kvcache.Hash{0: 0xbb, 31: 2}
	hashA := "cf" + strings.Repeat("00", 7) + "01"
	hashB := "cf" + strings.Repeat("00", 7) + "02"
	stored := "ab" + hex.EncodeToString([]byte("BlockStored"))
	removed := "ac" + hex.EncodeToString([]byte("BlockRemoved"))
	cleared := "91" + "b0" + hex.EncodeToString([]byte("AllBlocksCleared"))
	cpu, gpu, salt := "a3"+hex.EncodeToString([]byte("CPU")), "a3"+hex.EncodeToString([]byte("GPU")), "a2"+hex.EncodeToString([]byte("s1"))
	batch := func(n, rank string, events ...string) string {
		return "93" + "cb3ff8000000000000" + n + strings.Join(events, "") + rank
	}
	for _, tt := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"first blocks", []Event{{
			Change: Stored, Medium: "CPU", Hashes: []kvcache.Hash{a, b}, Parent: kvcache.RootHash,
			Tokens: []engine.TokenID{1, 300, 70000, 4}, BlockTokens: 2,
		}}, batch("91", "00", "98"+stored+"92"+hashA+hashB+"c0"+"94"+"01"+"cd012c"+"ce00011170"+"04"+"02"+"c0"+cpu+"c0")},
		{"later block", []Event{{
			Change: Stored, Rank: 3, Medium: "GPU", Hashes: []kvcache.Hash{b}, Parent: a, Tokens: []engine.TokenID{5}, BlockTokens: 1,
		}}, batch("91", "03", "98"+stored+"91"+hashB+hashA+"91"+"05"+"01"+"c0"+gpu+"c0")},
		{"salted", []Event{{
			Change: Stored, Medium: "CPU", Hashes: []kvcache.Hash{a, b}, Parent: kvcache.RootHash,
			Tokens: []engine.TokenID{1, 2}, BlockTokens: 1, Salt: "s1",
		}}, batch("91", "00", "99"+stored+"92"+hashA+hashB+"c0"+"92"+"01"+"02"+"01"+"c0"+cpu+"c0"+"92"+"91"+salt+"c0")},
		{"removed and cleared", []Event{
			{Change: Removed, Rank: 1, Medium: "CPU", Hashes: []kvcache.Hash{b, a}}, {Change: Cleared, Rank: 1},
		}, batch("92", "01", "93"+removed+"92"+hashB+hashA+cpu, cleared)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(Encode(1.5, tt.events)); got != tt.want {
				t.Errorf("encoded as\n%s, want\n%s", got, tt.want)
			}
		})
	}
}
