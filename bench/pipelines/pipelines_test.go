package pipelines

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

// tones is a study of a pipeline whose network is a formula.
func tones() *Study {
	p := pipelinetest.NewTones(4, true)
	return &Study{
		Pipeline:  p,
		Baselines: Profiled("chameleon", pipeline.Grid(p.Knobs(), 4), []Period{{10, 1}}, []float64{0.3}),
		Trades:    []float64{0.2, 0.3, 0.5},
		Known:     []pipeline.Tried{{Config: oneadapt.Config{4, 4, 4, 4}, Accuracy: 1, Cost: 1}, {Config: oneadapt.Config{1, 3, 1, 3}, Accuracy: 0.95, Cost: 0.5}},
		Rule: func(trade float64, from oneadapt.Config) (oneadapt.Rule, error) {
			return oneadapt.NewAscent(oneadapt.Ascent{Rate: 0.5, Weight: trade, Gain: 1, Separable: true, Elastic: true}, p.Knobs(), from)
		},
		Close: func() {},
	}
}

func TestStudy(t *testing.T) {
	s := tones()
	lab := pipeline.NewLab(s.Pipeline)
	rows, err := Run(s, lab, func(string, int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5+1+2*3 || rows[7].Setting != "trade=0.2,begun=known" || rows[7].Cost >= rows[6].Cost {
		t.Fatalf("there are %d rows", len(rows))
	}
	f, err := Find(s, lab)
	if err != nil {
		t.Fatal(err)
	}
	if !(f.Cosine > 0.9) || f.Never > 0 || f.Converged > 5 || f.ConvergedWorst < 1 || f.EvenNever > 0 || f.Even > f.Converged+1 {
		t.Errorf("%+v", f)
	}
	gains := Compare(rows)
	if len(gains) != 2*3*3 {
		t.Errorf("there are %d gains", len(gains))
	}
	for _, g := range gains {
		if g.Way == "fixed" && (g.Saved < 0.1 || g.Above < 0.01) { // half of the numbers never count
			t.Errorf("%+v", g)
		}
	}
	dir := t.TempDir()
	if err := Draw(rows, dir); err != nil {
		t.Fatal(err)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "pipeline-tones.svg")); err != nil || !strings.Contains(string(svg), "oneadapt") {
		t.Errorf("the chart lacks a way: %v", err)
	}
	var text strings.Builder
	if err := Write(&text, rows); err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(strings.NewReader(text.String())).ReadAll(); err != nil || len(lines) != 1+len(rows) || lines[1][1] != "fixed" || lines[1][6] != "1" {
		t.Errorf("%v %v", lines, err)
	}
}

// TestVariants: a variant is a way of its own, that is none of the others which OneAdapt stands to, and what comes before the study's beginning does not count.
func TestVariants(t *testing.T) {
	s := tones()
	s.Variants, s.Warm, s.Trades, s.Known = []Variant{{Name: "lag=2", Lag: 2}}, 3, []float64{0.3}, nil
	rows, err := Run(s, pipeline.NewLab(s.Pipeline), func(string, int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5+1+2 || rows[7].Way != "oneadapt lag=2" || rows[7].Intervals != s.Intervals()-3 || rows[7].Cost >= rows[4].Cost {
		t.Errorf("%+v", rows)
	}
	gains := Compare(rows)
	if len(gains) != 2*3 || gains[0].Setting != "trade=0.3" || gains[3].Setting != "lag=2 trade=0.3" {
		t.Errorf("%+v", gains)
	}
	for _, g := range gains {
		if strings.Contains(g.Way, OneAdapt) {
			t.Errorf("OneAdapt stands to itself: %+v", g)
		}
	}
	f, err := Find(s, pipeline.NewLab(s.Pipeline))
	if err != nil || f.Beginnings > s.Intervals()-patience+1 {
		t.Errorf("%d beginnings of %d intervals: %v", f.Beginnings, s.Intervals(), err)
	}
}

func row(way string, cost, accuracy float64) Row {
	return Row{Pipeline: "p", Way: way, Step: pipeline.Step{Cost: cost, Accuracy: accuracy}}
}

// TestCompare: between two settings a way may be sent partly by each; a setting that is worse than another, or than two so, does not count.
func TestCompare(t *testing.T) {
	rows := []Row{row("a", 0.2, 0.5), row("a", 0.6, 0.9), row("a", 0.7, 0.6), row("a", 0.4, 0.55), row("b", 0.5, 0.3), row(OneAdapt, 0.2, 0.7), row(OneAdapt, 0.1, 0.95)}
	want := []Gain{
		{"p", "", "a", 0.5, 0.2}, {"p", "", "b", math.NaN(), math.NaN()}, {"p", "", all, 0.5, 0.2},
		{"p", "", "a", math.NaN(), math.NaN()}, {"p", "", "b", math.NaN(), math.NaN()}, {"p", "", all, math.NaN(), math.NaN()},
	}
	same := func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-9 }
	for i, g := range Compare(rows) {
		if g.Way != want[i].Way || !same(g.Saved, want[i].Saved) || !same(g.Above, want[i].Above) {
			t.Errorf("%d: %+v, want %+v", i, g, want[i])
		}
	}
}

// TestStarts: beginnings differ, and each has as many intervals behind it as there is patience for, if the stream is that long.
func TestStarts(t *testing.T) {
	for intervals, want := range map[int][]int{8: {0}, 15: {0}, 16: {0, 1}, 18: {0, 1, 2, 3}, 60: {0, 5, 10, 15, 20, 25, 30, 35, 40, 45}, 25: {0, 1, 2, 3, 4, 5, 6, 7, 8, 10}} {
		if got := startIntervals(intervals, patience); !slices.Equal(got, want) {
			t.Errorf("%d intervals: %v, want %v", intervals, got, want)
		}
	}
}

// TestEven: runs are even once they are so for three intervals.
func TestEven(t *testing.T) {
	steps := func(accuracies ...float64) (all []pipeline.Step) {
		for _, a := range accuracies {
			all = append(all, pipeline.Step{Accuracy: a, Cost: 2 * (a - 0.5)})
		}
		return all
	}
	flat := steps(0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
	for _, test := range []struct {
		trade float64
		other []pipeline.Step
		want  int
	}{{0, flat, 0}, {0, steps(0.6, 0.54, 0.5, 0.6, 0.47, 0.5), -1}, {0, steps(0.6, 0.6, 0.54, 0.5, 0.46, 0.9), 2}, {0.5, steps(0.9, 0.2, 0.6, 0.7, 0.8, 0.9), 0}} {
		if got := evenInterval(test.trade, flat, test.other); got != test.want {
			t.Errorf("%v: %d, want %d", test.other, got, test.want)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open("nothing", Source{}); err == nil || !strings.Contains(err.Error(), "unknown pipeline nothing") {
		t.Errorf("%v", err)
	}
}
