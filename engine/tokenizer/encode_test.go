//go:build cgo

package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/daulet/tokenizers"

	"github.com/prefillonly/prefillonly/engine"
)

// shapes are the small tokenizers of tools/golden/golden_tokenizer.py, one of each kind that the
// supported models have.
var shapes = []string{"gpt2", "qwen2", "llama3", "tekken", "llama2", "mistral"}

func openShape(t testing.TB, name string) *Tokenizer {
	t.Helper()
	return open(t, filepath.Join("testdata/tokenizers", name))
}

func TestGoldenIDs(t *testing.T) {
	for _, name := range shapes {
		t.Run(name, func(t *testing.T) {
			var golden struct {
				Encode []struct {
					Text      string
					IDs, Bare []engine.TokenID
				}
				Decode []struct {
					IDs           []engine.TokenID
					Text, Skipped string
				}
			}
			text, err := os.ReadFile(filepath.Join("testdata/tokenizers", name, "golden.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &golden); err != nil {
				t.Fatal(err)
			}
			tok := openShape(t, name)
			for _, g := range golden.Encode {
				if got := mustEncode(t, tok, g.Text, true); !slices.Equal(got, g.IDs) {
					t.Errorf("Encode(%q, true) = %v, want %v", g.Text, got, g.IDs)
				}
				if got := mustEncode(t, tok, g.Text, false); !slices.Equal(got, g.Bare) {
					t.Errorf("Encode(%q, false) = %v, want %v", g.Text, got, g.Bare)
				}
			}
			for _, g := range golden.Decode {
				if got := mustDecode(t, tok, g.IDs, false); got != g.Text {
					t.Errorf("Decode(%v, false) = %q, want %q", g.IDs, got, g.Text)
				}
				if got := mustDecode(t, tok, g.IDs, true); got != g.Skipped {
					t.Errorf("Decode(%v, true) = %q, want %q", g.IDs, got, g.Skipped)
				}
			}
		})
	}
}

// TestSameAsModule compares with the Go interface of github.com/daulet/tokenizers on real
// tokenizers; the test also links the module against our library.
func TestSameAsModule(t *testing.T) {
	for _, name := range []string{"Meta-Llama-3-8B-Instruct.json", "bert-base-uncased.json", "cohere-tokenizer.json"} {
		module, err := tokenizers.FromFile(moduleTokenizer(t, name))
		if err != nil {
			t.Fatal(err)
		}
		tok := openModule(t, name)
		rng := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			// The module takes NUL for the end of a text.
			text := strings.ReplaceAll(randomText(rng, 100), "\x00", "")
			want, _ := module.Encode(text, true)
			if got := mustEncode(t, tok, text, true); !slices.Equal(got, want) {
				t.Fatalf("%s: Encode(%q) = %v, the module's %v", name, text, got, want)
			}
			if got, want := mustDecode(t, tok, want, true), module.Decode(want, true); got != want {
				t.Fatalf("%s: Decode = %q, the module's %q", name, got, want)
			}
		}
		if err := module.Close(); err != nil {
			t.Error(err)
		}
	}
}

// fragments are put together to texts with every kind of boundary.
var fragments = []string{
	" ", " ", " ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", ".", ",", "!?", "'s", "'", "\"", "-", "/", "\u3002", "\u4e2d\u6587", "\u65e5",
	"e\u0301", "\u0301", "\u3099", "\u212b", "\U0001F980", "\u200d", "the", "user", "likes", "Post", "A", "x", "I", "7", "42", "2025", "don't", "WE'LL",
	"<|end|>", "<s>", "</s>", "<|eot_id|>", "<|", "|>", "\u2581", "\u2581\u2581", "<0x41>", "\x00", "\ufffd", "def f(x):", "\u0660\u0661",
}

func randomText(rng *rand.Rand, pieces int) string {
	var b strings.Builder
	for range rng.IntN(pieces) {
		if rng.IntN(20) == 0 {
			b.WriteRune(rune(rng.IntN(0xD800)))
		}
		b.WriteString(fragments[rng.IntN(len(fragments))])
	}
	return b.String()
}

// splittable is a small tokenizer of each kind whose texts are split, and BERT's.
func splittable(t *testing.T) map[string]*Tokenizer {
	toks := map[string]*Tokenizer{"BERT": openModule(t, "bert-base-uncased.json")}
	for _, name := range shapes {
		toks[name] = openShape(t, name)
	}
	return toks
}

// TestChunksEqualWhole is the safety of the prefix cache: texts encoded in chunks, cold and warm,
// have the ids of the whole text.
func TestChunksEqualWhole(t *testing.T) {
	toks := splittable(t)
	toks["Llama 3 8B"], toks["Cohere"] = openLlama3(t), openModule(t, "cohere-tokenizer.json")
	for name, tok := range toks {
		t.Run(name, func(t *testing.T) {
			if tok.chunks == nil {
				t.Fatal("texts are not split")
			}
			rng := rand.New(rand.NewPCG(3, 4))
			cuts := 0
			prefix := randomText(rng, 3000)
			for range 12 {
				text := prefix[:rng.IntN(len(prefix)+1)] + randomText(rng, 1500)
				want := bareIDs(t, tok, text)
				for _, state := range []string{"cold", "warm"} {
					for kind, cache := range map[string]*chunkCache{"chunks": tok.chunks, "words": tok.words} {
						if got := encodeBy(t, cache, text, encoding{t: tok}.encodeBare); !slices.Equal(got, want) {
							at := 0
							for got[at] == want[at] {
								at++
							}
							t.Fatalf("%s, %s: differs at token %d, after %q", kind, state, at, mustDecode(t, tok, want[max(0, at-5):at+1], false))
						}
					}
				}
				if tok.chunks.splitter.chunkLen(text) < len(text) {
					cuts++
				}
				whole, err := tok.model.Encode(text, true, nil)
				if err != nil || !slices.Equal(mustEncode(t, tok, text, true), whole) {
					t.Fatalf("with special tokens: not the ids of the whole text (%v)", err)
				}
			}
			if cuts < 9 {
				t.Errorf("only %d of 12 texts were split", cuts)
			}
		})
	}
}

// TestEverySafeCut tries each place where a cut may be, not only those that are chosen.
func TestEverySafeCut(t *testing.T) {
	for name, tok := range splittable(t) {
		t.Run(name, func(t *testing.T) {
			s := tok.chunks.splitter
			rng := rand.New(rand.NewPCG(5, 6))
			tried := 0
			for range 600 {
				text := randomText(rng, 40)
				want := bareIDs(t, tok, text)
				for i := 1; i < len(text); i++ {
					if !s.isSafeCut(text, i) {
						continue
					}
					tried++
					tail := text[i:]
					if s.sentencePiece {
						tail = tail[1:]
					}
					if got := append(bareIDs(t, tok, text[:i]), bareIDs(t, tok, tail)...); !slices.Equal(got, want) {
						t.Fatalf("%q | %q: %v, whole %v", text[:i], text[i:], got, want)
					}
				}
			}
			if tried < 150 {
				t.Errorf("only %d cuts tried", tried)
			}
		})
	}
}

// TestUnsafeTokenizersAreNotSplit changes one thing at a time on which the safety of cuts rests.
func TestUnsafeTokenizersAreNotSplit(t *testing.T) {
	for _, c := range []struct{ shape, from, to string }{
		{"llama3", `"lstrip":false`, `"lstrip":true`},
		{"llama3", `"content":"<|end|>"`, `"content":"<| end|>"`},
		{"llama3", `\\p{N}{1,3}`, `\\p{N}{1,4}`},
		{"llama3", `"use_regex":false`, `"use_regex":true`},
		{"gpt2", `"add_prefix_space":false`, `"add_prefix_space":true`},
		{"qwen2", `"type":"NFC"`, `"type":"NFKC"`},
		{"mistral", `"split":false`, `"split":true`},
		{"llama2", `"prepend":"▁"`, `"prepend":"_"`},
		{"llama2", `"vocab":{`, `"vocab":{"a▁b":5000,`},
	} {
		text, err := os.ReadFile(filepath.Join("testdata/tokenizers", c.shape, "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.from) {
			t.Fatalf("%s has no %s", c.shape, c.from)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(strings.ReplaceAll(string(text), c.from, c.to)), 0o644); err != nil {
			t.Fatal(err)
		}
		if tok := open(t, dir); tok.chunks != nil {
			t.Errorf("%s with %s is split", c.shape, c.to)
		}
	}
}

// TestWordsAreRemembered counts what reaches the library for a text of known words, in another order.
func TestWordsAreRemembered(t *testing.T) {
	for _, name := range shapes {
		tok := openShape(t, name)
		rng := rand.New(rand.NewPCG(16, 17))
		cache := newWordCache(tok.words.splitter, wordCacheBytes)
		unseen := strings.Repeat("x", maxWord+1)
		plain := func(size int) string { // SentencePiece's words hold the punctuation before the next space
			return strings.NewReplacer(".", "", ",", "", ";", "").Replace(prose(rng, size)) + " " + unseen
		}
		encodeBy(t, cache, plain(4000), encoding{t: tok}.encodeBare)
		var asked []string
		encodeBy(t, cache, "a "+plain(1000), func(text string) ([]engine.TokenID, error) {
			asked = append(asked, text)
			return encoding{t: tok}.encodeBare(text)
		})
		// The first word, which has no space before it; the one that the text's length cut; the too long one.
		if len(asked) == 0 || len(asked) > 3 || !strings.HasSuffix(asked[len(asked)-1], unseen) {
			t.Errorf("%s: %q were encoded again", name, asked)
		}
	}
}

func TestChunkCacheIsBounded(t *testing.T) {
	const limit = 1 << 18
	tok := openShape(t, "llama3")
	cache := newChunkCache(tok.chunks.splitter, limit)
	rng := rand.New(rand.NewPCG(7, 8))
	kept := randomText(rng, 2000)
	for range 30 {
		encodeBy(t, cache, kept, encoding{t: tok}.encodeBare)
		encodeBy(t, cache, randomText(rng, 10000), encoding{t: tok}.encodeBare)
	}
	size := 0
	for _, m := range []map[chunk][]engine.TokenID{cache.young, cache.old} {
		for key, ids := range m {
			size += len(key.text) + 4*len(ids) + chunkOverhead
		}
	}
	if size > limit || size < limit/4 {
		t.Errorf("%d bytes kept with a limit of %d", size, limit)
	}
	asked := 0
	encodeBy(t, cache, kept, func(text string) ([]engine.TokenID, error) {
		asked += len(text)
		return encoding{t: tok}.encodeBare(text)
	})
	if asked > looseChunk+minChunk {
		t.Errorf("%d of %d bytes of a text in constant use were encoded again", asked, len(kept))
	}
}

// TestTextsAreTheirSalts: a long text that came under one salt is encoded anew under another.
func TestTextsAreTheirSalts(t *testing.T) {
	tok := openShape(t, "llama3")
	text := randomText(rand.New(rand.NewPCG(7, 9)), 20000)
	encoded := func(salt string) (bytes int) {
		_, err := tok.chunks.encodeText(nil, salt, text, func(text string) ([]engine.TokenID, error) {
			bytes += len(text)
			return encoding{t: tok}.encodeBare(text)
		})
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	if first, other, again := encoded("one"), encoded("another"), encoded("one"); other != first || again > first/4 {
		t.Errorf("%d bytes were encoded at first, %d under another salt, %d again", first, other, again)
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := openShape(t, "qwen2")
	rng := rand.New(rand.NewPCG(9, 10))
	profile := randomText(rng, 4000)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(i), 11))
			for range 20 {
				text := profile + randomText(rng, 100)
				ids := mustEncode(t, tok, text, false)
				if !slices.Equal(ids, bareIDs(t, tok, text)) {
					t.Errorf("ids of %q differ", text)
				}
				if again := mustEncode(t, tok, mustDecode(t, tok, ids, false), false); mustDecode(t, tok, again, false) != mustDecode(t, tok, ids, false) {
					t.Errorf("%q does not come back", text)
				}
			}
		}()
	}
	wg.Wait()
}

// FuzzRoundTrip holds that byte-level ids decode to the text they came from, and that any ids decode
// to the bytes of their tokens.
func FuzzRoundTrip(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 13))
	for range 20 {
		f.Add(randomText(rng, 30), []byte{0, 1, 2, 255, 255, 255, 255, 7})
	}
	tok := openShape(f, "llama3")
	f.Fuzz(func(t *testing.T, text string, raw []byte) {
		ids := mustEncode(t, tok, text, true)
		if utf8.ValidString(text) && mustDecode(t, tok, ids[1:], false) != text {
			t.Fatalf("%q became %q", text, mustDecode(t, tok, ids[1:], false))
		}
		for ; len(raw) >= 4; raw = raw[4:] {
			id := engine.TokenID(raw[0]) | engine.TokenID(raw[1])<<8 | engine.TokenID(raw[2])<<16 | engine.TokenID(raw[3])<<24
			ids = append(ids, id%engine.TokenID(tok.VocabSize()+10))
		}
		var bytes []byte
		for _, id := range ids {
			bytes = append(bytes, tok.TokenBytes(id)...)
		}
		if got := mustDecode(t, tok, ids, false); utf8.Valid(bytes) && got != string(bytes) {
			t.Fatalf("Decode(%v) = %q, its tokens have %q", ids, got, bytes)
		}
	})
}

// BenchmarkEncode encodes a user's 60 kB and a post of 600 bytes: plainly, from known words, and with
// the 60 kB seen before; and the post alone.
func BenchmarkEncode(b *testing.B) {
	tok := openLlama3(b)
	rng := rand.New(rand.NewPCG(14, 15))
	profile, post := prose(rng, 60_000), prose(rng, 600)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			bareIDs(b, tok, profile+post)
		}
	})
	b.Run("known words", func(b *testing.B) {
		for b.Loop() {
			wordIDs(b, tok, profile+post)
		}
	})
	b.Run("new words", func(b *testing.B) {
		for b.Loop() {
			tok.words = newWordCache(tok.words.splitter, wordCacheBytes)
			wordIDs(b, tok, post)
		}
	})
	b.Run("post, plain", func(b *testing.B) {
		for b.Loop() {
			bareIDs(b, tok, post)
		}
	})
	b.Run("post, known words", func(b *testing.B) {
		for b.Loop() {
			mustEncode(b, tok, post, false)
		}
	})
	b.Run("known prefix", func(b *testing.B) {
		mustEncode(b, tok, profile, false)
		for b.Loop() {
			mustEncode(b, tok, profile+prose(rng, 600), false)
		}
	})
}

// prose makes text of so many bytes from words that never repeat in order.
func prose(rng *rand.Rand, size int) string {
	words := strings.Fields("the user read a long story about sailing and compilers, then liked 14 posts; recipes for soup, notes on chess openings and Kubernetes. However it's")
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:size]
}
