package oneadapt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// world is a pipeline whose accuracy and cost are known: accuracy = sum of weights x (1 - (1 - place)^2), cost is the mean place.
type world struct {
	knobs   []Knob
	weights []float64
}

func newWorld(weights ...float64) *world {
	w := &world{weights: weights}
	for i := range weights {
		w.knobs = append(w.knobs, Even(fmt.Sprint("k", i), 7))
	}
	return w
}

func (w *world) accuracy(c Config) (sum float64) {
	for i, weight := range w.weights {
		x := w.knobs[i].Places[c[i]]
		sum += weight * (1 - (1-x)*(1-x))
	}
	return sum
}

func (w *world) cost(c Config) (sum float64) {
	for i := range c {
		sum += w.knobs[i].Places[c[i]] / float64(len(c))
	}
	return sum
}

func (w *world) objective(c Config, weight float64) float64 { return w.accuracy(c) - weight*w.cost(c) }

// best is the configuration of the greatest objective; all are tried.
func (w *world) best(weight float64) (best Config) {
	c := Cheapest(w.knobs)
	for {
		if best == nil || w.objective(c, weight) > w.objective(best, weight) {
			best = slices.Clone(c)
		}
		i := 0
		for ; i < len(c) && c[i] == len(w.knobs[i].Places)-1; i++ {
			c[i] = 0
		}
		if i == len(c) {
			return best
		}
		c[i]++
	}
}

// measure carries out a probe, in a world of so many elements.
func (w *world) measure(p Probe, elements float64) (against Trial, trials []Trial) {
	trial := func(c Config) Trial {
		t := Trial{Config: c, Changes: make([]float64, p.Parts), Cost: w.cost(c)}
		for i := range c {
			one := p.Against.withSetting(i, c[i])
			t.Changes[i%p.Parts] += elements * math.Abs(w.accuracy(one)-w.accuracy(p.Against))
		}
		return t
	}
	for _, c := range p.Configs {
		trials = append(trials, trial(c))
	}
	return trial(p.Against), trials
}

// play runs intervals and returns the configuration of each.
func (w *world) play(t *testing.T, a *Adapter, intervals int, gradient func(interval int) bool) (used []Config) {
	t.Helper()
	for n := range intervals {
		todo := a.Step(Captured{n})
		for len(todo) > 0 {
			do := todo[0]
			todo = todo[1:]
			switch do := do.(type) {
			case Use:
				if do.Interval != len(used) {
					t.Fatalf("interval %d is prepared, %d were", do.Interval, len(used))
				}
				used = append(used, do.Config)
				if gradient(do.Interval) {
					todo = append(todo, a.Step(Answered{do.Interval, 4})...)
				}
			case Measure:
				against, trials := w.measure(do.Probe, 4)
				todo = append(todo, a.Step(Measured{do.Interval, against, trials})...)
			}
		}
	}
	if len(used) != intervals {
		t.Fatalf("%d of %d intervals are prepared", len(used), intervals)
	}
	return used
}

func always(int) bool { return true }

// TestConverges: from either end of every knob, the objective is near its greatest after five intervals and stays there.
func TestConverges(t *testing.T) {
	for _, separable := range []bool{false, true} {
		for _, from := range []string{"cheapest", "dearest"} {
			w := newWorld(0.8, 0.3, 0.5, 0.05)
			start := Cheapest(w.knobs)
			if from == "dearest" {
				start = Dearest(w.knobs)
			}
			rule, err := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1, Separable: separable, Elastic: true}, w.knobs, start)
			if err != nil {
				t.Fatal(err)
			}
			o := Usual()
			o.Ahead = separable
			a, err := New(rule, w.knobs, o)
			if err != nil {
				t.Fatal(err)
			}
			used := w.play(t, a, 30, always)
			best := w.objective(w.best(1), 1)
			worst := w.objective(start, 1)
			for n, c := range used[6:] {
				if got := w.objective(c, 1); best-got > 0.1*(best-worst) {
					t.Errorf("separable %v, from the %s: interval %d has %v, whose objective is %.3f; the best is %.3f, the first was %.3f", separable, from, n+6, c, got, best, worst)
				}
			}
		}
	}
}

// TestCosts: of two knobs that change the output as much, the one that costs little goes up and the other one goes down, where it is known what each costs.
func TestCosts(t *testing.T) {
	knobs := []Knob{Even("dear", 5), Even("cheap", 5)}
	rule, err := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1, Separable: true}, knobs, Config{2, 2})
	if err != nil {
		t.Fatal(err)
	}
	probe := rule.Probe(Config{2, 2})
	got := rule.Next(Trial{Config{2, 2}, []float64{0, 0}, 0.5, []float64{0.45, 0.05}}, []Trial{{probe.Configs[0], []float64{0.075, 0.075}, 0.75, []float64{0.675, 0.075}}}, 1)
	if !slices.Equal(got, Config{1, 4}) {
		t.Errorf("the settings are %v", got)
	}
}

// TestBadGradientsChangeNothing: without gradients, or by ones that are no numbers, settings stay as they are; afterwards they are good again.
func TestBadGradientsChangeNothing(t *testing.T) {
	w := newWorld(0.8, 0.1)
	rule, err := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1}, w.knobs, Cheapest(w.knobs))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(rule, w.knobs, Usual())
	if err != nil {
		t.Fatal(err)
	}
	used := w.play(t, a, 40, func(interval int) bool { return interval < 10 || interval >= 30 })
	for n := 17; n < 30; n++ { // the last gradient is used for five more
		if !slices.Equal(used[n], used[16]) {
			t.Errorf("interval %d has %v without a gradient, before it was %v", n, used[n], used[16])
		}
	}
	if got, best := w.objective(used[35], 1), w.objective(w.best(1), 1); best-got > 0.05 {
		t.Errorf("five intervals after gradients came back the objective is %.3f, the best is %.3f", got, best)
	}
}

func TestNotANumber(t *testing.T) {
	w := newWorld(0.8)
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1} {
		rule, _ := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1}, w.knobs, Config{3})
		a, err := New(rule, w.knobs, Usual())
		if err != nil {
			t.Fatal(err)
		}
		a.Step(Captured{0})
		a.Step(Answered{0, 1})
		do := a.Step(Captured{1})
		m, ok := do[len(do)-1].(Measure)
		if !ok {
			t.Fatalf("%v is done", do)
		}
		a.Step(Measured{1, Trial{Config: m.Against, Changes: []float64{0}, Cost: 0.5}, []Trial{{Config: m.Configs[0], Changes: []float64{bad}, Cost: 0.6}}})
		if do := a.Step(Captured{2}); !slices.Equal(do[0].(Use).Config, Config{3}) {
			t.Errorf("a change of %v leads to %v", bad, do)
		}
	}
	a, _ := New(&Best{knobs: w.knobs}, w.knobs, Usual())
	a.Step(Captured{0})
	a.Step(Answered{0, math.NaN()})
	if do := a.Step(Captured{1}); len(do) != 1 {
		t.Errorf("with a utility that is no number, %v is done", do)
	}
}

// TestBlind: a network that sees nothing at cheap settings, and so has no gradient, is shown the dearest ones now and then, ever more rarely.
func TestBlind(t *testing.T) {
	w := newWorld(0)
	rule, _ := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1}, w.knobs, Cheapest(w.knobs))
	a, err := New(rule, w.knobs, Usual())
	if err != nil {
		t.Fatal(err)
	}
	var dear []int
	for n, c := range w.play(t, a, 100, always) {
		if c[0] > 0 {
			dear = append(dear, n)
		}
	}
	if want := []int{6, 16, 36, 76}; !slices.Equal(dear, want) {
		t.Errorf("intervals %v are dearer than the cheapest, want %v", dear, want)
	}
}

// TestLookEnds: if no gradient comes behind the dearest configuration, that stays for its one interval all the same.
func TestLookEnds(t *testing.T) {
	w := newWorld(0)
	rule, _ := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1}, w.knobs, Cheapest(w.knobs))
	a, err := New(rule, w.knobs, Options{Fresh: 1, Blind: 5})
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range w.play(t, a, 40, func(interval int) bool { return interval < 5 }) {
		if dear := c[0] > 0; dear != (n == 6) {
			t.Errorf("interval %d has %v", n, c)
		}
	}
}

// TestTranscript is what is said of a few intervals, word for word.
func TestTranscript(t *testing.T) {
	tests := []struct {
		name  string
		ahead bool
		steps []Event
		want  string
	}{
		{"for the next interval", false, []Event{
			Captured{0}, Captured{0}, Answered{0, 2}, Captured{1},
			Measured{1, Trial{Config{3}, []float64{0}, 0.5, nil}, []Trial{{Config{4}, []float64{1}, 0.6, nil}}}, Captured{2}, NotMeasured{2}, Captured{3},
		}, `
			{0} Use{0 [3]}
			{0}
			{0 2}
			{1} Use{1 [3]} Measure{1 0 {[3] [[4]] 1}}
			{1 {[3] [0] 0.5 []} [{[4] [1] 0.6 []}]}
			{2} Use{2 [6]} Measure{2 0 {[6] [[5]] 1}}
			{2}
			{3} Use{3 [6]} Measure{3 0 {[6] [[5]] 1}}`},
		{"ahead", true, []Event{
			Captured{0}, Answered{0, 2}, Captured{1}, Measured{1, Trial{Config{3}, []float64{0}, 0.5, nil}, []Trial{{Config{4}, []float64{1}, 0.6, nil}}},
			Captured{2}, Captured{3}, NotMeasured{2}, NotMeasured{3}, Captured{20},
		}, `
			{0} Use{0 [3]}
			{0 2}
			{1} Measure{1 0 {[3] [[4]] 1}}
			{1 {[3] [0] 0.5 []} [{[4] [1] 0.6 []}]} Use{1 [6]}
			{2} Measure{2 0 {[6] [[5]] 1}}
			{3} Use{2 [6]} Use{3 [6]}
			{2}
			{3}
			{20} Use{20 [6]}`},
	}
	for _, test := range tests {
		knobs := []Knob{Even("qp", 7)}
		rule, err := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1}, knobs, Config{3})
		if err != nil {
			t.Fatal(err)
		}
		o := Usual()
		o.Ahead = test.ahead
		a, err := New(rule, knobs, o)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, e := range test.steps {
			fmt.Fprintf(&got, "\n\t\t\t%v", e)
			for _, do := range a.Step(e) {
				fmt.Fprintf(&got, " %s%v", strings.TrimPrefix(fmt.Sprintf("%T", do), "oneadapt."), do)
			}
		}
		if got.String() != test.want {
			t.Errorf("%s:%s\nwant%s", test.name, got.String(), test.want)
		}
	}
}

// TestAnyOrder: whatever comes, twice, late or never, each interval that was captured is prepared once and in order, by settings that there are.
func TestAnyOrder(t *testing.T) {
	w := newWorld(0.8, 0.2, 0.4)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		rule, _ := NewAscent(Ascent{Rate: 0.5, Weight: 1, Gain: 1, Separable: seed%2 == 0}, w.knobs, Cheapest(w.knobs))
		o := Options{Ahead: seed%3 == 0, Fresh: 1 + r.IntN(5), Blind: r.IntN(3)}
		a, err := New(rule, w.knobs, o)
		if err != nil {
			t.Fatal(err)
		}
		var waits []Event
		captured, used := -1, -1
		for range 200 {
			var e Event
			if k := len(waits); k > 0 && r.IntN(3) > 0 {
				if e = waits[r.IntN(k)]; r.IntN(4) > 0 {
					waits = slices.DeleteFunc(waits, func(o Event) bool { return fmt.Sprint(o) == fmt.Sprint(e) })
				}
			} else {
				captured += 1 + r.IntN(2)
				e = Captured{captured}
			}
			for _, do := range a.Step(e) {
				switch do := do.(type) {
				case Use:
					if do.Interval <= used || do.Interval > captured {
						t.Fatalf("seed %d: interval %d is prepared after %d", seed, do.Interval, used)
					}
					used = do.Interval
					waits = append(waits, Answered{do.Interval, r.Float64() * 9})
					for i, s := range do.Config {
						if s < 0 || s > 6 {
							t.Fatalf("seed %d: knob %d has setting %d", seed, i, s)
						}
					}
				case Measure:
					if do.Gradient < do.Interval-o.Fresh || do.Gradient > do.Interval {
						t.Fatalf("seed %d: interval %d is measured by the gradient of %d", seed, do.Interval, do.Gradient)
					}
					against, trials := w.measure(do.Probe, r.Float64()*9)
					waits = append(waits, Measured{do.Interval, against, trials}, NotMeasured{do.Interval})
				}
			}
			if !o.Ahead && used != captured {
				t.Fatalf("seed %d: interval %d waits", seed, captured)
			}
		}
		a.Step(Captured{captured + 1})
		if do := a.Step(Captured{captured + 2}); o.Ahead && len(do) == 0 {
			t.Errorf("seed %d: nothing is prepared", seed)
		}
	}
}

// TestFree: a knob that costs nothing and changes nothing comes to its cheapest setting, as fast as one that costs and changes nothing; one that costs nothing and changes something to its dearest.
func TestFree(t *testing.T) {
	knobs := []Knob{Even("free", 5), Even("vain", 5), Even("gift", 5)}
	for _, from := range []Config{Dearest(knobs), {2, 2, 2}, Cheapest(knobs)} {
		rule, err := NewAscent(Ascent{Rate: 0.5, Weight: 0.4, Gain: 1, Separable: true, Elastic: true}, knobs, from)
		if err != nil {
			t.Fatal(err)
		}
		trial := func(c Config) Trial {
			gift, vain := knobs[2].Places[c[2]], knobs[1].Places[c[1]]
			return Trial{Config: c, Changes: []float64{0, 0, 1 - gift}, Cost: vain, Costs: []float64{0, vain, 0}}
		}
		used := rule.Start()
		for range 5 {
			probe := rule.Probe(used)
			against, tried := trial(probe.Against), []Trial(nil)
			for _, c := range probe.Configs {
				one := trial(c)
				one.Changes[2] = math.Abs(one.Changes[2] - against.Changes[2])
				tried = append(tried, one)
			}
			used = rule.Next(against, tried, 1)
		}
		if !slices.Equal(used, Config{0, 0, 4}) {
			t.Errorf("from %v they come to %v", from, used)
		}
	}
}
