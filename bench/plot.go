package bench

import (
	"fmt"
	"path/filepath"
	"slices"

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
