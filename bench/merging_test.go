package bench

import (
	"io"
	"testing"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/published"
)

// TestMergingBounds: of the groups of each workload, as the paper's authors form them, how many save half, 80 and 90 % of the optimum,
// each tried in the order of what it saves; and the paper's statements on where bytes are.
func TestMergingBounds(t *testing.T) {
	want := map[string][4]int{"LP1": {6, 12, 19, 118}, "LP3": {3, 6, 8, 24}, "MP1": {4, 11, 15, 82}, "HP2": {1, 5, 10, 145}, "HP3": {3, 9, 14, 77}, "HP4": {4, 12, 21, 137}}
	for name, w := range want {
		models, err := published.Models(name)
		if err != nil {
			t.Fatal(err)
		}
		steps := mergingSteps(merging.NewPlan(models))
		got := [4]int{3: len(steps)}
		for i, percent := range []float64{50, 80, 90} {
			for got[i] < len(steps) && (got[i] == 0 || steps[got[i]-1].saved < percent) {
				got[i]++
			}
		}
		if got != w {
			t.Errorf("%s: groups for 50, 80 and 90 %% and all are %d, want %d", name, got, w)
		}
	}
}

// TestWhereBytesAre: the paper's statements of figure 9.
func TestWhereBytesAre(t *testing.T) {
	x := Experiments{Out: t.TempDir(), Log: io.Discard}
	if err := x.mergingCurves(); err != nil {
		t.Fatal(err)
	}
	for _, row := range readCells(t, x.Out, "merging-curves") {
		switch row["network"] {
		case "vgg": // "a layer three positions from the end accounts for 73 %"
			if number(t, row, "its_place_from_the_end") != 3 || number(t, row, "percent_in_largest") < 73 || number(t, row, "percent_in_largest") > 77 {
				t.Errorf("%v", row)
			}
		case "frCNN-r50": // "two layers in the last 10 account for 85 %"
			if number(t, row, "percent_in_two_largest") < 85 || number(t, row, "percent_in_two_largest") > 85.5 {
				t.Errorf("%v", row)
			}
		}
	}
}
