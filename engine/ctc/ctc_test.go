package ctc

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// collapse is CTC's rule word by word: runs become one, then blanks go.
func collapse(a *Alphabet, best []int64, values []float32) (text string, score float64) {
	var kept []int
	for i := range best {
		if i > 0 && best[i] == best[i-1] {
			continue
		}
		kept = append(kept, i)
	}
	n := 0
	for _, i := range kept {
		if int(best[i]) != a.Blank {
			text, score, n = text+a.Symbols[best[i]], score+float64(values[i]), n+1
		}
	}
	return text, score / float64(max(1, n))
}

func TestDecodeCollapsesRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a := &Alphabet{Symbols: []string{"a", "", "字", " "}, Blank: 1}
	for range 2000 {
		best, values := make([]int64, random.IntN(12)), make([]float32, 12)
		for i := range best {
			best[i], values[i] = random.Int64N(4), random.Float32()
		}
		text, score, err := a.Decode(best, values)
		if want, mean := collapse(a, best, values); err != nil || text != want || math.Abs(score-mean) > 1e-6 {
			t.Fatalf("%v: got %q, %v, %v, want %q, %v", best, text, score, err, want, mean)
		}
	}
}

func TestSymbolsBeyondTheAlphabetAreRefused(t *testing.T) {
	a := &Alphabet{Symbols: []string{"", "a"}}
	for _, at := range []int64{-1, 2, math.MaxInt64} {
		if _, _, err := a.Decode([]int64{1, at}, []float32{1, 1}); err == nil || !strings.Contains(err.Error(), "its alphabet has 2") {
			t.Errorf("symbol %d: %v", at, err)
		}
	}
}
