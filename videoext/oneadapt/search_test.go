package oneadapt

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestSplit: of two settings, the share of blocks that lose most by the cheaper one get the dearer, as the published code's quantile does.
func TestSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	knobs := make([]Knob, 400)
	for i := range knobs {
		knobs[i] = Even("block", 2)
	}
	rule, err := NewSplit(Split{Share: 0.05}, knobs)
	if err != nil {
		t.Fatal(err)
	}
	probe := rule.Probe(rule.Start())
	losses := make([]float64, len(knobs))
	for i := range losses {
		losses[i] = math.Exp(4 * r.NormFloat64())
	}
	got := rule.Next(Trial{Config: probe.Against, Changes: make([]float64, len(knobs)), Cost: 1}, []Trial{{Config: probe.Configs[0], Changes: losses, Cost: 0.25}}, 3)
	sorted := slices.Sorted(slices.Values(losses))
	least := sorted[len(sorted)-20]
	for i, loss := range losses {
		if want := loss >= least; (got[i] == 1) != want {
			t.Errorf("block %d, which loses %v, has setting %d; %v is the least of the 20 that lose most", i, loss, got[i], least)
		}
	}
}

// TestSplitLevels: each block has the setting of the least loss and price, among several.
func TestSplitLevels(t *testing.T) {
	knobs := []Knob{Even("a", 3), Even("b", 3), Even("c", 3)}
	rule, err := NewSplit(Split{Share: 0.5}, knobs)
	if err != nil {
		t.Fatal(err)
	}
	probe := rule.Probe(nil)
	if len(probe.Configs) != 2 || !slices.Equal(probe.Configs[1], Config{1, 1, 1}) || !slices.Equal(probe.Against, Config{2, 2, 2}) {
		t.Fatalf("it asks for %v", probe)
	}
	tried := []Trial{{probe.Configs[0], []float64{9, 4, 1}, 0, nil}, {probe.Configs[1], []float64{1, 0.5, 0.9}, 0.5, nil}}
	// the price is 4 for the dearest: block a loses 9, 1 + 2, 4; b 4, 0.5 + 2, 4; c 1, 0.9 + 2, 4
	if got := rule.Next(Trial{probe.Against, make([]float64, 3), 1, nil}, tried, 1); !slices.Equal(got, Config{1, 1, 0}) {
		t.Errorf("the settings are %v", got)
	}
}

// TestBest is held to trying all.
func TestBest(t *testing.T) {
	w := newWorld(0.8, 0.05)
	rule, err := NewBest(Best{Weight: 0.4, Gain: 1}, w.knobs)
	if err != nil {
		t.Fatal(err)
	}
	probe := rule.Probe(rule.Start())
	if len(probe.Configs) != 48 {
		t.Errorf("%d configurations are tried beside the dearest", len(probe.Configs))
	}
	against, trials := w.measure(probe, 4)
	if got, want := rule.Next(against, trials, 4), w.best(0.4); !slices.Equal(got, want) {
		t.Errorf("it takes %v, the best is %v", got, want)
	}
}

func TestWrong(t *testing.T) {
	knobs := []Knob{Even("a", 3), Even("b", 2)}
	many := slices.Repeat(knobs, 5)
	broken := []Knob{{Name: "odd", Places: []float64{0, 0.5, 0.5, 1}}}
	_, rate := NewAscent(Ascent{Rate: math.NaN(), Weight: 1, Gain: 1}, knobs, Config{0, 0})
	_, short := NewAscent(Ascent{Rate: 1, Weight: 1, Gain: 1}, knobs, Config{0})
	_, beyond := NewAscent(Ascent{Rate: 1, Weight: 1, Gain: 1}, knobs, Config{0, 2})
	_, ladder := NewAscent(Ascent{Rate: 1, Weight: 1, Gain: 1}, broken, Config{0})
	_, uneven := NewSplit(Split{Share: 0.5}, knobs)
	_, share := NewSplit(Split{Share: 1}, knobs)
	_, all := NewBest(Best{Weight: 1, Gain: 1}, many)
	_, options := New(&Best{}, nil, Options{})
	for want, err := range map[string]error{
		"rate of NaN": rate, "2 knobs begin with 1": short, "knob b begins with setting 2 of 2": beyond, "place 0.5 is not below 0.5": ladder,
		"knob b has 2 settings, a has 3": uneven, "share of 1": share, "more than 64": all, "fresh for 0 intervals": options,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestAdam: its first step is of size one, whatever the gradient; a gradient that turns soon turns it too.
func TestAdam(t *testing.T) {
	m := &Adam{First: 0.5, Second: 0.5}
	for i, test := range []struct{ slope, want float64 }{{1e-3, 1}, {1e-3, 1}, {-1e-3, -1.0 / 7}, {-1e-3, -0.6}} {
		s := []float64{test.slope}
		if m.averageSlopes(s); math.Abs(s[0]-test.want) > 1e-3 {
			t.Errorf("step %d is %v, want %v", i, s[0], test.want)
		}
	}
}

// TestSplitFew: where fewer blocks than the share lose anything these alone are dear, and where none does all are.
func TestSplitFew(t *testing.T) {
	for name, c := range map[string]struct {
		losses []float64
		want   Config
	}{
		"few":  {[]float64{0, 0, 3, 0, 0, 0, 0, 0}, Config{0, 0, 2, 0, 0, 0, 0, 0}},
		"none": {make([]float64, 8), Config{2, 2, 2, 2, 2, 2, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			knobs := make([]Knob, len(c.losses))
			for i := range knobs {
				knobs[i] = Even("block", 3)
			}
			rule, err := NewSplit(Split{Share: 0.5}, knobs)
			if err != nil {
				t.Fatal(err)
			}
			probe := rule.Probe(nil)
			tried := []Trial{{probe.Configs[0], c.losses, 0.2, nil}, {probe.Configs[1], c.losses, 0.5, nil}}
			if got := rule.Next(Trial{probe.Against, make([]float64, len(knobs)), 1, nil}, tried, 1); !slices.Equal(got, c.want) {
				t.Errorf("the settings are %v, want %v", got, c.want)
			}
		})
	}
}
