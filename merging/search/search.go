// Package search decides which layers of networks come to share weights: it tries groups, has what is left to the models trained, keeps what meets the
// target, and tries less of what does not (GEMEL, NSDI 2023). It is pure: events come in, what to do goes out.
package search

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/merging"
)

// Options are what a search is to keep to.
type Options struct {
	Policy Policy
	Target float64       // share of its file's score that a model keeps at least, by the lower bound of its score
	Budget time.Duration // looked at between two events
	Rate   float64       // of the trainer's steps
	Joint  float64       // of those where a copy has no donor, which does not fade; 0: Rate
	Decay  float64       // what an epoch leaves of Rate; 0: all of it
	Cost   []float64     // of a frame, by model: donors are the dearest
}

// What is fixed, after the paper.
const (
	mostEpochs    = 10   // of an attempt
	patience      = 2    // epochs without a lift that end an attempt
	firstLift     = 0.1  // of a score in an epoch, while none is known
	leastShare    = 0.25 // of an epoch, between two looks
	leastObjects  = 100  // that a feed's held-out frames must have to judge by
	improvedLoss  = 0.99 // of the least loss: less of it is a lift while the score is 0
	stalledFactor = 0.5  // of the rate, after an epoch without a lift
	leastRate     = 0.03 // of the rate that it fades to
)

// An Event is what came of the last of the actions: *Scored or *Trained.
type Event any

// Scored says how a model does on held-out frames.
type Scored struct {
	Model int
	Score merging.Score
}

// Trained says what the models' mean losses were.
type Trained struct{ Losses []float64 }

// An Action is *Tie, *Train, *Evaluate, *Keep, *Return, *Ship or *Done. Of a list, the last asks for an event, or is *Done.
type Action any

// Tie begins an attempt: the layers to share from now on.
type Tie struct {
	Attempt int // from 1 on; 0: none, the files as they are
	Ties    []merging.Tie
	Saved   int64 // bytes, if it succeeds
}

// Train asks for *Trained, of some models.
type Train struct {
	Models       []int
	Epochs, Rate float64
}

// Evaluate asks for *Scored.
type Evaluate struct{ Model int }

// Keep puts a snapshot in a slot, and Return goes back to the one there.
type (
	Keep   struct{ Slot Slot }
	Return struct{ Slot Slot }
)

// Slot is where a snapshot is kept.
type Slot int

// The slots.
const (
	Best    Slot = iota // of the attempt
	Success             // the last
)

// Ship makes what is now a generation: all models meet their targets.
type Ship struct {
	Attempt int
	Ties    []merging.Tie
	Saved   int64
	Scores  []merging.Score // by model
}

// Done ends the search.
type Done struct {
	Reason  string
	Refused bool // before anything was tried
}

// Why a search ends.
const (
	NothingLeft = "nothing is left to try"
	OutOfBudget = "the budget is spent"
)

// Search is a search under way.
type Search struct {
	o         Options
	plan      *merging.Plan
	policy    policy
	bytes     map[merging.Member]int64
	originals []merging.Score // of the files as they are
	kept      []merging.Tie   // of the last success
	scores    []merging.Score // then
	now       *attempt        // nil while those are judged
	attempts  int
}

// New begins a search among the groups of a plan.
func New(plan *merging.Plan, o Options) *Search {
	s := &Search{o: o, plan: plan, policy: newPolicy(plan, o), bytes: map[merging.Member]int64{}}
	for i, m := range plan.Models {
		for _, l := range m.Layers {
			s.bytes[merging.Member{Model: i, Layer: l.Name}] = l.Bytes
		}
	}
	return s
}

// Begin is the first actions.
func (s *Search) Begin() []Action { return []Action{&Tie{}, &Evaluate{0}} }

// Step takes what came of the last actions, at a time since the beginning, and gives the next.
func (s *Search) Step(at time.Duration, e Event) []Action {
	switch e := e.(type) {
	case *Scored:
		if s.now == nil {
			return s.judgeOriginal(at, e.Score)
		}
		return s.judgeAttempt(at, e)
	case *Trained:
		s.now.trained(e.Losses)
		return s.evaluateNext(nil)
	}
	panic(fmt.Sprintf("search: event %T", e))
}

// judgeOriginal takes the score of a file as it is.
func (s *Search) judgeOriginal(at time.Duration, score merging.Score) []Action {
	model := len(s.originals)
	name := s.plan.Models[model].Name
	s.originals = append(s.originals, score)
	switch {
	case score.Objects < leastObjects:
		return refuseWith("model %s: its own network finds %d objects in the held-out frames of its clip, want at least %d to judge by: give a longer or busier clip", name, score.Objects, leastObjects)
	case !(score.Value > 0):
		return refuseWith("model %s: its score of its own answers is %g, want above 0: is it the right decoder?", name, score.Value)
	case model+1 < len(s.plan.Models):
		return []Action{&Evaluate{model + 1}}
	}
	s.scores = s.originals
	return s.proposeNext(at, []Action{&Keep{Success}, &Ship{Scores: slices.Clone(s.originals)}})
}

func refuseWith(format string, args ...any) []Action {
	return []Action{&Done{fmt.Sprintf(format, args...), true}}
}

// proposeNext begins the next attempt behind some actions, or ends the search.
func (s *Search) proposeNext(at time.Duration, actions []Action) []Action {
	ties := s.policy.propose()
	switch {
	case ties == nil:
		return append(actions, &Done{Reason: NothingLeft})
	case at >= s.o.Budget:
		return append(actions, &Done{Reason: OutOfBudget})
	}
	s.attempts++
	s.now = s.newAttempt(ties)
	actions = append(actions, &Tie{s.attempts, ties, s.Saved(ties)})
	return s.evaluateNext(actions)
}

// Saved is how many bytes less ties take.
func (s *Search) Saved(ties []merging.Tie) (sum int64) {
	for _, t := range ties {
		sum += s.bytes[t.Members[0]] * int64(len(t.Members)-1)
	}
	return sum
}

// evaluateNext asks for the score of a model that was trained.
func (s *Search) evaluateNext(actions []Action) []Action {
	return append(actions, &Evaluate{s.now.models[s.now.judged]})
}

// judgeAttempt takes a score, and those of all models together decide.
func (s *Search) judgeAttempt(at time.Duration, e *Scored) []Action {
	a := s.now
	a.scores[e.Model] = e.Score
	if a.judged++; a.judged < len(a.models) {
		return s.evaluateNext(nil)
	}
	a.judged = 0
	switch verdict := a.decideNext(); {
	case verdict == met:
		s.policy.judged(true)
		s.kept, s.scores = a.ties, a.scores
		return s.proposeNext(at, []Action{&Keep{Success}, &Ship{s.attempts, a.ties, s.Saved(a.ties), slices.Clone(a.scores)}})
	case at >= s.o.Budget:
		return []Action{&Done{Reason: OutOfBudget}}
	case verdict == failed:
		s.policy.judged(false)
		return s.proposeNext(at, []Action{&Return{Success}})
	case verdict == stalled:
		return []Action{&Return{Best}, a.nextPart()}
	case verdict == lifted:
		return []Action{&Keep{Best}, a.nextPart()}
	}
	return []Action{a.nextPart()}
}

// scoreGap is how much a score lacks of a model's target, none below 0.
func scoreGap(score, original merging.Score, target float64) float64 {
	return math.Max(0, target*original.Value-score.Low)
}
