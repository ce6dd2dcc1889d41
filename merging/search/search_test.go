package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/mergingtest"
	"github.com/prefillonly/prefillonly/merging/search"
)

// history is what a search did, with a trainer of known outcome.
type history struct {
	lines  []string
	ships  []*search.Ship
	ties   []*search.Tie
	epochs []float64 // by attempt
	done   *search.Done
	at     time.Duration
}

const second = time.Second

// play carries a search out: each part of an epoch and each look takes a second.
func play(t *testing.T, plan *merging.Plan, o search.Options, by mergingtest.Trainer) *history {
	t.Helper()
	s, h := search.New(plan, o), &history{}
	session, err := by.Open(context.Background(), make([]merging.TrainedModel, len(plan.Models)), 1)
	if err != nil {
		t.Fatal(err)
	}
	slots := map[search.Slot][]byte{}
	for actions := s.Begin(); h.done == nil; {
		var event search.Event
		for i, a := range actions {
			if event != nil || h.done != nil {
				t.Fatalf("%d actions behind the one that asks", len(actions)-i)
			}
			event = h.act(t, session, slots, a)
		}
		if h.at += second; event != nil {
			actions = s.Step(h.at, event)
		} else if h.done == nil {
			t.Fatal("no action asks for anything")
		}
		if len(h.lines) > 20000 {
			t.Fatal("no end")
		}
	}
	return h
}

func (h *history) act(t *testing.T, session merging.Session, slots map[search.Slot][]byte, a search.Action) search.Event {
	var err error
	h.lines = append(h.lines, strings.TrimPrefix(fmt.Sprintf("%T", a), "*search."))
	line := &h.lines[len(h.lines)-1]
	switch a := a.(type) {
	case *search.Tie:
		*line += fmt.Sprintf(" %d: %d of %d bytes", a.Attempt, len(a.Ties), a.Saved)
		err = session.Tie(a.Ties)
		h.ties, h.epochs = append(h.ties, a), append(h.epochs, 0)
	case *search.Keep:
		*line += fmt.Sprint(" ", a.Slot)
		slots[a.Slot], err = session.Snapshot()
	case *search.Return:
		*line += fmt.Sprint(" ", a.Slot)
		if slots[a.Slot] == nil {
			t.Fatalf("returns to an empty slot %v", a.Slot)
		}
		err = session.Restore(slots[a.Slot])
	case *search.Ship:
		h.ships = append(h.ships, a)
	case *search.Done:
		*line += ": " + a.Reason
		h.done = a
	case *search.Train:
		*line += fmt.Sprintf(" %.2f of rate %g", a.Epochs, a.Rate)
		h.epochs[len(h.epochs)-1] += a.Epochs
		var losses []float64
		losses, err = session.Train(context.Background(), a.Models, a.Epochs, a.Rate)
		return orFail(t, err, &search.Trained{Losses: losses})
	case *search.Evaluate:
		var score merging.Score
		score, err = session.Evaluate(context.Background(), a.Model, merging.HeldOut)
		*line += fmt.Sprintf(" %d: %.3f", a.Model, score.Low)
		return orFail(t, err, &search.Scored{Model: a.Model, Score: score})
	}
	return orFail(t, err, nil)
}

func orFail(t *testing.T, err error, e search.Event) search.Event {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// slides is a score that is best after an epoch.
func slides(epochs float64) float64 { return min(.8*epochs, max(.3, 1.2-.4*epochs)) }

// network has these layers : the signatures' letters, each a layer of so many bytes as its place in the alphabet.
func network(name, letters string) merging.Model {
	m := merging.Model{Name: name}
	for i, c := range letters {
		m.Layers = append(m.Layers, merging.Layer{Name: fmt.Sprint(i), Signature: string(c), Bytes: int64(c-'a') + 1})
	}
	return m
}

func options(p search.Policy, models int) search.Options {
	o := search.Options{Policy: p, Target: .95, Budget: 1000000 * second, Rate: 1}
	for i := range models {
		o.Cost = append(o.Cost, float64(i%3))
	}
	return o
}

// refusesLayers is a trainer's that learns no layer of some names: a tie of the donor's, or one at all.
func refusesLayers(joint bool, names ...string) func(merging.Tie, int) bool {
	return func(t merging.Tie, model int) bool {
		return (joint || t.Donor != merging.NoDonor) && slices.ContainsFunc(t.Members, func(m merging.Member) bool { return slices.Contains(names, m.Layer) })
	}
}

// TestTranscripts: what is done, step by step.
func TestTranscripts(t *testing.T) {
	pair := merging.NewPlan([]merging.Model{network("a", "abcx"), network("b", "abcy")})
	for name, c := range map[string]struct {
		o       search.Options
		plan    *merging.Plan
		trainer mergingtest.Trainer
		want    string
	}{
		"all at once": {options(search.Adopt, 2), pair, mergingtest.Trainer{}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Keep 1|Ship
Tie 1: 3 of 6 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.767|Keep 0|Train 0.25 of rate 1|Evaluate 0: 0.837
Keep 0|Train 0.41 of rate 1|Evaluate 0: 0.908|Keep 0|Train 0.25 of rate 1|Evaluate 0: 0.937|Keep 0|Train 0.25 of rate 1|Evaluate 0: 0.957
Keep 1|Ship|Done: nothing is left to try`},
		"the bulk, then the rest": {options(search.Adopt, 2), merging.NewPlan([]merging.Model{network("a", "azzx"), network("b", "azzy")}), mergingtest.Trainer{Learns: mergingtest.Exponential(9)}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Keep 1|Ship
Tie 1: 2 of 52 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 1.000|Keep 1|Ship
Tie 2: 3 of 53 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 1.000|Keep 1|Ship|Done: nothing is left to try`},
		"half, then the rest": {options(search.Adopt, 2), pair, mergingtest.Trainer{Learns: mergingtest.Exponential(9), Refuses: refusesLayers(true, "0")}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Keep 1|Ship
Tie 1: 3 of 6 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Keep 0|Train 0.94 of rate 1|Evaluate 0: 0.490|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490
Return 1|Tie 2: 1 of 3 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 1.000|Keep 1|Ship
Tie 3: 2 of 5 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 1.000|Keep 1|Ship
Tie 4: 3 of 6 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Keep 0|Train 0.94 of rate 1|Evaluate 0: 0.490|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490
Return 1|Tie 5: 3 of 6 bytes|Evaluate 0: 0.000|Evaluate 1: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Evaluate 1: 0.490|Keep 0|Train 0.94 of rate 1|Evaluate 0: 0.490|Evaluate 1: 0.490|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Evaluate 1: 0.490|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.490|Evaluate 1: 0.490
Return 1|Done: nothing is left to try`},
		"scores that slide": {options(search.Joint, 2), merging.NewPlan([]merging.Model{network("a", "ax"), network("b", "ay")}), mergingtest.Trainer{Learns: slides}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Keep 1|Ship
Tie 1: 1 of 1 bytes|Evaluate 0: 0.000|Evaluate 1: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.790|Evaluate 1: 0.790|Keep 0|Train 0.25 of rate 1|Evaluate 0: 0.690|Evaluate 1: 0.690
Train 1.00 of rate 1|Evaluate 0: 0.290|Evaluate 1: 0.290|Return 0|Train 1.00 of rate 0.5|Evaluate 0: 0.390|Evaluate 1: 0.390|Return 1|Done: nothing is left to try`},
		"out of budget": {search.Options{Policy: search.Joint, Target: .95, Budget: 5 * second, Rate: 1, Cost: []float64{1, 2}}, pair, mergingtest.Trainer{}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Keep 1|Ship
Tie 1: 1 of 3 bytes|Evaluate 0: 0.000|Evaluate 1: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 0.767|Evaluate 1: 0.767|Done: the budget is spent`},
		"too few objects": {options(search.Adopt, 2), pair, mergingtest.Trainer{Objects: 99}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Done: model a: its own network finds 99 objects in the held-out frames of its clip, want at least 100 to judge by: give a longer or busier clip`},
		"one adopter after the other": {options(search.Adopt, 3), merging.NewPlan([]merging.Model{network("a", "abx"), network("b", "ab"), network("c", "abc")}), mergingtest.Trainer{Learns: mergingtest.Exponential(9)}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Evaluate 2: 1.000|Keep 1|Ship
Tie 1: 2 of 3 bytes|Evaluate 0: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 0: 1.000|Keep 1|Ship
Tie 2: 2 of 6 bytes|Evaluate 1: 0.000|Keep 0|Train 1.00 of rate 1|Evaluate 1: 1.000|Keep 1|Ship|Done: nothing is left to try`},
		"nothing alike": {options(search.Stem, 2), merging.NewPlan([]merging.Model{network("a", "ab"), network("b", "bb")}), mergingtest.Trainer{}, `
Tie 0: 0 of 0 bytes|Evaluate 0: 1.000|Evaluate 1: 1.000|Keep 1|Ship|Done: nothing is left to try`},
	} {
		got := play(t, c.plan, c.o, c.trainer).lines
		want := strings.Split(strings.ReplaceAll(strings.TrimSpace(c.want), "\n", "|"), "|")
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// draw are random networks, by letters.
func draw(rng *rand.Rand) *merging.Plan {
	var models []merging.Model
	stem := ""
	for range rng.IntN(4) {
		stem += string(rune('a' + rng.IntN(5)))
	}
	for i := range 2 + rng.IntN(4) {
		letters := stem
		for range 1 + rng.IntN(8) {
			letters += string(rune('a' + rng.IntN(5)))
		}
		models = append(models, network(fmt.Sprint(i), letters))
	}
	return merging.NewPlan(models)
}

// TestRandomSearches hold to what every search must, and come to all that can be shared, by counting.
func TestRandomSearches(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		plan := draw(rng)
		o := options(search.Policy(search.Policies()[rng.IntN(4)]), len(plan.Models))
		if rng.IntN(4) == 0 {
			o.Budget = time.Duration(rng.IntN(300)) * second
		}
		joint := rng.IntN(2) == 0
		bad := []string{fmt.Sprint(rng.IntN(12)), fmt.Sprint(rng.IntN(12))}
		refuses := refusesLayers(joint, bad...)
		h := play(t, plan, o, mergingtest.Trainer{Learns: mergingtest.Exponential(.5 + rng.Float64()), Refuses: refuses})
		where := fmt.Sprintf("seed %d, %s", seed, o.Policy)
		checkShips(t, where, h, o)
		checkTies(t, where, h, plan, o)
		if h.done.Reason == search.OutOfBudget {
			if h.at < o.Budget {
				t.Errorf("%s: out of budget at %v of %v", where, h.at, o.Budget)
			}
			continue
		}
		last := h.ships[len(h.ships)-1].Saved
		least := wholeGroups(plan, o, refuses)
		if o.Policy == search.Stem {
			least = goodStem(plan, h, bad)
		}
		if exact := len(plan.Models) == 2 || o.Policy == search.Stem; last < least || exact && last != least {
			t.Errorf("%s: saves %d, want %d (exactly: %v)", where, last, least, exact)
		}
	}
}

// checkShips: nothing is shipped that misses its target, and each generation saves more than the one before.
func checkShips(t *testing.T, where string, h *history, o search.Options) {
	t.Helper()
	for i, ship := range h.ships {
		for m, s := range ship.Scores {
			if s.Low < o.Target {
				t.Errorf("%s: shipped with model %d at %.3f", where, m, s.Low)
			}
		}
		if i > 0 && ship.Saved <= h.ships[i-1].Saved {
			t.Errorf("%s: generation %d saves %d, the one before %d", where, i, ship.Saved, h.ships[i-1].Saved)
		}
	}
	for i, e := range h.epochs {
		if e > 10.0001 {
			t.Errorf("%s: %g epochs in attempt %d", where, e, i)
		}
	}
}

// checkTies: members are of one group of the plan, no layer is in two ties, and the donor is a dearest of the tie's models.
func checkTies(t *testing.T, where string, h *history, plan *merging.Plan, o search.Options) {
	t.Helper()
	for _, tie := range h.ties {
		used := map[merging.Member]bool{}
		for _, of := range tie.Ties {
			signatures := map[string]bool{}
			for _, m := range of.Members {
				if used[m] {
					t.Fatalf("%s: %v is in two ties", where, m)
				}
				used[m] = true
				k := slices.IndexFunc(plan.Models[m.Model].Layers, func(l merging.Layer) bool { return l.Name == m.Layer })
				signatures[plan.Models[m.Model].Layers[k].Signature] = true
				if of.Donor >= 0 && o.Cost[m.Model] > o.Cost[of.Donor] {
					t.Fatalf("%s: donor %d, but %d is dearer", where, of.Donor, m.Model)
				}
			}
			if len(signatures) != 1 || len(of.Members) < 2 {
				t.Fatalf("%s: a tie of %d members with the signatures %v", where, len(of.Members), signatures)
			}
		}
	}
}

// wholeGroups is what the groups save that the trainer learns whole, in one of the ways that the policy tries.
func wholeGroups(plan *merging.Plan, o search.Options, refuses func(merging.Tie, int) bool) (sum int64) {
	for _, g := range plan.Groups {
		joint := merging.Tie{Members: g.Members, Donor: merging.NoDonor}
		adopted := merging.Tie{Members: g.Members, Donor: g.Members[0].Model}
		if o.Policy != search.Mean && !refuses(joint, 0) || o.Policy != search.Joint && !refuses(adopted, 0) {
			sum += g.Saved()
		}
	}
	return sum
}

// goodStem is what the longest stem saves that has none of the bad layers.
func goodStem(plan *merging.Plan, h *history, bad []string) (sum int64) {
	if len(h.ties) < 2 {
		return 0
	}
	for _, t := range h.ties[1].Ties { // the first attempt is the longest
		for _, m := range t.Members {
			if slices.Contains(bad, m.Layer) {
				return sum
			}
		}
		k := slices.IndexFunc(plan.Models[t.Donor].Layers, func(l merging.Layer) bool { return l.Name == t.Members[0].Layer })
		sum += plan.Models[t.Donor].Layers[k].Bytes * int64(len(t.Members)-1)
	}
	return sum
}

func TestUnknownPolicyIsRefused(t *testing.T) {
	if err := search.Policy("best").Check(); err == nil || !strings.Contains(err.Error(), `"best": want one of adopt, joint, stem, mean`) {
		t.Error(err)
	}
	if err := search.Joint.Check(); err != nil {
		t.Error(err)
	}
}
