package video

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// front are a baseline's results of which none is dearer and not better, the cheapest first: bytes over F1 of a baseline whose settings are chosen
// afterwards.
func front(rows []Row, f1 func(*Row) float64) (all []Row) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Container, b.Container) })
	for i := range rows {
		if len(all) == 0 || f1(&rows[i]) > f1(&all[len(all)-1]) {
			all = append(all, rows[i])
		}
	}
	return all
}

// bytesAt is how many bytes a front takes for an F1, between two of its settings by the logarithm; NaN where it never has that.
func bytesAt(front []Row, f1 func(*Row) float64, want float64) float64 {
	for i := range front {
		if f1(&front[i]) < want {
			continue
		}
		if i == 0 {
			return float64(front[0].Container)
		}
		a, b := &front[i-1], &front[i]
		t := (want - f1(a)) / (f1(b) - f1(a))
		return math.Exp((1-t)*math.Log(float64(a.Container)) + t*math.Log(float64(b.Container)))
	}
	return math.NaN()
}

// f1At is a front's F1 for so many bytes, likewise; NaN below its first.
func f1At(front []Row, f1 func(*Row) float64, bytes float64) float64 {
	for i := len(front) - 1; i >= 0; i-- {
		if float64(front[i].Container) > bytes {
			continue
		}
		if i == len(front)-1 {
			return f1(&front[i])
		}
		a, b := &front[i], &front[i+1]
		t := math.Log(bytes/float64(a.Container)) / math.Log(float64(b.Container)/float64(a.Container))
		return f1(a) + t*(f1(b)-f1(a))
	}
	return math.NaN()
}

// Compare tells, for each result, how it stands to plain H.264 on the same clip: the difference of F1 at equal bytes, and the bytes relative to those that
// it takes for an equal F1. All containers count.
func Compare(w io.Writer, rows []Row) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "clip\tmethod\tsetting\tbytes\tF1 (DDS)\tat equal bytes\tbytes at equal F1\tF1 (OneAdapt)\tat equal bytes\tbytes at equal F1")
	for i := range rows {
		r := &rows[i]
		if r.Method == "mpeg" {
			continue
		}
		base := slices.DeleteFunc(slices.Clone(rows), func(b Row) bool { return b.Clip != r.Clip || b.Method != "mpeg" })
		fmt.Fprintf(out, "%s\t%s\t%s\t%d", r.Clip, r.Method, r.Setting, r.Container)
		for _, f1 := range []func(*Row) float64{func(r *Row) float64 { return r.F1DDS }, func(r *Row) float64 { return r.F1OneAdapt }} {
			best := front(base, f1)
			fmt.Fprintf(out, "\t%.3f\t%s\t%s", f1(r), signed(f1(r)-f1At(best, f1, float64(r.Container))), percent(float64(r.Container)/bytesAt(best, f1, f1(r))))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

func signed(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%+.3f", v)
}

func percent(v float64) string {
	if math.IsNaN(v) {
		return "never has it"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}
