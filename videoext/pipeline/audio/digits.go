package audio

import (
	"cmp"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Of the network's output: probabilities of ten digits and of none at each step of 40 ms.
const (
	steps = 25
	none  = 10
	near  = 4 // steps that one digit takes at the least
	least = 0.05
)

// Digit is one that was heard.
type Digit struct {
	Digit int
	Step  int // at which it was likeliest, of 40 ms
	Score float32
}

// decodeDigits are the peaks of a network's output, the likeliest first: each takes away what is near it.
func decodeDigits(output []float32) (all []Digit) {
	var best [steps]Digit
	for s := range best {
		for d := range none {
			if p := output[d*steps+s]; p > best[s].Score {
				best[s] = Digit{d, s, p}
			}
		}
	}
	rest := slices.SortedStableFunc(slices.Values(best[:]), func(a, b Digit) int { return cmp.Compare(b.Score, a.Score) })
	for _, d := range rest {
		if d.Score >= least && !slices.ContainsFunc(all, func(o Digit) bool { return o.isNear(d) }) {
			all = append(all, d)
		}
	}
	return all
}

// isNear says that two are too near for two digits.
func (d Digit) isNear(o Digit) bool { return max(d.Step-o.Step, o.Step-d.Step) <= near }

// Accuracy implements pipeline.Pipeline: F1 of digits, of which two are the same if they are at the same time.
func (p *Pipeline) Accuracy(truth, got pipeline.Result) float64 {
	a, b := truth.([]Digit), got.([]Digit)
	if len(a)+len(b) == 0 {
		return 1
	}
	same, used := 0, make([]bool, len(b))
	for _, x := range a {
		for i, y := range b {
			if !used[i] && x.Digit == y.Digit && x.isNear(y) {
				used[i] = true
				same++
				break
			}
		}
	}
	return 2 * float64(same) / float64(len(a)+len(b))
}
