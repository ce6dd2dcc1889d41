package search

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/merging"
)

// attempt is ties being tried.
type attempt struct {
	ties      []merging.Tie
	target    float64
	originals []merging.Score
	models    []int           // that are trained: those for which its ties change something
	scores    []merging.Score // the last, by model
	judged    int             // of models, since they were trained last
	rate      float64         // that it began with, or half of it where that stalled
	decay     float64
	epochs    float64    // so far
	share     float64    // of an epoch, the last time
	lifts     []progress // by model
	best      float64    // of the worst model's share of its file's score
	halved    bool       // the rate, since the last lift
}

// progress is how far a model has come in an attempt.
type progress struct {
	low, best float64 // score's lower bounds: the last, the best
	loss      float64 // the last
	leastLoss float64
	at        float64 // epochs, of the last lift
	begun     bool
}

// verdict is what becomes of an attempt.
type verdict int

const (
	goesOn  verdict = iota
	lifted          // it goes on from the best so far
	stalled         // it goes back to the best, with smaller steps
	met
	failed
)

func (s *Search) newAttempt(ties []merging.Tie) *attempt {
	a := &attempt{ties: ties, target: s.o.Target, originals: s.originals, rate: s.o.Rate, decay: s.o.Decay, scores: slices.Clone(s.scores), lifts: make([]progress, len(s.originals))}
	for i := range s.originals {
		changing := slices.DeleteFunc(slices.Clone(ties), func(t merging.Tie) bool { return !s.changesModel(t, i) })
		if len(changing) > 0 {
			a.models = append(a.models, i)
		}
		if s.o.Joint > 0 && slices.ContainsFunc(changing, func(t merging.Tie) bool { return t.Donor == merging.NoDonor }) {
			a.rate, a.decay = s.o.Joint, 1
		}
	}
	if a.decay == 0 {
		a.decay = 1
	}
	return a
}

// changesModel says whether a tie changes a model in another way than the last success.
func (s *Search) changesModel(t merging.Tie, model int) bool {
	i := slices.IndexFunc(t.Members, func(m merging.Member) bool { return m.Model == model })
	if i < 0 || t.Donor == model {
		return false
	}
	return !slices.ContainsFunc(s.kept, func(k merging.Tie) bool {
		return k.Donor == t.Donor && slices.Contains(k.Members, t.Members[i]) && (t.Donor >= 0 || len(k.Members) == len(t.Members))
	})
}

// nextPart is the next part of an epoch: so much as the model nearest its target seems to need, by its lift.
func (a *attempt) nextPart() *Train {
	share := 1.
	for _, m := range a.models {
		if g := scoreGap(a.scores[m], a.originals[m], a.target); g > 0 {
			share = math.Min(share, g/a.expectedLift(m))
		}
	}
	a.share = math.Min(math.Max(share, leastShare), mostEpochs-a.epochs)
	return &Train{a.models, a.share, a.rate * math.Max(math.Pow(a.decay, a.epochs), leastRate)}
}

// expectedLift is how much of a score a model gained in an epoch, the last time; all of it if it gained nothing, so that a whole epoch is next.
func (a *attempt) expectedLift(model int) float64 {
	p := a.lifts[model]
	if a.epochs == 0 {
		return firstLift
	}
	if gained := a.scores[model].Low - p.low; gained > 0 {
		return gained / a.share
	}
	return scoreGap(a.scores[model], a.originals[model], a.target)
}

func (a *attempt) trained(losses []float64) {
	a.epochs += a.share
	for i := range a.lifts {
		a.lifts[i].low = a.scores[i].Low
		if i < len(losses) {
			a.lifts[i].loss = losses[i]
		}
	}
}

// decideNext judges scores of all models, and notes which have lifted.
func (a *attempt) decideNext() verdict {
	unmet, worst, stuck := 0, math.Inf(1), 0.
	for _, m := range a.models {
		worst = math.Min(worst, a.scores[m].Low/a.originals[m].Value)
		a.lifts[m].recordScore(a.scores[m], a.epochs)
		if scoreGap(a.scores[m], a.originals[m], a.target) > 0 {
			unmet++
			stuck = math.Max(stuck, a.epochs-a.lifts[m].at)
		}
	}
	if stuck == 0 {
		a.halved = false
	}
	switch {
	case unmet == 0:
		return met
	case a.epochs > mostEpochs-1e-6 || stuck >= patience:
		return failed
	case worst >= a.best:
		a.best = worst
		return lifted
	case stuck >= patience/2. && !a.halved:
		a.halved = true
		a.rate *= stalledFactor
		return stalled
	}
	return goesOn
}

// recordScore takes a score: it is a lift if it is the best so far, or if the loss is the least while the score is 0.
func (p *progress) recordScore(score merging.Score, epochs float64) {
	switch {
	case !p.begun:
		p.leastLoss = math.Inf(1)
	case score.Low > p.best:
	case score.Low <= 0 && p.loss < p.leastLoss*improvedLoss:
	default:
		return
	}
	if p.begun {
		p.leastLoss = math.Min(p.leastLoss, p.loss)
	}
	p.begun, p.at, p.best = true, epochs, math.Max(p.best, score.Low)
}
