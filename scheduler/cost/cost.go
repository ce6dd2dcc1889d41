// Package cost predicts what passes take: in units (tokens or frames) for the order of jobs of a model, in seconds for
// all that is about time.
package cost

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

const (
	// defaultBase is what an empty pass is taken to cost without a profile, in units. It matters to
	// packing alone, until passes have told: it is the same for all jobs.
	defaultBase = 128
	// unknownUnit stands for the seconds a unit where nothing has run yet: fast, so that it is tried.
	unknownUnit = 1e-4
	// scaleStep is the weight of the newest pass in the running mean of the scale of a profile.
	scaleStep = 0.1
	// surprise bounds how far one pass may be from what was predicted, and maxScale how far the scale
	// may go from the profile, as factors.
	surprise, maxScale = 4, 8
)

// Work is what there is to do in passes, in the terms that their time is made of. Works add up.
type Work struct {
	Passes float64
	Units  float64 // tokens or frames to compute
	Pairs  float64 // of positions that attend: (n_input^2 - n_cached^2) / 2 a job
	Loads  float64 // blocks to copy from host memory
	Rows   float64 // positions that are scored: each is a row of the LM head
}

// Of is the work of a sequence of tokens, beside the pass that it is in.
func WorkOf(nInput, nCached int) Work {
	in, cached := float64(nInput), float64(nCached)
	return Work{Units: in - cached, Pairs: (in*in - cached*cached) / 2}
}

// Alone is the work in a pass of its own.
func (w Work) Alone() Work {
	w.Passes = 1
	return w
}

// Add adds other to w.
func (w *Work) Add(other Work) {
	w.Passes += other.Passes
	w.Units += other.Units
	w.Pairs += other.Pairs
	w.Loads += other.Loads
	w.Rows += other.Rows
}

// Subtract undoes Add.
func (w *Work) Subtract(other Work) {
	w.Passes -= other.Passes
	w.Units -= other.Units
	w.Pairs -= other.Pairs
	w.Loads -= other.Loads
	w.Rows -= other.Rows
}

// rates are the seconds that each term of work takes.
type rates struct{ pass, unit, pair float64 }

func (r rates) seconds(w Work) float64 {
	return r.pass*w.Passes + r.unit*w.Units + r.pair*w.Pairs
}

// Model predicts what passes of one model cost on one executor.
//
// The order of jobs is by Units: cache-miss tokens, the paper's proxy for job completion time
// (section 5.3.3: Pearson 0.987 with it), or frames, with the base cost and the quadratic attention
// term where a profile gives them. It does not change while jobs wait.
//
// All that is about time, which pass to pause, where to send a job, what to refuse, is in seconds.
// These are refined by every pass: a profile is scaled, and without one a model is fitted.
type Model struct {
	Base     float64 // units that an empty pass is worth
	pair     float64 // units that one pair is worth
	Load     float64 // units that loading a block is worth; 0 without a profile: it is then always done
	loading  float64 // seconds that loading a block takes
	rates    rates   // now
	profiled rates   // by the profile; zero without
	scale    float64 // of rates against profiled
	fit      fit     // without a profile
	rate     float64 // see Rate
	rows     rowCost
	errors   errors
}

// New makes the model of an executor by its profile, if there is one.
func New(c wire.Cost) Model {
	unit, load := c.Unit.Seconds(), max(c.Load.Seconds(), 0)
	if unit <= 0 {
		return Model{Base: defaultBase, rates: rates{pass: defaultBase * unknownUnit, unit: unknownUnit}, rate: unknownUnit, loading: load}
	}
	p := rates{pass: max(c.Base.Seconds(), 0), unit: unit, pair: max(c.Pair, 0)}
	return Model{Base: p.pass / unit, pair: p.pair / unit, Load: load / unit, loading: load, rates: p, rate: unit, profiled: p, scale: 1}
}

// Units is the cost of a job run alone.
func (m *Model) Units(w Work) float64 { return m.Base + m.Extra(w) }

// Extra is what a job adds to a pass that has others.
func (m *Model) Extra(w Work) float64 { return w.Units + m.pair*w.Pairs }

// Rate is the seconds of a unit in the order of jobs: by the profile, and so the same at all times, or as the passes
// so far have it.
func (m *Model) Rate() float64 { return m.rate }

// Useful says how many of a job's leading blocks are worth having when so many are on the device, and
// so many there or in host memory, and how many of them are to be loaded: all that are, as the later
// ones save more attention, or none.
func (m *Model) Useful(device, all, blockTokens int) (cached, loads int) {
	loads = all - device
	if loads > 0 && m.Load*float64(loads) < m.Extra(WorkOf(all*blockTokens, device*blockTokens)) {
		return all, loads
	}
	return device, 0
}

// Seconds predicts the time of some work.
func (m *Model) Seconds(w Work) float64 {
	return m.rates.seconds(w) + m.loading*w.Loads + m.rows.seconds(w.Rows)
}

// Upper is a time that some work takes seldom: predicted longer by as much as two standard deviations of the last passes.
func (m *Model) Upper(w Work) float64 { return m.Seconds(w) * m.errors.upperBound() }

// Doubt makes Upper come nearer to Seconds, as a pass would that takes what is predicted: for work that is not done since
// Upper is too long, so that passes tell nothing.
func (m *Model) Doubt() {
	if m.Known() {
		m.errors.addRatio(1)
	}
}

// Known says that a profile or a pass has told what work takes.
func (m *Model) Known() bool { return m.profiled != (rates{}) || m.errors.n > 0 }

// Now is what passes take, as they have told so far; false if none has and there is no profile.
func (m *Model) Now() (c wire.Cost, known bool) {
	second := float64(time.Second)
	return wire.Cost{
		Base: time.Duration(m.rates.pass * second), Unit: time.Duration(m.rates.unit * second), Pair: m.rates.pair, Load: time.Duration(m.loading * second),
	}, m.Known()
}

// Observe refines the rates by a pass. One that loads blocks tells nothing: it computes meanwhile. One that scores positions tells of
// these alone: with a large vocabulary they may take ten times what the rest does, which must not count as the price of tokens.
func (m *Model) Observe(w Work, took time.Duration) {
	if w.Units <= 0 || took <= 0 || w.Loads > 0 {
		return
	}
	if w.Rows > 0 {
		m.rows.addPass(w.Rows, took.Seconds()-m.rates.seconds(w))
		return
	}
	ratio := 1.0
	if m.Known() {
		ratio = took.Seconds() / m.Seconds(w)
	}
	m.errors.addRatio(ratio)
	if m.profiled == (rates{}) {
		m.fit.addPass(w, took.Seconds(), m.Seconds(w))
		m.rates, m.rate = m.fit.solveRates(), m.fit.priorRates().unit
		return
	}
	whole := m.profiled.seconds(w)
	scale := min(max(took.Seconds()/whole, m.scale/surprise), m.scale*surprise)
	m.scale = min(max(m.scale+scaleStep*(scale-m.scale), 1.0/maxScale), maxScale)
	m.rates = rates{m.profiled.pass * m.scale, m.profiled.unit * m.scale, m.profiled.pair * m.scale}
}

// rowCost is what scored positions take beside their passes: the mean of the last ones, each pass by its rows.
type rowCost struct{ rows, took float64 }

func (r *rowCost) addPass(rows, seconds float64) {
	r.rows += scaleStep * (rows - r.rows)
	r.took += scaleStep * (max(0, seconds) - r.took)
}

func (r *rowCost) seconds(rows float64) float64 {
	if r.rows == 0 {
		return 0
	}
	return rows * r.took / r.rows
}

// errors are what the last passes took, as multiples of what was predicted.
type errors struct {
	last [20]float64
	n    int
}

func (e *errors) addRatio(ratio float64) {
	e.last[e.n%len(e.last)] = ratio
	e.n++
}

// upperBound is the mean and two standard deviations, and no less than what was predicted.
func (e *errors) upperBound() float64 {
	n := min(e.n, len(e.last))
	if n < 2 {
		return 1
	}
	var sum, squares float64
	for _, r := range e.last[:n] {
		sum += r
		squares += r * r
	}
	mean := sum / float64(n)
	return max(1, mean+2*math.Sqrt(max(0, squares/float64(n)-mean*mean)))
}
