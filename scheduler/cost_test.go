package scheduler

import (
	"math"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestCostModel(t *testing.T) {
	profiled := newCostModel(&wire.ExecutorInfo{CostBase: 10 * time.Millisecond, CostToken: 100 * time.Microsecond, CostPair: 1e-9})
	unknown := newCostModel(&wire.ExecutorInfo{})
	for _, tt := range []struct {
		name          string
		model         costModel
		input, cached int
		tokens        float64
		seconds       float64
	}{
		{"without a profile: cache-miss tokens", unknown, 1000, 400, defaultBaseTokens + 600, 0},
		// 0.01 s + 2000 * 1e-4 s + (3000^2 - 1000^2)/2 * 1e-9 s
		{"with one: in tokens of 100 us", profiled, 3000, 1000, 100 + 2000 + 40, 0.214},
		{"all cached but one", profiled, 3000, 2999, 100 + 1 + 0.029995, 0.01010299},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tokens := tt.model.tokens(tt.input, tt.cached)
			if math.Abs(tokens-tt.tokens) > 1e-6 || math.Abs(tt.model.seconds(tokens)-tt.seconds) > 1e-6 {
				t.Errorf("%v tokens, %v s; want %v and %v", tokens, tt.model.seconds(tokens), tt.tokens, tt.seconds)
			}
		})
	}
}

// TestRateIsLearnt feeds passes of 1000 tokens to a model and looks at its prediction for another.
func TestRateIsLearnt(t *testing.T) {
	profile := wire.ExecutorInfo{CostToken: time.Millisecond}
	for _, tt := range []struct {
		name     string
		info     wire.ExecutorInfo
		took     []time.Duration
		min, max float64
	}{
		{"the first pass sets an unknown rate", wire.ExecutorInfo{}, []time.Duration{2 * time.Second}, 2, 2},
		{"a steady change is followed", profile, repeat(2*time.Second, 50), 1.98, 2},
		{"one odd pass counts little", profile, []time.Duration{time.Hour}, 1, 1.31},
		{"no pass takes the rate far from the profile", profile, repeat(time.Hour, 500), rateDrift, rateDrift},
		{"nor near zero", profile, repeat(time.Nanosecond, 500), 1.0 / rateDrift, 1.0 / rateDrift},
		{"a pass of no time says nothing", profile, repeat(0, 5), 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newCostModel(&tt.info)
			for _, took := range tt.took {
				m.observe(1000, took)
			}
			if got := m.seconds(1000); got < tt.min-1e-9 || got > tt.max+1e-9 {
				t.Errorf("1000 tokens are predicted to take %v s, want %v to %v", got, tt.min, tt.max)
			}
		})
	}
}

func repeat(d time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = d
	}
	return out
}
