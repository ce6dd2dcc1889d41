package oneadapt

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// rules are those of the presets that live streams have.
var rules = map[string]struct {
	make func(knobs []Knob, start Config) (Rule, error)
	gap  float64 // how far from the greatest objective it may settle; repo's price is of a share, and not this world's
	step int     // by how many settings a knob may go to and fro
}{
	"paper": {func(knobs []Knob, start Config) (Rule, error) {
		return NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1, Separable: true}, knobs, start)
	}, 0.07, 2},
	"tuned": {func(knobs []Knob, start Config) (Rule, error) {
		return NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1, Separable: true, Elastic: true}, knobs, start)
	}, 0.05, 1},
	"repo": {func(knobs []Knob, _ Config) (Rule, error) { return NewSplit(Split{Share: 0.5}, knobs) }, 0.25, 0},
}

// eachRule calls f with an adapter of each rule, from either end of all knobs, and with the objective that it settles at if nothing is wrong. Holds tells
// of configurations from an interval on whether they stand still, and end near the best of all, which is found by trying them.
func eachRule(t *testing.T, w *world, f func(t *testing.T, a *Adapter, holds func(used []Config, from int), settled float64)) {
	for name, r := range rules {
		for end, start := range map[string]Config{"cheapest": Cheapest(w.knobs), "dearest": Dearest(w.knobs)} {
			t.Run(name+" "+end, func(t *testing.T) {
				adapter := func() *Adapter {
					rule, err := r.make(w.knobs, start)
					if err != nil {
						t.Fatal(err)
					}
					o := Usual()
					o.Ahead = name != "paper"
					a, err := New(rule, w.knobs, o)
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				holds := func(used []Config, from int) {
					t.Helper()
					steady(t, used, from, r.step)
					last := used[len(used)-1]
					if settled, best := w.objective(last, 1), w.best(1); w.objective(best, 1)-settled > r.gap {
						t.Errorf("it settles at %v: %.3f, and %v has %.3f", last, settled, best, w.objective(best, 1))
					}
				}
				calm := w.play(t, adapter(), 60, always)
				holds(calm, 30)
				f(t, adapter(), holds, w.objective(calm[59], 1))
			})
		}
	}
}

// steady holds that no knob goes to and fro by more than some settings from an interval on.
func steady(t *testing.T, used []Config, from, step int) {
	t.Helper()
	for knob := range used[from] {
		least, most := used[from][knob], used[from][knob]
		for _, c := range used[from:] {
			least, most = min(least, c[knob]), max(most, c[knob])
		}
		if most-least > step {
			t.Errorf("knob %d goes from setting %d to %d and back from interval %d on", knob, least, most, from)
		}
	}
}

// goodAfter is in how many intervals a rule is to be near what it settles at.
const goodAfter = 5

// TestSceneCut: where what matters moves from some knobs to others, settings are as good five intervals later as they are in the long run, and do not
// swing ever more.
func TestSceneCut(t *testing.T) {
	w := newWorld(0.9, 0.9, 0.02, 0.02)
	eachRule(t, w, func(t *testing.T, a *Adapter, holds func([]Config, int), _ float64) {
		w.weights = []float64{0.9, 0.9, 0.02, 0.02}
		const cut = 20
		used := w.play(t, a, 60, func(interval int) bool {
			if interval == cut {
				w.weights = []float64{0.02, 0.02, 0.9, 0.9}
			}
			return true
		})
		holds(used, 40)
		settled := w.objective(used[59], 1)
		before := w.objective(used[cut], 1) // of the new scene
		if settled <= before {
			t.Fatalf("the settings %v do not follow the cut: %.3f, before %.3f", used[59], settled, before)
		}
		for n := cut + goodAfter + 1; n < 60; n++ {
			if got := w.objective(used[n], 1); settled-got > 0.15*(settled-before) {
				t.Errorf("interval %d after the cut has %v: %.3f, and %.3f in the end", n-cut, used[n], got, settled)
			}
		}
	})
}

// TestLostGradients: of gradients that come now and then, or not for ten intervals, what is there is used, and five intervals after they are back settings are good.
func TestLostGradients(t *testing.T) {
	w := newWorld(0.9, 0.9, 0.02, 0.02)
	for name, comes := range map[string]func(interval int) bool{
		"every second":    func(n int) bool { return n%2 == 0 },
		"one of five":     func(n int) bool { return n%5 == 0 },
		"not for a while": func(n int) bool { return n < 15 || n >= 25 },
	} {
		t.Run(name, func(t *testing.T) {
			eachRule(t, w, func(t *testing.T, a *Adapter, holds func([]Config, int), settled float64) {
				used := w.play(t, a, 60, comes)
				holds(used, 35)
				for n := 30; n < 60; n++ {
					if got := w.objective(used[n], 1); settled-got > 0.1 {
						t.Errorf("interval %d has %v: %.3f of %.3f", n, used[n], got, settled)
					}
				}
			})
		})
	}
}

// TestUselessGradients: zeros, and what is no number, leave settings on their ladders, and ten intervals of them do no harm that five good ones do not mend.
func TestUselessGradients(t *testing.T) {
	for _, bad := range []float64{0, math.NaN(), math.Inf(1)} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			w := newWorld(0.9, 0.9, 0.02, 0.02)
			eachRule(t, w, func(t *testing.T, a *Adapter, holds func([]Config, int), settled float64) {
				var used []Config
				for n := range 50 {
					var step func(do []Action)
					step = func(do []Action) {
						for _, action := range do {
							switch action := action.(type) {
							case Use:
								used = append(used, action.Config)
								step(a.Step(Answered{action.Interval, 4}))
							case Measure:
								against, trials := w.measure(action.Probe, 4)
								if n >= 20 && n < 30 {
									for i := range trials {
										for k := range trials[i].Changes {
											trials[i].Changes[k] = bad
										}
									}
								}
								step(a.Step(Measured{action.Interval, against, trials}))
							}
						}
					}
					step(a.Step(Captured{n}))
				}
				if len(used) != 50 {
					t.Fatalf("%d of 50 intervals are prepared", len(used))
				}
				if bad != 0 && !slices.Equal(used[22], used[29]) {
					t.Errorf("settings went from %v to %v by what is no number", used[22], used[29])
				}
				holds(used, 40)
				for n, c := range used[30+goodAfter:] {
					if got := w.objective(c, 1); settled-got > 0.1 {
						t.Errorf("%d intervals later settings are %v: %.3f of %.3f", n+goodAfter, c, got, settled)
					}
				}
			})
		})
	}
}
