package decision

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
)

// accept takes what a pass has found for the question, or for one of its labels where these are scored whole.
func (q *question) accept(out *engine.TokenOutput, label int) {
	if q.mass == nil {
		q.mass = make([]float64, len(q.labels))
	}
	if out.Answer != nil {
		for i, l := range out.Answer.Labels {
			q.mass[i] = math.Exp(float64(l.Logprob))
		}
		q.top = math.Exp(float64(out.Answer.Top[0].Logprob))
		return
	}
	n := len(q.labels[label])
	scores, sum := out.Prompt[len(out.Prompt)-n:], 0.0
	for _, s := range scores {
		sum += float64(s.Logprob)
	}
	q.mass[label] = math.Exp(sum)
	q.top = math.Exp(float64(scores[0].Top[0].Logprob))
}

// conclude makes probabilities of masses. Where all vanish, no option is likelier than another.
func (q *question) conclude() {
	f := &q.found
	f.Probabilities, f.Sequences = make([]float64, len(q.mass)), q.hasLongLabels()
	best := 0.0
	for _, m := range q.mass {
		f.Mass, best = f.Mass+m, max(best, m)
	}
	for i, m := range q.mass {
		if f.Probabilities[i] = 1 / float64(len(q.mass)); f.Mass > 0 {
			f.Probabilities[i] = m / f.Mass
		}
	}
	f.Mass, f.Likeliest = min(f.Mass, 1), best > 0 && best >= q.top*(1-1e-6)
}
