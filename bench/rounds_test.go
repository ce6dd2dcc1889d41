package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMediansOfRounds(t *testing.T) {
	point := func(label string, rate, throughput, ms float64) Point {
		d := time.Duration(ms * 1e6)
		return Point{Label: label, Workload: "w", Rate: rate, Throughput: throughput, Mean: d, P50: d, P99: 2 * d, Cached: throughput / 100, Requests: 10, Failed: int(ms) % 2}
	}
	medians, table := Medians([]Point{
		point("a", 5, 4, 100), point("b", 5, 3, 7), point("a", math.Inf(1), 9, 50),
		point("a", 5, 6, 300), point("a", 5, 5, 201), point("a", math.Inf(1), 7, 60),
	})
	want := []Point{
		{Label: "a", Workload: "w", Rate: 5, Throughput: 5, Mean: 201e6, P50: 201e6, P99: 402e6, Cached: 0.05, Requests: 30, Failed: 1},
		{Label: "b", Workload: "w", Rate: 5, Throughput: 3, Mean: 7e6, P50: 7e6, P99: 14e6, Cached: 0.03, Requests: 10, Failed: 1},
		{Label: "a", Workload: "w", Rate: math.Inf(1), Throughput: 9, Mean: 60e6, P50: 60e6, P99: 120e6, Cached: 0.09, Requests: 20},
	}
	if !slices.Equal(medians, want) {
		t.Errorf("medians\n%+v, want\n%+v", medians, want)
	}
	if row := strings.Join(table.Rows[0], ", "); row != "w, a, 5, 5 (4 to 6), 0.201 s (0.1 s to 0.3 s), 0.402 s (0.2 s to 0.6 s), 5 % (4 % to 6 %), 3, 1" {
		t.Errorf("first row %s", row)
	}
	if row := strings.Join(table.Rows[1], ", "); row != "w, b, 5, 3, 0.007 s, 0.014 s, 3 %, 1, 1" {
		t.Errorf("row of one run %s", row)
	}
}
