package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestShortAmongLongWithoutProfile lets 200-token requests come among 60,000-token ones to an executor
// whose time is mostly attention, which the scheduler is not told: from the passes it must learn
// enough of that for srpt to pause the long ones as it does with a profile.
func TestShortAmongLongWithoutProfile(t *testing.T) {
	const long, short, requests = 60_000, 200, 2500
	var load []Request
	rng := rand.New(rand.NewPCG(5, 5))
	var at float64
	for i := range requests {
		at += rng.ExpFloat64() / 1.02
		n := short
		if rng.IntN(51) == 0 {
			n = long
		}
		load = append(load, Request{At: seconds(at), Tokens: prompt(0, i, 0, n)})
	}
	for _, tt := range []struct {
		name string
		cost Cost
	}{
		{"30 s of attention in 31 s", Cost{Base: 0.002, Token: 15e-6, Pair: 1.67e-8}},
		{"16 s of attention in 24 s", Cost{Base: 0.075, Token: 130e-6, Pair: 8.7e-9}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			measure := func(policy string, profiled bool) (p99 time.Duration, throughput float64) {
				e := gpu()
				e.Cost, e.Layers, e.Untold, e.NumBlocks = tt.cost, 80, !profiled, 0
				out := run(t, config(policy), []Executor{e}, load...)
				var waits []time.Duration
				for _, r := range out.Records {
					if r.Tokens == short {
						waits = append(waits, r.Latency())
					}
				}
				slices.Sort(waits)
				return waits[len(waits)*99/100], requests / out.Span.Seconds()
			}
			with, rate := measure("srpt", true)
			without, rateWithout := measure("srpt", false)
			plain, _ := measure("srjf-calibrated", false)
			t.Logf("P99 of the short: %v with a profile, %v without, %v under srjf-calibrated; requests/s %.3f and %.3f",
				with, without, plain, rate, rateWithout)
			if without > with*3/2 || without*5 > plain {
				t.Errorf("P99 of the short without a profile is %v, want at most 1.5 times %v and a fifth of %v", without, with, plain)
			}
			if rateWithout < rate*0.97 {
				t.Errorf("%.3f requests/s without a profile, %.3f with one", rateWithout, rate)
			}
		})
	}
}
