// Package drift watches a network that a merge has changed: it has the network as it was look at some frames, too, and says when the two agree too
// little for the changed one to stay (GEMEL, NSDI 2023). It is apart because it decides by times and figures alone, whoever asks the networks.
//
// The evidence is a Shiryaev-Roberts e-detector of bets on a bounded mean (Shin, Ramdas, Rinaldo, "E-detectors", NEJSDS 2024): after each sample it is
// (evidence + 1) x (1 + bet x (target x findings - those that agree)). While F1, given all that came before, is the target's or better, its mean grows by 1 a sample
// at most: that it comes to `enough` within n samples has a probability of n / enough at most, whatever the samples depend on.
package drift

import (
	"math/rand/v2"
	"time"
)

// Config is how a network is watched.
type Config struct {
	Sample float64 // part of its frames that the original looks at, too
	Rate   float64 // of them, at most so many a second
	Target float64 // least F1 of what it finds, where the original's findings are the truth
}

// Event is what happens to a network.
type Event interface{ isEvent() }

// Looked says that it has looked at a frame.
type Looked struct{}

// Compared answers Compare.
type Compared struct{ Agreement }

// Lost answers Compare where the original did not look at the frame.
type Lost struct{}

func (Looked) isEvent()   {}
func (Compared) isEvent() {}
func (Lost) isEvent()     {}

// Action is what is wanted.
type Action interface{ isAction() }

// Compare wants the original to look at the frame that was looked at, and answers one of these at a time.
type Compare struct{}

// Revert wants the network as it was in the place of the changed one. It is wanted once, and nothing after it.
type Revert struct{ Figures }

func (Compare) isAction() {}
func (Revert) isAction()  {}

const (
	// enough is the evidence that reverts: within 10,000 samples of a network that meets its target once in a thousand times at most.
	enough = 1e7
	// mostFindings is what a frame counts for at most, so that one with a crowd does not decide alone.
	mostFindings = 10
	// boldest bounds the bet on a finding.
	boldest = 1.0
)

// Window is how many samples with findings the score is of, at most.
const Window = 200

// Figures are what is known of a network.
type Figures struct {
	Samples  uint64  // that were compared
	Telling  uint64  // of them, those in which either network found something
	Score    float64 // F1 over the last Window of those; 1 without any
	Evidence float64 // against the network, of the 1 that revert it
}

// Guard decides about a network.
type Guard struct {
	config   Config
	random   *rand.Rand
	open     bool // a frame is being compared
	over     bool
	last     time.Duration // when a frame was chosen
	chosen   bool          // one was
	samples  uint64
	telling  uint64
	recent   [Window]Agreement
	evidence float64
}

// New makes a Guard. Which frames it chooses depends on the seed.
func New(c Config, seed uint64) *Guard {
	return &Guard{config: c, random: rand.New(rand.NewPCG(seed, 0))}
}

// Step says what is wanted after an event.
func (g *Guard) Step(now time.Duration, e Event) []Action {
	switch e := e.(type) {
	case Looked:
		if g.chooses(now) {
			g.open, g.chosen, g.last = true, true, now
			return []Action{Compare{}}
		}
	case Compared:
		g.open = false
		if g.count(e.Agreement); g.evidence >= enough && !g.over {
			g.over = true
			return []Action{Revert{g.Figures()}}
		}
	case Lost:
		g.open = false
	}
	return nil
}

// chooses says whether a frame is compared.
func (g *Guard) chooses(now time.Duration) bool {
	if g.open || g.over || g.random.Float64() >= g.config.Sample {
		return false
	}
	return !g.chosen || (now-g.last).Seconds()*g.config.Rate >= 1
}

// count takes a sample in.
func (g *Guard) count(a Agreement) {
	g.samples++
	if a.Findings <= 0 {
		return // it tells nothing
	}
	g.recent[g.telling%Window] = a
	g.telling++
	if a.Findings > mostFindings {
		a.Agreeing, a.Findings = a.Agreeing*mostFindings/a.Findings, mostFindings
	}
	// Half of the bet that could lose all when everything agrees.
	bet := min(boldest, 0.5/(mostFindings*max(1-g.config.Target, 1e-3)))
	g.evidence = (g.evidence + 1) * (1 + bet*(g.config.Target*a.Findings-a.Agreeing))
}

// Figures are those so far.
func (g *Guard) Figures() Figures {
	f := Figures{Samples: g.samples, Telling: g.telling, Score: 1, Evidence: min(g.evidence/enough, 1)}
	var sum Agreement
	for _, a := range g.recent[:min(g.telling, Window)] {
		sum.Agreeing, sum.Findings = sum.Agreeing+a.Agreeing, sum.Findings+a.Findings
	}
	if sum.Findings > 0 {
		f.Score = sum.Agreeing / sum.Findings
	}
	return f
}
