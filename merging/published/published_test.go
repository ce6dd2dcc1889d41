package published

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/merging"
)

// TestWorkloads: megabytes of each workload, those that sharing saves at most, and what of them stems alone do, in percent.
func TestWorkloads(t *testing.T) {
	want := map[string][3]float64{
		"LP1": {1747.4, 31.89, 17.80}, "LP2": {473.6, 34.15, 1.16}, "LP3": {1057.5, 17.94, .52},
		"MP1": {2766.2, 57.35, 51.93}, "MP2": {459.5, 46.82, 22.48}, "HP2": {4583.1, 65.93, 51.44},
		"HP3": {11501.1, 86.52, 79.66}, "HP4": {1478.1, 61.65, 59.44}, "HP6": {11323.5, 85.86, 78.62},
	}
	if len(Names()) != len(want) {
		t.Errorf("%d workloads, want %d", len(Names()), len(want))
	}
	for name, w := range want {
		models, err := Models(name)
		if err != nil {
			t.Fatal(err)
		}
		p := merging.NewPlan(models)
		total := float64(p.Total())
		got := [3]float64{total / (1 << 20), 100 * float64(p.Shared()) / total, 100 * float64(p.Stem()) / total}
		for i := range got {
			if math.Abs(got[i]-w[i]) > .06 {
				t.Errorf("%s: %.2f, want %.2f", name, got, w)
				break
			}
		}
	}
	if _, err := Models("LP9"); err == nil {
		t.Error("LP9 is no error")
	}
}

// TestArchitectures: parameters in convolutions and linear layers, by the totals that their authors publish less those of
// normalisations; a head of 1,000 classes.
func TestArchitectures(t *testing.T) {
	for name, want := range map[string]int64{"r18": 11689512 - 9600, "r50": 25557032 - 53120, "r152": 60192808 - 151424, "vgg": 138357544} {
		sum := merging.Model{Layers: Layers(name, 1000)}.Bytes() / 4
		if sum != want {
			t.Errorf("%s has %d parameters, want %d", name, sum, want)
		}
	}
	if Layers("none", 2) != nil {
		t.Error("an unknown architecture has layers")
	}
}
