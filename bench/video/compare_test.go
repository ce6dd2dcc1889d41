package video

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestCompare holds that a setting that is dearer and worse does not count for the baseline, and what is between two.
func TestCompare(t *testing.T) {
	mpeg := func(bytes int, f1 float64) Row {
		return Row{Clip: "a", Method: "mpeg", Container: bytes, F1DDS: f1, F1OneAdapt: f1}
	}
	rows := []Row{mpeg(1000, 0.5), mpeg(4000, 0.7), mpeg(2000, 0.4), {Clip: "a", Method: "dds", Setting: "low=1", Container: 1000, F1DDS: 0.6, F1OneAdapt: 0.8}, {Clip: "a", Method: "dds", Setting: "low=2", Container: 4000, F1DDS: 0.6, F1OneAdapt: 0.6}, {Clip: "b", Method: "mpeg", Container: 1, F1DDS: 1}, {Clip: "a", Method: "awstream", Container: 2000, F1DDS: 0.6, F1OneAdapt: 0.5}}
	m := measure{byDDS, Resources[0].of}
	best := m.paretoFront(rows[:3])
	if len(best) != 2 || math.Abs(m.costAt(best, 0.6)-2000) > 1e-6 || math.Abs(m.f1At(best, 2000)-0.6) > 1e-9 || m.f1At(best, 9000) != 0.7 || m.costAt(best, 0.1) != 1000 {
		t.Errorf("%+v, %v, %v", best, m.costAt(best, 0.6), m.f1At(best, 2000))
	}
	if !math.IsNaN(m.costAt(best, 0.71)) || !math.IsNaN(m.f1At(best, 999)) {
		t.Error("it has an end where it has none")
	}
	var b strings.Builder
	if err := Compare(&b, rows, Resources[0], []string{"mpeg", "awstream"}); err != nil {
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

// TestCompareFrames: where it is the device's time that is saved, gradients count as the frames that could have been looked at meanwhile.
func TestCompareFrames(t *testing.T) {
	row := func(method string, frames int, f1 float64, gradients time.Duration) Row {
		return Row{Clip: "a", Method: method, Setting: "x=1", Container: 1, F1DDS: f1, F1OneAdapt: f1, Inferences: frames, Server: time.Duration(frames)*time.Second + gradients, GradientTime: gradients}
	}
	var b strings.Builder
	if err := Compare(&b, []Row{row("reducto", 10, 0.5, 0), row("reducto", 40, 0.7, 0), row("oneadapt", 15, 0.7, 5*time.Second)}, Resources[1], []string{"reducto"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(strings.Split(b.String(), "\n")[1]), " "); got != "a oneadapt x=1 20 0.700 +0.100 50 % 0.700 +0.100 50 %" {
		t.Errorf("it says %q", got)
	}
}
