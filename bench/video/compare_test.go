package video

import (
	"math"
	"strings"
	"testing"
)

// TestCompare holds that a setting that is dearer and worse does not count for the baseline, and what is between two.
func TestCompare(t *testing.T) {
	mpeg := func(bytes int, f1 float64) Row {
		return Row{Clip: "a", Method: "mpeg", Container: bytes, F1DDS: f1, F1OneAdapt: f1}
	}
	rows := []Row{mpeg(1000, 0.5), mpeg(4000, 0.7), mpeg(2000, 0.4), {Clip: "a", Method: "dds", Setting: "low=1", Container: 1000, F1DDS: 0.6, F1OneAdapt: 0.8}, {Clip: "a", Method: "dds", Setting: "low=2", Container: 4000, F1DDS: 0.6, F1OneAdapt: 0.6}, {Clip: "b", Method: "mpeg", Container: 1, F1DDS: 1}, {Clip: "a", Method: "awstream", Container: 2000, F1DDS: 0.6, F1OneAdapt: 0.5}}
	f1 := func(r *Row) float64 { return r.F1DDS }
	best := front(rows[:3], f1)
	if len(best) != 2 || math.Abs(bytesAt(best, f1, 0.6)-2000) > 1e-6 || math.Abs(f1At(best, f1, 2000)-0.6) > 1e-9 || f1At(best, f1, 9000) != 0.7 || bytesAt(best, f1, 0.1) != 1000 {
		t.Errorf("%+v, %v, %v", best, bytesAt(best, f1, 0.6), f1At(best, f1, 2000))
	}
	if !math.IsNaN(bytesAt(best, f1, 0.71)) || !math.IsNaN(f1At(best, f1, 999)) {
		t.Error("it has an end where it has none")
	}
	var b strings.Builder
	if err := Compare(&b, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range map[int]string{
		1: "a dds low=1 1000 0.600 +0.100 50 % 0.800 +0.300 never has it", 2: "a dds low=2 4000 0.600 -0.100 200 % 0.600 -0.100 200 %",
		6: "a dds 2 +0.000 100 % +0.100 200 %, without 1 that it never has",
		7: "a awstream 1 +0.000 100 % -0.100 200 %", 10: "a dds 2 +0.000 100 % +0.100 never has it",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}
