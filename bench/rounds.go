package bench

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
)

// Medians puts repeated runs together: one point for each label, workload and rate, in the order in
// which they first come, of which every figure is the median of the runs' (of an even number, the upper
// one). Requests and Failed are sums. The table has a row for each, with the lowest and highest run.
func Medians(points []Point) ([]Point, *figures.Table) {
	type key struct {
		label, workload string
		rate            float64
	}
	runs := map[key][]Point{}
	var order []key
	for _, p := range points {
		k := key{p.Label, p.Workload, p.Rate}
		if runs[k] == nil {
			order = append(order, k)
		}
		runs[k] = append(runs[k], p)
	}
	table := &figures.Table{Header: []string{"workload", "server", "sent/s", "answered/s", "mean", "P99", "cached", "runs", "failed"}}
	var medians []Point
	for _, k := range order {
		same := runs[k]
		m := Point{Label: k.label, Workload: k.workload, Rate: k.rate}
		for _, p := range same {
			m.Requests += p.Requests
			m.Failed += p.Failed
		}
		var answered, mean, p99, cached [3]string
		m.Throughput, answered = spreadOfRuns(same, func(p Point) float64 { return p.Throughput }, func(v float64) string { return fmt.Sprintf("%.3g", v) })
		m.Mean, mean = spreadOfRuns(same, func(p Point) time.Duration { return p.Mean }, formatSeconds)
		m.P50, _ = spreadOfRuns(same, func(p Point) time.Duration { return p.P50 }, formatSeconds)
		m.P99, p99 = spreadOfRuns(same, func(p Point) time.Duration { return p.P99 }, formatSeconds)
		m.Cached, cached = spreadOfRuns(same, func(p Point) float64 { return p.Cached }, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) })
		cell := func(s [3]string) string {
			if s[0] == s[2] {
				return s[1]
			}
			return fmt.Sprintf("%s (%s to %s)", s[1], s[0], s[2])
		}
		table.Add(filepath.Base(k.workload), k.label, k.rate, cell(answered), cell(mean), cell(p99), cell(cached), len(same), m.Failed)
		medians = append(medians, m)
	}
	return medians, table
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }

// spreadOfRuns returns the median of a figure over runs, and the lowest, median and highest as text.
func spreadOfRuns[T cmp.Ordered](runs []Point, figure func(Point) T, text func(T) string) (median T, ends [3]string) {
	values := make([]T, len(runs))
	for i, p := range runs {
		values[i] = figure(p)
	}
	slices.Sort(values)
	median = values[len(values)/2]
	return median, [3]string{text(values[0]), text(median), text(values[len(values)-1])}
}
