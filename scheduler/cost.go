package scheduler

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

const (
	// defaultBaseTokens is what an empty pass is taken to cost on an executor without a profile.
	// It matters to packing alone: it is the same for all jobs.
	defaultBaseTokens = 128
	// rateStep is the weight of the newest pass in the running mean of the rate.
	rateStep = 0.1
	// rateSurprise bounds how far one pass may be from the mean, and rateDrift how far the mean may
	// go from the profile, as factors.
	rateSurprise, rateDrift = 4, 8
)

// costModel predicts what passes cost on one executor, in cache-miss tokens: the paper's proxy for
// job completion time (Pearson 0.987 with it), with the base cost and the quadratic attention term
// where a profile gives them. The order of jobs follows from the profile alone; the rate that turns
// tokens into seconds is refined by every pass.
type costModel struct {
	base     float64 // tokens that an empty pass is worth
	pair     float64 // tokens that one pair of (n_input^2 - n_cached^2)/2 is worth
	profiled float64 // seconds a token, by the profile; 0 without
	rate     float64 // seconds a token, now; 0 while unknown
}

func newCostModel(info *wire.ExecutorInfo) costModel {
	perToken := info.CostToken.Seconds()
	if perToken <= 0 {
		return costModel{base: defaultBaseTokens}
	}
	return costModel{
		base:     max(info.CostBase.Seconds(), 0) / perToken,
		pair:     max(info.CostPair, 0) / perToken,
		profiled: perToken,
		rate:     perToken,
	}
}

// tokens is the cost of a job run alone.
func (m *costModel) tokens(nInput, nCached int) float64 { return m.base + m.extra(nInput, nCached) }

// extra is what a job adds to a pass that has others.
func (m *costModel) extra(nInput, nCached int) float64 {
	in, cached := float64(nInput), float64(nCached)
	return in - cached + m.pair*(in*in-cached*cached)/2
}

// seconds predicts the time of so many tokens; 0 while nothing is known.
func (m *costModel) seconds(tokens float64) float64 { return tokens * m.rate }

// observe refines the rate by a pass of a known cost.
func (m *costModel) observe(tokens float64, took time.Duration) {
	if tokens <= 0 || took <= 0 {
		return
	}
	rate := took.Seconds() / tokens
	if m.rate == 0 {
		m.rate = rate
		return
	}
	rate = min(max(rate, m.rate/rateSurprise), m.rate*rateSurprise)
	m.rate += rateStep * (rate - m.rate)
	if m.profiled > 0 {
		m.rate = min(max(m.rate, m.profiled/rateDrift), m.profiled*rateDrift)
	}
}
