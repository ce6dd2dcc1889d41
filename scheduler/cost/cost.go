// Package cost predicts what passes take: in tokens for the order of jobs, in seconds for all that is about time.
package cost

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

const (
	// defaultBaseTokens is what an empty pass is taken to cost on an executor without a profile, in
	// tokens. It matters to packing alone, until passes have told: it is the same for all jobs.
	defaultBaseTokens = 128
	// unknownToken stands for the seconds a token of an executor that has run nothing yet: fast, so
	// that it is tried.
	unknownToken = 1e-4
	// scaleStep is the weight of the newest pass in the running mean of the scale of a profile.
	scaleStep = 0.1
	// surprise bounds how far one pass may be from what was predicted, and maxScale how far the scale
	// may go from the profile, as factors.
	surprise, maxScale = 4, 8
)

// Work is what there is to do in passes, in the terms that their time is made of. Works add up.
type Work struct {
	Passes float64
	Tokens float64 // to compute
	Pairs  float64 // of positions that attend: (n_input^2 - n_cached^2) / 2 a job
	Loads  float64 // blocks to copy from host memory
}

// Of is the work of a job beside the pass that it is in.
func Of(nInput, nCached int) Work {
	in, cached := float64(nInput), float64(nCached)
	return Work{Tokens: in - cached, Pairs: (in*in - cached*cached) / 2}
}

// Alone is the work of a job in a pass of its own.
func Alone(nInput, nCached int) Work {
	w := Of(nInput, nCached)
	w.Passes = 1
	return w
}

// Add adds other to w.
func (w *Work) Add(other Work) {
	w.Passes += other.Passes
	w.Tokens += other.Tokens
	w.Pairs += other.Pairs
	w.Loads += other.Loads
}

// Subtract undoes Add.
func (w *Work) Subtract(other Work) {
	w.Passes -= other.Passes
	w.Tokens -= other.Tokens
	w.Pairs -= other.Pairs
	w.Loads -= other.Loads
}

// rates are the seconds that each term of work takes.
type rates struct{ pass, token, pair float64 }

func (r rates) seconds(w Work) float64 {
	return r.pass*w.Passes + r.token*w.Tokens + r.pair*w.Pairs
}

// Model predicts what passes cost on one executor.
//
// The order of jobs is by Tokens: cache-miss tokens, the paper's proxy for job completion time
// (section 5.3.3: Pearson 0.987 with it), with the base cost and the quadratic attention term where a
// profile gives them. It does not change while jobs wait.
//
// All that is about time, which pass to pause, where to send a job, what to refuse, is in seconds.
// These are refined by every pass: a profile is scaled, and without one a model is fitted.
type Model struct {
	Base     float64 // tokens that an empty pass is worth
	pair     float64 // tokens that one pair is worth
	Load     float64 // tokens that loading a block is worth; 0 without a profile: it is then always done
	loading  float64 // seconds that loading a block takes
	rates    rates   // now
	profiled rates   // by the profile; zero without
	scale    float64 // of rates against profiled
	fit      fit     // without a profile
}

// New makes the model of an executor by its profile, if it has one.
func New(info *wire.ExecutorInfo) Model {
	token, load := info.CostToken.Seconds(), max(info.CostLoad.Seconds(), 0)
	if token <= 0 {
		return Model{Base: defaultBaseTokens, rates: rates{pass: defaultBaseTokens * unknownToken, token: unknownToken}, loading: load}
	}
	p := rates{pass: max(info.CostBase.Seconds(), 0), token: token, pair: max(info.CostPair, 0)}
	return Model{Base: p.pass / token, pair: p.pair / token, Load: load / token, loading: load, rates: p, profiled: p, scale: 1}
}

// Tokens is the cost of a job run alone.
func (m *Model) Tokens(nInput, nCached int) float64 { return m.Base + m.Extra(nInput, nCached) }

// Extra is what a job adds to a pass that has others.
func (m *Model) Extra(nInput, nCached int) float64 {
	w := Of(nInput, nCached)
	return w.Tokens + m.pair*w.Pairs
}

// Useful says how many of a job's leading blocks are worth having when so many are on the device, and
// so many there or in host memory, and how many of them are to be loaded: all that are, as the later
// ones save more attention, or none.
func (m *Model) Useful(device, all, blockTokens int) (cached, loads int) {
	loads = all - device
	if loads > 0 && m.Load*float64(loads) < m.Extra(all*blockTokens, device*blockTokens) {
		return all, loads
	}
	return device, 0
}

// Seconds predicts the time of some work.
func (m *Model) Seconds(w Work) float64 { return m.rates.seconds(w) + m.loading*w.Loads }

// Observe refines the rates by a pass. One that loads blocks tells nothing: it computes meanwhile.
func (m *Model) Observe(w Work, took time.Duration) {
	if w.Tokens <= 0 || took <= 0 || w.Loads > 0 {
		return
	}
	if m.profiled == (rates{}) {
		m.fit.add(w, took.Seconds(), m.Seconds(w))
		m.rates = m.fit.rates()
		return
	}
	whole := m.profiled.seconds(w)
	scale := min(max(took.Seconds()/whole, m.scale/surprise), m.scale*surprise)
	m.scale = min(max(m.scale+scaleStep*(scale-m.scale), 1.0/maxScale), maxScale)
	m.rates = rates{m.profiled.pass * m.scale, m.profiled.token * m.scale, m.profiled.pair * m.scale}
}
