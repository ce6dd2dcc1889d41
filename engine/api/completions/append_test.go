package completions

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/api"
)

// TestAppendReadsBack holds the hand encoders to encoding/json's reading of them, on random answers.
func TestAppendReadsBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		want := randomCompletion(r)
		var got Completion
		if err := json.Unmarshal(want.AppendJSON(nil, nil), &got); err != nil {
			t.Fatalf("%v in %s", err, want.AppendJSON(nil, nil))
		}
		if !reflect.DeepEqual(*want, got) {
			t.Fatalf("got %+v, want %+v", got, *want)
		}
		chat := randomChat(r)
		var gotChat Chat
		if err := json.Unmarshal(chat.AppendJSON(nil, nil), &gotChat); err != nil {
			t.Fatalf("%v in %s", err, chat.AppendJSON(nil, nil))
		}
		if !reflect.DeepEqual(*chat, gotChat) {
			t.Fatalf("got %+v, want %+v", gotChat, *chat)
		}
	}
}

func randomText(r *rand.Rand) string {
	words := []string{"a", "\"", "\\", "\n\x00\x1f", "é", "日本", "😀", "</script>", " ", "yes"}
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(words[r.IntN(len(words))])
	}
	return b.String()
}

func randomUsage(r *rand.Rand) *api.Usage {
	switch r.IntN(3) {
	case 0:
		return nil
	case 1:
		return &api.Usage{PromptTokens: r.IntN(9), TotalTokens: r.IntN(9), CompletionTokens: r.IntN(9)}
	}
	return &api.Usage{PromptTokens: 5, TotalTokens: 6, CompletionTokens: 1, Details: &api.PromptTokensDetails{CachedTokens: r.IntN(9)}}
}

func randomStop(r *rand.Rand) StopReason {
	id := r.Uint32()
	return [...]StopReason{{}, {Text: "\n\n"}, {Token: &id}}[r.IntN(3)]
}

func randomCompletion(r *rand.Rand) *Completion {
	c := &Completion{ID: "cmpl-1", Object: "text_completion", Created: r.Int64N(1e9), Model: randomText(r), Choices: api.List[CompletionChoice]{Items: []CompletionChoice{}}, Usage: randomUsage(r)}
	for i := range r.IntN(3) {
		choice := CompletionChoice{Index: i, Text: randomText(r), StopReason: randomStop(r)}
		if r.IntN(2) == 0 {
			logprob := -r.Float32() * 20
			choice.FinishReason = "stop"
			choice.TokenIDs = []uint32{r.Uint32(), 0}
			choice.Logprobs = &CompletionLogprobs{
				TextOffset: []int{0, 1}, TokenLogprobs: []*float32{nil, &logprob}, Tokens: []string{randomText(r), "b"},
				TopLogprobs: api.List[TokenDict]{Items: []TokenDict{nil, {{randomText(r), logprob}, {"zz", -r.Float32()}}}},
			}
		}
		c.Choices.Items = append(c.Choices.Items, choice)
	}
	return c
}

func randomChat(r *rand.Rand) *Chat {
	c := &Chat{ID: "chatcmpl-1", Object: "chat.completion", Model: "m", Choices: api.List[ChatChoice]{Items: []ChatChoice{}}, Usage: randomUsage(r)}
	for i := range r.IntN(3) {
		choice := ChatChoice{Index: i, StopReason: randomStop(r)}
		message := &ChatMessage{Role: "assistant", Content: randomText(r)}
		if r.IntN(2) == 0 {
			choice.Message = message
		} else {
			choice.Delta = message
		}
		if r.IntN(2) == 0 {
			token := TokenLogprob{Token: randomText(r), Logprob: -r.Float32(), Bytes: []int{r.IntN(256)}}
			choice.Logprobs = &ChatLogprobs{Content: api.List[ChatToken]{Items: []ChatToken{{TokenLogprob: token, Top: []TokenLogprob{token, {Token: "x", Logprob: -3}}}}}}
		}
		c.Choices.Items = append(c.Choices.Items, choice)
	}
	return c
}

// TestPieces: an answer in pieces is the answer in one, no piece is much longer than it should be, and
// nothing is made for a client that has left.
func TestPieces(t *testing.T) {
	const choices, tokens = 5, 20000
	made := 0
	answer := &Completion{ID: "cmpl-1", Choices: api.Made(choices, func(i int) CompletionChoice {
		return CompletionChoice{Index: i, Logprobs: &CompletionLogprobs{
			TextOffset: make([]int, tokens), TokenLogprobs: make([]*float32, tokens), Tokens: make([]string, tokens),
			TopLogprobs: api.Made(tokens, func(j int) TokenDict {
				made++
				return TokenDict{{Token: strings.Repeat("x", j%50), Logprob: -1}}
			}),
		}}
	})}
	whole := answer.AppendJSON(nil, nil)
	if !json.Valid(whole) || made != choices*tokens {
		t.Fatalf("not valid, or %d elements made", made)
	}
	var joined []byte
	longest := 0
	rest := answer.AppendJSON(nil, func(b []byte) ([]byte, bool) {
		longest = max(longest, len(b))
		joined = append(joined, b...)
		return b[:0], true
	})
	if joined = append(joined, rest...); !bytes.Equal(joined, whole) || longest > api.PieceBytes+1000 {
		t.Errorf("%d bytes in pieces of up to %d, want %d in pieces of %d", len(joined), longest, len(whole), api.PieceBytes)
	}
	made = 0
	answer.AppendJSON(nil, func(b []byte) ([]byte, bool) { return b[:0], false })
	if made > choices*tokens/10 {
		t.Errorf("%d elements are made for nobody", made)
	}
}

func TestAppendLogprob(t *testing.T) {
	for _, v := range []float32{0, -0.1, -1e-7, -20.5, math.SmallestNonzeroFloat32, -9998.5} {
		var back float32
		if err := json.Unmarshal(appendLogprob(nil, v), &back); err != nil || back != v {
			t.Errorf("%g reads back as %g: %v", v, back, err)
		}
	}
	for _, v := range []float32{float32(math.Inf(-1)), float32(math.NaN()), -1e9} {
		if got := string(appendLogprob(nil, v)); got != "-9999.0" {
			t.Errorf("%g is written as %s", v, got)
		}
	}
}

func TestAppendPromptLogprobs(t *testing.T) {
	c := CompletionChoice{PromptLogprobs: api.List[PromptTokens]{Items: []PromptTokens{nil, {{ID: 7, Logprob: -1.5, Rank: 1, Decoded: "a"}, {ID: 9, Logprob: -2, Rank: 40, Decoded: "\""}}}}}
	want := `"prompt_logprobs":[null,{"7":{"logprob":-1.5,"rank":1,"decoded_token":"a"},"9":{"logprob":-2,"rank":40,"decoded_token":"\""}}]`
	if got := string(c.appendJSON(nil, nil)); !strings.Contains(got, want) || !json.Valid([]byte(got)) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}

func BenchmarkAppendCompletion(b *testing.B) {
	logprob := float32(-0.25)
	c := Completion{ID: "cmpl-0123456789abcdef", Object: "text_completion", Model: "demo", Usage: &api.Usage{PromptTokens: 32, TotalTokens: 33, CompletionTokens: 1},
		Choices: api.List[CompletionChoice]{Items: []CompletionChoice{{Text: " Yes", FinishReason: "length", Logprobs: &CompletionLogprobs{
			TextOffset: []int{0}, TokenLogprobs: []*float32{&logprob}, Tokens: []string{" Yes"}, TopLogprobs: api.List[TokenDict]{Items: []TokenDict{{{" Yes", -0.25}, {" No", -1.5}}}}}}}}}
	buffer := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buffer = c.AppendJSON(buffer[:0], nil)
	}
}
