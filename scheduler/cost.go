package scheduler

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

// work is what there is to do in passes, in the terms that their time is made of. Works add up.
type work struct {
	passes float64
	tokens float64 // to compute
	pairs  float64 // of positions that attend: (n_input^2 - n_cached^2) / 2 a job
	loads  float64 // blocks to copy from host memory
}

// workOf is the work of a job beside the pass that it is in.
func workOf(nInput, nCached int) work {
	in, cached := float64(nInput), float64(nCached)
	return work{tokens: in - cached, pairs: (in*in - cached*cached) / 2}
}

// alone is the work of a job in a pass of its own.
func alone(nInput, nCached int) work {
	w := workOf(nInput, nCached)
	w.passes = 1
	return w
}

func (w *work) add(other work) {
	w.passes += other.passes
	w.tokens += other.tokens
	w.pairs += other.pairs
	w.loads += other.loads
}

func (w *work) subtract(other work) {
	w.passes -= other.passes
	w.tokens -= other.tokens
	w.pairs -= other.pairs
	w.loads -= other.loads
}

// rates are the seconds that each term of work takes.
type rates struct{ pass, token, pair float64 }

func (r rates) seconds(w work) float64 {
	return r.pass*w.passes + r.token*w.tokens + r.pair*w.pairs
}

// costModel predicts what passes cost on one executor.
//
// The order of jobs is by tokens: cache-miss tokens, the paper's proxy for job completion time
// (section 5.3.3: Pearson 0.987 with it), with the base cost and the quadratic attention term where a
// profile gives them. It does not change while jobs wait.
//
// All that is about time, which pass to pause, where to send a job, what to refuse, is in seconds.
// These are refined by every pass: a profile is scaled, and without one a model is fitted.
type costModel struct {
	base     float64 // tokens that an empty pass is worth
	pair     float64 // tokens that one pair is worth
	load     float64 // tokens that loading a block is worth; 0 without a profile: it is then always done
	loading  float64 // seconds that loading a block takes
	rates    rates   // now
	profiled rates   // by the profile; zero without
	scale    float64 // of rates against profiled
	fit      fit     // without a profile
}

func newCostModel(info *wire.ExecutorInfo) costModel {
	token, load := info.CostToken.Seconds(), max(info.CostLoad.Seconds(), 0)
	if token <= 0 {
		return costModel{base: defaultBaseTokens, rates: rates{pass: defaultBaseTokens * unknownToken, token: unknownToken}, loading: load}
	}
	p := rates{pass: max(info.CostBase.Seconds(), 0), token: token, pair: max(info.CostPair, 0)}
	return costModel{base: p.pass / token, pair: p.pair / token, load: load / token, loading: load, rates: p, profiled: p, scale: 1}
}

// tokens is the cost of a job run alone.
func (m *costModel) tokens(nInput, nCached int) float64 { return m.base + m.extra(nInput, nCached) }

// extra is what a job adds to a pass that has others.
func (m *costModel) extra(nInput, nCached int) float64 {
	w := workOf(nInput, nCached)
	return w.tokens + m.pair*w.pairs
}

// useful says how many of a job's leading blocks are worth having when so many are on the device, and
// so many there or in host memory, and how many of them are to be loaded: all that are, as the later
// ones save more attention, or none.
func (m *costModel) useful(r reach, blockTokens int) (cached, loads int) {
	loads = r.all - r.device
	if loads > 0 && m.load*float64(loads) < m.extra(r.all*blockTokens, r.device*blockTokens) {
		return r.all, loads
	}
	return r.device, 0
}

// seconds predicts the time of some work.
func (m *costModel) seconds(w work) float64 { return m.rates.seconds(w) + m.loading*w.loads }

// observe refines the rates by a pass. One that loads blocks tells nothing: it computes meanwhile.
func (m *costModel) observe(w work, took time.Duration) {
	if w.tokens <= 0 || took <= 0 || w.loads > 0 {
		return
	}
	if m.profiled == (rates{}) {
		m.fit.add(w, took.Seconds(), m.seconds(w))
		m.rates = m.fit.rates()
		return
	}
	whole := m.profiled.seconds(w)
	scale := min(max(took.Seconds()/whole, m.scale/surprise), m.scale*surprise)
	m.scale = min(max(m.scale+scaleStep*(scale-m.scale), 1.0/maxScale), maxScale)
	m.rates = rates{m.profiled.pass * m.scale, m.profiled.token * m.scale, m.profiled.pair * m.scale}
}
