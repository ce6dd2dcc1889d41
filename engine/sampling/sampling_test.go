package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// softmax is the dumb oracle: probabilities in float64, in id order.
func softmax(logits []float32, temperature float64) []float64 {
	p, total := make([]float64, len(logits)), 0.0
	peak := float64(slices.Max(logits))
	for i, l := range logits {
		p[i] = math.Exp((float64(l) - peak) / temperature)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
	}
	return p
}

// ranked sorts ids by probability, ties by id.
func ranked(logits []float32) []engine.TokenID {
	ids := make([]engine.TokenID, len(logits))
	for i := range ids {
		ids[i] = engine.TokenID(i)
	}
	slices.SortStableFunc(ids, func(a, b engine.TokenID) int {
		if logits[a] > logits[b] {
			return -1
		}
		if logits[a] < logits[b] {
			return 1
		}
		return 0
	})
	return ids
}

// TestChooseEqualsOracle compares with a sort and a plain softmax, over random logits with ties.
func TestChooseEqualsOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		logits := make([]float32, 1+random.IntN(60))
		for i := range logits {
			logits[i] = float32(random.IntN(24)) - 70*float32(random.IntN(2))
		}
		ask := engine.Ask{Top: random.IntN(engine.MaxTop + 1)}
		for range random.IntN(3) {
			ask.Labels = append(ask.Labels, engine.TokenID(random.IntN(len(logits))))
			ask.Bias = append(ask.Bias, engine.TokenBias{ID: engine.TokenID(random.IntN(len(logits))), Bias: float32(random.IntN(9)) - 4})
		}
		expected := slices.Clone(logits)
		for _, b := range ask.Bias {
			expected[b.ID] += b.Bias
		}
		p, order := softmax(expected, 1), ranked(expected)

		got, err := SampleToken(logits, nil, &ask, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Token != order[0] || len(got.Top) != min(ask.Top, len(order)) {
			t.Fatalf("token %d with %d top logprobs, want %d with %d", got.Token, len(got.Top), order[0], ask.Top)
		}
		for i, e := range got.Top {
			if e.ID != order[i] {
				t.Fatalf("rank %d is token %d, want %d", i, e.ID, order[i])
			}
		}
		for _, e := range append(got.Labels, got.Top...) {
			if want := math.Log(p[e.ID]); math.Abs(float64(e.Logprob)-want) > 1e-5 {
				t.Fatalf("logprob of %d is %g, want %g", e.ID, e.Logprob, want)
			}
		}
		for i, e := range got.Labels {
			if e.ID != ask.Labels[i] {
				t.Fatalf("label %d is token %d, want %d", i, e.ID, ask.Labels[i])
			}
		}
	}
}

func TestChooseAmongAllowed(t *testing.T) {
	ask := engine.Ask{Top: 3, Labels: []engine.TokenID{7, 4}, Bias: []engine.TokenBias{{ID: 4, Bias: 1}, {ID: 5, Bias: 100}}}
	got, err := SampleToken([]float32{1, 1}, []engine.TokenID{4, 9}, &ask, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	won, lost := -math.Log(1+math.Exp(-1)), -math.Log(1+math.E)
	near := func(e engine.TokenLogprob, id engine.TokenID, logprob float64) bool {
		return e.ID == id && math.Abs(float64(e.Logprob)-logprob) < 1e-6
	}
	if got.Token != 4 || math.Abs(float64(got.Logprob)-won) > 1e-6 || len(got.Top) != 2 || !near(got.Top[0], 4, won) || !near(got.Top[1], 9, lost) {
		t.Errorf("got %+v, want 4 with %g, then 9 with %g", got, won, lost)
	}
	outside := engine.TokenLogprob{ID: 7, Logprob: float32(math.Inf(-1))}
	if len(got.Labels) != 2 || got.Labels[0] != outside || !near(got.Labels[1], 4, won) {
		t.Errorf("labels %v, want %v and 4 with %g", got.Labels, outside, won)
	}
}

// TestChooseAmongMany holds that logits of the whole vocabulary and a set of any size give what those of the set's tokens
// alone do.
func TestChooseAmongMany(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		logits := make([]float32, 33+random.IntN(100))
		var ids []engine.TokenID
		share := 1 + random.IntN(10)
		for i := range logits {
			logits[i] = 8*random.Float32() - 4
			if random.IntN(10) < share {
				ids = append(ids, engine.TokenID(i))
			}
		}
		if len(ids) == 0 {
			continue
		}
		ask := engine.Ask{
			Top: 20, Labels: []engine.TokenID{0, ids[0]}, Allowed: engine.NewTokenSet(ids...), Bias: []engine.TokenBias{{ID: 3, Bias: 2}},
			Seed: random.Uint64(), Temperature: float32(random.IntN(2)), TopK: 3 * random.IntN(20), TopP: 0.9 * float32(random.IntN(2)), MinP: 0.05 * float32(random.IntN(2)),
		}
		var some []float32
		for _, id := range ids {
			some = append(some, logits[id])
		}
		want, err := SampleToken(some, ids, &ask, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SampleToken(logits, nil, &ask, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b engine.TokenLogprob) bool {
			return a.ID == b.ID && (a.Logprob == b.Logprob || math.Abs(float64(a.Logprob-b.Logprob)) < 1e-5)
		}
		if got.Token != want.Token || !slices.EqualFunc(got.Top, want.Top, near) || !slices.EqualFunc(got.Labels, want.Labels, near) {
			t.Fatalf("of all logits %+v\nof some %+v\nwith %+v", got, want, ask)
		}
	}
}

// TestSampleFollowsTheNucleus draws often and compares frequencies with the nucleus's probabilities.
func TestSampleFollowsTheNucleus(t *testing.T) {
	logits := []float32{0, 2, -1, 2, 1.5, -30, 0.5}
	const draws = 40000
	generated := make([]engine.TokenID, draws)
	for _, c := range []struct{ temperature, topP float32 }{{1, 0}, {0.5, 1}, {2, 0.7}, {1, 0.3}, {1, 0.95}, {0.05, 0.999}} {
		p := softmax(logits, float64(c.temperature))
		if c.topP > 0 && c.topP < 1 {
			held := 0.0
			for _, id := range ranked(logits) {
				if held >= float64(c.topP) {
					p[id] = 0
				}
				held += p[id]
			}
		}
		total := 0.0
		for _, v := range p {
			total += v
		}
		seen := make([]float64, len(logits))
		ask := engine.Ask{Temperature: c.temperature, TopP: c.topP, Seed: 11}
		for i := range draws {
			got, err := SampleToken(slices.Clone(logits), nil, &ask, i, generated[max(0, i-ask.Recalls()):i])
			if err != nil {
				t.Fatal(err)
			}
			seen[got.Token]++
		}
		for id, v := range p {
			v /= total
			deviation := math.Sqrt(v*(1-v)/draws) + 1e-9
			if off := math.Abs(seen[id]/draws - v); off > 5*deviation {
				t.Errorf("%+v: token %d drawn %.4f of the time, want %.4f", c, id, seen[id]/draws, v)
			}
		}
	}
}

// TestUniform checks that a draw is a function of seed and index, and that neighbours differ.
func TestUniform(t *testing.T) {
	seen, sum := map[float64]bool{}, 0.0
	for seed := range uint64(100) {
		for draw := range 100 {
			u := uniformDraw(seed, draw)
			if u != uniformDraw(seed, draw) || u < 0 || u >= 1 || seen[u] {
				t.Fatalf("uniform(%d, %d) = %g", seed, draw, u)
			}
			seen[u], sum = true, sum+u
		}
	}
	if mean := sum / 10000; math.Abs(mean-0.5) > 0.015 {
		t.Errorf("mean %g of 10,000 draws", mean)
	}
}

func TestLogitsThatAreNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := SampleToken([]float32{1, float32(bad), 2}, nil, &engine.Ask{}, 0, nil); err == nil || err.Code != engine.CodeInternal {
			t.Errorf("logits with %g: error %v", bad, err)
		}
	}
}

// TestExp compares with math.Exp over the whole range.
func TestExp(t *testing.T) {
	worst := 0.0
	for x := 0.0; x >= negligible; x -= 0.00037 {
		worst = max(worst, math.Abs(exp(x)/math.Exp(x)-1))
	}
	if worst > 3e-8 {
		t.Errorf("exp is off by up to %.3g of its value", worst)
	}
	if exp(0) != 1 || exp(-81) != 0 || exp(math.Inf(-1)) != 0 || !math.IsNaN(exp(math.NaN())) {
		t.Error("exp is wrong at 0, beyond its range or at NaN")
	}
}
