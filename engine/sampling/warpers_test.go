package sampling

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// warped is one case of tools/golden/golden_sampling.py.
type warped struct {
	Logits        []float32
	Generated     []engine.TokenID
	Temperature   float32
	MinP          float32            `json:"min_p"`
	TopK          int                `json:"top_k"`
	TopP          float32            `json:"top_p"`
	MinTokens     int                `json:"min_tokens"`
	Stops         []engine.TokenID   `json:"stop_token_ids"`
	BadWords      [][]engine.TokenID `json:"bad_words"`
	Probabilities []float64
}

func (w *warped) ask() *engine.Ask {
	ask := &engine.Ask{Temperature: w.Temperature, MinP: w.MinP, TopK: w.TopK, TopP: w.TopP, Top: 5}
	for _, word := range w.BadWords {
		ask.Bans = append(ask.Bans, engine.Ban{Tokens: word})
	}
	if w.MinTokens > 0 {
		for _, id := range w.Stops {
			ask.Bans = append(ask.Bans, engine.Ban{Tokens: []engine.TokenID{id}, Before: w.MinTokens})
		}
	}
	return ask
}

// chances are the probabilities with which sample returns each column.
func chances(t *testing.T, w *warped) []float64 {
	t.Helper()
	ask := w.ask()
	d, err := newDistribution(slices.Clone(w.Logits), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.applyBans(ask.Bans, len(w.Generated), w.Generated); err != nil {
		t.Fatal(err)
	}
	p, columns := make([]float64, len(w.Logits)), d.drawableColumns(ask)
	for _, c := range columns {
		p[c] = d.columnWeight(c, ask.Temperature) / d.totalWeight(columns, ask.Temperature)
	}
	return p
}

// TestWarpersEqualTransformers holds what may be drawn, and how often, to transformers' processors.
func TestWarpersEqualTransformers(t *testing.T) {
	text, err := os.ReadFile("testdata/warpers.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []warped
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		w := &cases[i]
		for c, p := range chances(t, w) {
			if want := w.Probabilities[c]; math.Abs(p-want) > 1e-5 || (p == 0) != (want == 0) {
				t.Errorf("case %d, %+v: token %d is drawn with %g, want %g", i, w.ask(), c, p, want)
			}
		}
		checkGreedy(t, i, w)
	}
	if len(cases) < 100 {
		t.Errorf("%d cases", len(cases))
	}
}

// checkGreedy holds that temperature 0 takes the likeliest token that is not banned, and that no ban
// and no warper changes a logprob.
func checkGreedy(t *testing.T, i int, w *warped) {
	ask := w.ask()
	plain, err := SampleToken(slices.Clone(w.Logits), nil, &engine.Ask{Top: 5}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := SampleToken(slices.Clone(w.Logits), nil, ask, len(w.Generated), w.Generated)
	if err != nil {
		t.Fatal(err)
	}
	ask.Temperature = 0
	greedy, err := SampleToken(slices.Clone(w.Logits), nil, ask, len(w.Generated), w.Generated)
	if err != nil {
		t.Fatal(err)
	}
	if best := slices.Max(w.Probabilities); w.Probabilities[greedy.Token] != best {
		t.Errorf("case %d: the greedy token %d has %g, the likeliest %g", i, greedy.Token, w.Probabilities[greedy.Token], best)
	}
	if w.Probabilities[drawn.Token] == 0 {
		t.Errorf("case %d: token %d was drawn, which cannot be", i, drawn.Token)
	}
	d, err := newDistribution(w.Logits, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*engine.Answer{greedy, drawn} {
		if !slices.Equal(a.Top, plain.Top) || a.Logprob != d.logprob(int(a.Token)) {
			t.Errorf("case %d: logprobs %g %v, without bans and warpers %g %v", i, a.Logprob, a.Top, d.logprob(int(a.Token)), plain.Top)
		}
	}
}

// TestBansAmongAllowed holds that a ban counts within the allowed set, and that a set banned whole is
// refused rather than answered.
func TestBansAmongAllowed(t *testing.T) {
	ask := engine.Ask{Top: 2, Bans: []engine.Ban{{Tokens: []engine.TokenID{9}, Before: 2}, {Tokens: []engine.TokenID{9, 4}}, {Tokens: []engine.TokenID{7}}}}
	for _, c := range []struct {
		generated []engine.TokenID
		want      engine.TokenID
	}{{nil, 4}, {[]engine.TokenID{9}, 0}, {[]engine.TokenID{4, 4}, 9}, {[]engine.TokenID{4, 9}, 9}} {
		got, err := SampleToken([]float32{1, 2}, []engine.TokenID{4, 9}, &ask, len(c.generated), c.generated)
		if c.want == 0 {
			if err == nil || err.Code != engine.CodeBadTokens {
				t.Errorf("after %v: %+v, error %v; every token is banned", c.generated, got, err)
			}
			continue
		}
		if err != nil || got.Token != c.want || got.Top[0].ID != 9 {
			t.Errorf("after %v: %+v, error %v; want token %d, and 9 as the likeliest", c.generated, got, err, c.want)
		}
	}
}

func TestScoreRanks(t *testing.T) {
	logits := []float32{1, 3, 2, 3, 0}
	for id, want := range []uint32{4, 2, 3, 2, 5} {
		got, err := Score(logits, engine.TokenID(id), 1)
		if err != nil || got.Rank != want || len(got.Top) != 1 {
			t.Errorf("token %d: %+v, error %v; want rank %d", id, got, err, want)
		}
	}
}
