package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
)

// curve is a method's latency over the request rate, in order of rates.
type curve struct{ rates, seconds []float64 }

// rateAt is the highest rate at which the latency is so low, between two points by a straight line; 0: at none.
func (c curve) rateAt(seconds float64) float64 {
	for i := len(c.rates) - 1; i >= 0; i-- {
		if c.seconds[i] > seconds {
			continue
		}
		if i+1 == len(c.rates) {
			return c.rates[i]
		}
		return c.rates[i] + (c.rates[i+1]-c.rates[i])*(seconds-c.seconds[i])/(c.seconds[i+1]-c.seconds[i])
	}
	return 0
}

// secondsAt is the latency at a rate between the curve's.
func (c curve) secondsAt(rate float64) float64 {
	i := min(max(1, sort.SearchFloat64s(c.rates, rate)), len(c.rates)-1)
	return c.seconds[i-1] + (c.seconds[i]-c.seconds[i-1])*(rate-c.rates[i-1])/(c.rates[i]-c.rates[i-1])
}

// multiples are those of PrefillOnly's saturation at which figures 5.3 and 5.4 have points of all methods: the third is saturation.
const multiples = 6

// readCurves reads figure 5.3 or 5.4: curves by machine and workload, and by method.
func readCurves(t *testing.T, name string) map[string]map[string]curve {
	cells := map[string]map[string]curve{}
	ours := map[string][]string{}
	rows := readCells(t, "results", name)
	for _, r := range rows {
		if cell := r["machine"] + " " + r["workload"]; r["method"] == "prefillonly" {
			ours[cell] = append(ours[cell], r["rate"])
		}
	}
	for _, r := range rows {
		cell := r["machine"] + " " + r["workload"]
		if !slices.Contains(ours[cell], r["rate"]) || r["seconds"] == "" {
			continue
		}
		if cells[cell] == nil {
			cells[cell] = map[string]curve{}
		}
		c := cells[cell][r["method"]]
		cells[cell][r["method"]] = curve{append(c.rates, number(t, r, "rate")), append(c.seconds, number(t, r, "seconds"))}
	}
	for cell, methods := range cells {
		for method, c := range methods {
			if len(c.rates) != multiples || !slices.IsSorted(c.rates) {
				t.Fatalf("%s of %s has rates %v, want %d", method, cell, c.rates, multiples)
			}
		}
	}
	return cells
}

func isBaseline(method string) bool { return !strings.HasPrefix(method, "prefillonly") }

// countLowest says in how many cells a method is below all baselines, at some multiples of saturation.
func countLowest(cells map[string]map[string]curve, method string, at ...int) string {
	lowest, all := 0, 0
	for _, methods := range cells {
		for _, i := range at {
			all++
			beaten := func(name string) bool {
				return isBaseline(name) && methods[name].seconds[i] <= methods[method].seconds[i]
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(methods)), beaten) {
				lowest++
			}
		}
	}
	return fmt.Sprintf("%d of %d", lowest, all)
}

// gainsAtEqualLatency are, by cell, how many times the best baseline's requests a second a method serves at the latency that PrefillOnly has at
// its saturation.
func gainsAtEqualLatency(cells map[string]map[string]curve, method string) string {
	var gains []float64
	for _, methods := range cells {
		latency, best := methods["prefillonly"].seconds[2], 0.0
		for name, c := range methods {
			if isBaseline(name) {
				best = max(best, c.rateAt(latency))
			}
		}
		gains = append(gains, methods[method].rateAt(latency)/best)
	}
	slices.Sort(gains)
	return fmt.Sprintf("%.2f to %.2f, median %.2f", gains[0], gains[len(gains)-1], (gains[len(gains)/2-1]+gains[len(gains)/2])/2)
}

// tailsByPaper says what the default's P99 at saturation is, of that of the paper's own order, by cell.
func tailsByPaper(cells map[string]map[string]curve) string {
	var factors []float64
	for _, methods := range cells {
		factors = append(factors, methods["prefillonly"].seconds[2]/methods["prefillonly-paper"].seconds[2])
	}
	slices.Sort(factors)
	return fmt.Sprintf("%.2f to %.2f times, median %.2f", factors[0], factors[len(factors)-1], (factors[len(factors)/2-1]+factors[len(factors)/2])/2)
}

// curvesAgainstPublished says how far curves are from the points that the paper's artifact has.
func curvesAgainstPublished(t *testing.T, figure string, cells map[string]map[string]curve) string {
	var factors []float64
	for _, r := range readCells(t, "results", figure) {
		if r["paper_rate"] != "" {
			c := cells[r["machine"]+" "+r["workload"]][r["method"]]
			factors = append(factors, c.secondsAt(number(t, r, "paper_rate"))/number(t, r, "paper_seconds"))
		}
	}
	return describeFactors(factors)
}

// tableAgainstPublished says how far figures of a table are from those beside them.
func tableAgainstPublished(t *testing.T, name, ours, paper string) string {
	var factors []float64
	for _, r := range readCells(t, "results", name) {
		if r[ours] != "" && r[paper] != "" {
			factors = append(factors, number(t, r, ours)/number(t, r, paper))
		}
	}
	return describeFactors(factors)
}

func describeFactors(factors []float64) string {
	within := 0
	for i, f := range factors {
		factors[i] = max(f, 1/f)
		if factors[i] <= 1.3 {
			within++
		}
	}
	slices.Sort(factors)
	return fmt.Sprintf("%d of %d within a factor of 1.3, median %.2f, worst %.2f", within, len(factors), factors[len(factors)/2], factors[len(factors)-1])
}

// TestClaims holds the page of claims to the files of results.
func TestClaims(t *testing.T) {
	means, tails := readCurves(t, "figure-5.3"), readCurves(t, "figure-5.4")
	document, err := os.ReadFile("REPRODUCTION.md")
	if err != nil {
		t.Fatal(err)
	}
	for claim, ours := range map[string]string{
		"lowest mean latency above saturation":             countLowest(means, "prefillonly", 3, 4, 5),
		"lowest P99 latency above saturation":              countLowest(tails, "prefillonly", 3, 4, 5),
		"lowest mean latency above saturation, packed":     countLowest(means, "prefillonly-packed", 3, 4, 5),
		"requests/s at equal mean latency":                 gainsAtEqualLatency(means, "prefillonly"),
		"requests/s at equal mean latency, packed":         gainsAtEqualLatency(means, "prefillonly-packed"),
		"default's P99 at saturation by the paper's order": tailsByPaper(tails),
		"published points of figure 5.3":                   curvesAgainstPublished(t, "figure-5.3", means),
		"published points of figure 5.4":                   curvesAgainstPublished(t, "figure-5.4", tails),
		"published points of figure 5.5":                   tableAgainstPublished(t, "figure-5.5", "throughput", "paper_throughput"),
		"published points of figure 5.6":                   tableAgainstPublished(t, "figure-5.6", "throughput", "paper_throughput"),
		"published cells of table 5.2":                     tableAgainstPublished(t, "table-5.2", "max_tokens", "paper_tokens"),
	} {
		row := "| " + claim + " | " + ours + " |"
		if !strings.Contains(string(document), row) {
			t.Errorf("REPRODUCTION.md has no row that begins with\n%s", row)
		}
	}
}
