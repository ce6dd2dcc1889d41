package bench

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
)

// PlotSweep draws mean and P99 latency over the request rate into the folder, one pair of files for
// each workload and one line for each label.
func PlotSweep(points []Point, folder string) error {
	if len(points) == 0 {
		return fmt.Errorf("no points to draw in %s", folder)
	}
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int {
		switch {
		case a.Rate < b.Rate:
			return -1
		case a.Rate > b.Rate:
			return 1
		}
		return 0
	})
	charts := map[string][2]*figures.Chart{}
	for _, p := range points {
		pair, ok := charts[p.Workload]
		if !ok {
			for i, what := range []string{"Mean", "P99"} {
				pair[i] = &figures.Chart{Title: what + " latency, " + filepath.Base(p.Workload), X: "requests/s sent", Y: "seconds", LogY: true}
			}
			charts[p.Workload] = pair
		}
		pair[0].Add(p.Label, p.Rate, p.Mean.Seconds())
		pair[1].Add(p.Label, p.Rate, p.P99.Seconds())
	}
	for name, pair := range charts {
		for i, what := range []string{"mean", "p99"} {
			if err := pair[i].Write(filepath.Join(folder, filepath.Base(name)+"-"+what+".svg")); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sustained is the table of the highest measured rate up to which every run of a label kept its P99
// within bound and failed no request; 0 where none did.
func Sustained(points []Point, bound time.Duration) *figures.Table {
	type key struct{ workload, label string }
	var order []key
	best, broken := map[key]float64{}, map[key]float64{}
	for _, p := range points {
		k := key{filepath.Base(p.Workload), p.Label}
		if _, known := broken[k]; !known {
			order = append(order, k)
			broken[k] = math.Inf(1)
		}
		if p.P99 > bound || p.Failed > 0 {
			broken[k] = min(broken[k], p.Rate)
		}
	}
	for _, p := range points {
		k := key{filepath.Base(p.Workload), p.Label}
		if p.Rate < broken[k] {
			best[k] = max(best[k], p.Rate)
		}
	}
	table := &figures.Table{Header: []string{"workload", "server", fmt.Sprintf("requests/s at P99 <= %v", bound)}}
	for _, k := range order {
		table.Add(k.workload, k.label, best[k])
	}
	return table
}
