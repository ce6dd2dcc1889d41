package cost

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestCostModel(t *testing.T) {
	profiled := New(wire.Cost{Base: 10 * time.Millisecond, Unit: 100 * time.Microsecond, Pair: 1e-9})
	unknown := New(wire.Cost{})
	for _, tt := range []struct {
		name          string
		model         Model
		input, cached int
		tokens        float64
		seconds       float64
	}{
		{"without a profile: cache-miss tokens", unknown, 1000, 400, defaultBase + 600, (defaultBase + 600) * unknownUnit},
		// 0.01 s + 2000 * 1e-4 s + (3000^2 - 1000^2)/2 * 1e-9 s
		{"with one: in tokens of 100 us", profiled, 3000, 1000, 100 + 2000 + 40, 0.214},
		{"all cached but one", profiled, 3000, 2999, 100 + 1 + 0.029995, 0.01010299},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tokens, seconds := tt.model.Units(WorkOf(tt.input, tt.cached)), tt.model.Seconds(WorkOf(tt.input, tt.cached).Alone())
			if math.Abs(tokens-tt.tokens) > 1e-6 || math.Abs(seconds-tt.seconds) > 1e-6 {
				t.Errorf("%v tokens, %v s; want %v and %v", tokens, seconds, tt.tokens, tt.seconds)
			}
		})
	}
}

// TestProfileIsScaled feeds passes of 1000 tokens to a model with a profile and looks at its prediction
// for another.
func TestProfileIsScaled(t *testing.T) {
	for _, tt := range []struct {
		name     string
		took     []time.Duration
		min, max float64
	}{
		{"a steady change is followed", repeat(2*time.Second, 50), 1.98, 2},
		{"one odd pass counts little", repeat(time.Hour, 1), 1, 1.31},
		{"no pass takes the rate far from the profile", repeat(time.Hour, 500), maxScale, maxScale},
		{"nor near zero", repeat(time.Nanosecond, 500), 1.0 / maxScale, 1.0 / maxScale},
		{"a pass of no time says nothing", repeat(0, 5), 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New(wire.Cost{Unit: time.Millisecond})
			for _, took := range tt.took {
				m.Observe(WorkOf(1000, 0).Alone(), took)
			}
			if got := m.Seconds(WorkOf(1000, 0).Alone()); got < tt.min-1e-9 || got > tt.max+1e-9 {
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

// TestModelIsFitted lets an executor without a profile run passes of several sizes, with 5 % of noise,
// and compares what is predicted of others with what they take.
func TestModelIsFitted(t *testing.T) {
	type job struct{ input, cached int }
	short, long := job{200, 0}, job{60000, 0}
	for _, tt := range []struct {
		name   string
		truth  rates
		passes []job
		ask    job
		within float64 // relative
	}{
		{"the same again", rates{0.1, 1e-3, 0}, []job{short}, short, 0.02},
		{"longer than ever, by tokens", rates{0.01, 1e-4, 0}, []job{short}, long, 0.7},
		{"one long among many short, mostly attention", rates{0.002, 15e-6, 1.67e-8}, slices.Concat([]job{long}, times(short, 500)), long, 0.06},
		{"and the short", rates{0.002, 15e-6, 1.67e-8}, slices.Concat([]job{long}, times(short, 500)), short, 0.02},
		{"between two sizes", rates{0.05, 1e-4, 1e-8}, slices.Concat(times(short, 50), times(long, 50)), job{20000, 0}, 0.5},
		{"between four", rates{0.05, 1e-4, 1e-8}, slices.Concat(times(short, 50), times(job{2000, 0}, 50), times(job{30000, 0}, 50), times(long, 50)), job{10000, 0}, 0.05},
		{"a long prefix cached", rates{0.05, 1e-4, 1e-8}, slices.Concat(times(short, 50), times(job{60000, 59000}, 50), times(long, 50)), job{30000, 29000}, 0.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			m := New(wire.Cost{})
			for _, j := range tt.passes {
				w := WorkOf(j.input, j.cached).Alone()
				m.Observe(w, time.Duration(tt.truth.seconds(w)*(0.95+0.1*rng.Float64())*1e9))
			}
			w := WorkOf(tt.ask.input, tt.ask.cached).Alone()
			got, want := m.Seconds(w), tt.truth.seconds(w)
			if math.Abs(got-want) > tt.within*want {
				t.Errorf("%+v is predicted to take %.4g s and takes %.4g; rates %+v", tt.ask, got, want, m.rates)
			}
		})
	}
}

func times[T any](v T, n int) []T { return slices.Repeat([]T{v}, n) }

// TestFitFollows changes the machine under a fitted model: after some passes it must predict the new
// one, for all sizes that came.
func TestFitFollows(t *testing.T) {
	m := New(wire.Cost{})
	slow := rates{0.1, 1e-3, 1e-7}
	for i := range 300 {
		truth := slow
		if i < 100 {
			truth = rates{0.05, 5e-4, 5e-8}
		}
		w := WorkOf([]int{100, 1000, 10000}[i%3], 0).Alone()
		m.Observe(w, time.Duration(truth.seconds(w)*1e9))
	}
	for _, n := range []int{100, 1000, 10000} {
		w := WorkOf(n, 0).Alone()
		if got, want := m.Seconds(w), slow.seconds(w); math.Abs(got-want) > 0.02*want {
			t.Errorf("%d tokens are predicted to take %.4g s and take %.4g", n, got, want)
		}
	}
}

// TestSolveNonNegative holds solutions to the conditions of optimality (Karush, Kuhn and Tucker): the
// gradient is zero where an unknown is positive, and not negative where it is zero.
func TestSolveNonNegative(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	zeros := 0
	for range 2000 {
		var a [3][3]float64
		var b [3]float64
		for range 4 {
			x := [3]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
			for k := range x {
				b[k] += x[k] * rng.NormFloat64()
				for l := range x {
					a[k][l] += x[k] * x[l]
				}
			}
		}
		for k := range a {
			a[k][k] += 0.01
		}
		x := solveNonNegative(a, b)
		for k := range x {
			gradient := a[k][0]*x[0] + a[k][1]*x[1] + a[k][2]*x[2] - b[k]
			if x[k] < 0 || gradient < -1e-9 || x[k] > 0 && gradient > 1e-9 {
				t.Fatalf("x = %v, gradient %v for unknown %d of %v x = %v", x, gradient, k, a, b)
			}
			if x[k] == 0 {
				zeros++
			}
		}
	}
	if zeros == 0 {
		t.Error("no unknown is ever held at zero: the test shows nothing")
	}
}

// TestScoredPositionsAreNoTokens: passes that score each position, which takes ten times as long, say what that takes, and change
// nothing of what others are predicted to take, whether a profile gave their rates or passes did.
func TestScoredPositionsAreNoTokens(t *testing.T) {
	for _, m := range []Model{New(wire.Cost{}), New(wire.Cost{Base: time.Millisecond, Unit: 100 * time.Microsecond})} {
		for range 50 {
			w := WorkOf(1000, 0).Alone()
			m.Observe(w, 101*time.Millisecond)
		}
		before := m.Seconds(WorkOf(1000, 0).Alone())
		for n := range 50 {
			w := WorkOf(100+n*20, 0).Alone()
			w.Rows = w.Units
			m.Observe(w, time.Duration(1100*w.Units)*time.Microsecond+time.Millisecond)
		}
		if after := m.Seconds(WorkOf(1000, 0).Alone()); after != before || math.Abs(after-0.101) > 0.005 {
			t.Errorf("a pass without scores: %.3f s, and %.3f s after some with them; want 0.101 s", before, after)
		}
		scored := WorkOf(600, 0).Alone()
		scored.Rows = scored.Units
		if got := m.Seconds(scored); math.Abs(got-0.661) > 0.05 {
			t.Errorf("a pass with scores: %.3f s, want 0.661 s", got)
		}
	}
}
