package pipelines

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prefillonly/prefillonly/bench/figures"
)

// Gain is how a setting of OneAdapt stands to a way.
type Gain struct {
	Pipeline, Setting, Way string
	Saved                  float64 // part of the way's resource that is not needed for an equal accuracy; NaN where the way has no such accuracy
	Above                  float64 // accuracy above the way's at equal resource; NaN where the way has no setting as cheap
}

// all are the other ways together.
const all = "all"

// Compare compares each setting of OneAdapt with each other way, and with all of them together.
func Compare(rows []Row) (gains []Gain) {
	ways, order := map[[2]string][]Row{}, map[string][]string{}
	for _, r := range rows {
		if r.isOneAdapt() {
			continue
		}
		for _, way := range []string{r.Way, all} {
			key := [2]string{r.Pipeline, way}
			if ways[key] == nil && way != all {
				order[r.Pipeline] = append(order[r.Pipeline], way)
			}
			ways[key] = append(ways[key], r)
		}
	}
	for _, r := range rows {
		if !r.isOneAdapt() {
			continue
		}
		setting := strings.TrimSpace(strings.TrimPrefix(r.Way, OneAdapt) + " " + r.Setting)
		for _, way := range append(slices.Clone(order[r.Pipeline]), all) {
			f := paretoFront(ways[[2]string{r.Pipeline, way}])
			gains = append(gains, Gain{r.Pipeline, setting, way, 1 - r.Cost/costAt(f, r.Accuracy), r.Accuracy - accuracyAt(f, r.Cost)})
		}
	}
	return gains
}

// paretoFront are the rows that no other is better than in both, nor a stream that is partly sent by each of two others, from the cheapest on.
func paretoFront(rows []Row) (best []Row) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Accuracy, a.Accuracy)) })
	for _, r := range rows {
		if n := len(best); n > 0 && r.Accuracy <= best[n-1].Accuracy {
			continue
		}
		for n := len(best); n > 1 && isBelowLine(&best[n-2], &best[n-1], &r); n-- {
			best = best[:n-1]
		}
		best = append(best, r)
	}
	return best
}

// isBelowLine says that a row is not above the line between two others.
func isBelowLine(from, r, to *Row) bool {
	return (r.Accuracy-from.Accuracy)*(to.Cost-from.Cost) <= (to.Accuracy-from.Accuracy)*(r.Cost-from.Cost)
}

// costAt is what a front takes for an accuracy: between two of its rows, as if the stream were partly sent by each.
func costAt(front []Row, accuracy float64) float64 {
	for i := range front {
		b := &front[i]
		if b.Accuracy < accuracy {
			continue
		}
		if i == 0 {
			return b.Cost
		}
		a := &front[i-1]
		return a.Cost + (b.Cost-a.Cost)*(accuracy-a.Accuracy)/(b.Accuracy-a.Accuracy)
	}
	return math.NaN()
}

// accuracyAt is a front's accuracy for a cost, likewise.
func accuracyAt(front []Row, cost float64) float64 {
	for i := len(front) - 1; i >= 0; i-- {
		a := &front[i]
		if a.Cost > cost {
			continue
		}
		if i == len(front)-1 {
			return a.Accuracy
		}
		b := &front[i+1]
		return a.Accuracy + (b.Accuracy-a.Accuracy)*(cost-a.Cost)/(b.Cost-a.Cost)
	}
	return math.NaN()
}

// WriteGains writes gains as CSV.
func WriteGains(w io.Writer, gains []Gain) error {
	t := figures.Table{Header: []string{"pipeline", "oneadapt", "against", "saved", "above"}}
	for _, g := range gains {
		t.Add(g.Pipeline, g.Setting, g.Way, g.Saved, g.Above)
	}
	return t.CSV(w)
}

// WriteFindings writes findings as CSV.
func WriteFindings(w io.Writer, findings []Findings) error {
	t := figures.Table{Header: []string{"pipeline", "cosine", "pooled cosine", "configurations", "intervals to converge", "worst", "never", "intervals to do equally well", "worst", "never", "beginnings"}}
	for _, f := range findings {
		t.Add(f.Pipeline, f.Cosine, f.Pooled, f.Sample, f.Converged, f.ConvergedWorst, f.Never, f.Even, f.EvenWorst, f.EvenNever, f.Beginnings)
	}
	return t.CSV(w)
}

// Print shows rows, gains and findings.
func Print(w io.Writer, rows []Row, gains []Gain, findings []Findings) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "pipeline\tway\tsetting\taccuracy\tcost\tlooks\tgradients\tfeedback, bytes an interval")
	for _, r := range rows {
		n := float64(r.Intervals)
		fmt.Fprintf(out, "%s\t%s\t%s\t%.3f\t%.3f\t%.2f\t%.2f\t%.0f\n", r.Pipeline, r.Way, r.Setting, r.Accuracy, r.Cost, float64(r.Inferences)/n, float64(r.Gradients)/n, float64(r.Feedback)/n)
	}
	fmt.Fprintln(out, "\npipeline\toneadapt\tagainst\tresource saved at equal accuracy\taccuracy above at equal resource")
	for _, g := range gains {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", g.Pipeline, g.Setting, g.Way, formatKnown("%.0f %%", 100*g.Saved), formatKnown("%+.3f", g.Above))
	}
	fmt.Fprintln(out, "\npipeline\tcosine\tpooled\tof\tintervals to converge\tworst\tnever\tto do equally well\tworst\tnever")
	for _, f := range findings {
		fmt.Fprintf(out, "%s\t%.3f\t%.3f\t%d\t%s\t%d\t%d of %d\t%s\t%d\t%d of %d\n", f.Pipeline, f.Cosine, f.Pooled, f.Sample,
			formatKnown("%.1f", f.Converged), f.ConvergedWorst, f.Never, f.Beginnings, formatKnown("%.1f", f.Even), f.EvenWorst, f.EvenNever, f.Beginnings)
	}
	return out.Flush()
}

// formatKnown is a number, or a dash where it cannot be told.
func formatKnown(format string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// Draw writes a chart of accuracy over resource for each pipeline.
func Draw(rows []Row, dir string) error {
	charts := map[string]*figures.Chart{}
	var order []string
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Cost, b.Cost) })
	for _, r := range rows {
		if charts[r.Pipeline] == nil {
			charts[r.Pipeline] = &figures.Chart{Title: "Accuracy over resource, " + r.Pipeline, X: "resource, part of the dearest configuration's", Y: "accuracy"}
			order = append(order, r.Pipeline)
		}
		charts[r.Pipeline].Add(r.Way, r.Cost, r.Accuracy)
	}
	for _, name := range order {
		if err := charts[name].Write(filepath.Join(dir, "pipeline-"+name+".svg")); err != nil {
			return err
		}
	}
	return nil
}
