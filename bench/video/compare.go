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

// plain are the results of plain H.264 on a clip, over a link that carries all at once.
func plain(rows []Row, clip string) []Row { return by("mpeg", rows, clip) }

// by are the results of a method on a clip, over a link that carries all at once.
func by(method string, rows []Row, clip string) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Clip != clip || r.Method != method || r.Link != "" })
}

func byDDS(r *Row) float64      { return r.F1DDS }
func byOneAdapt(r *Row) float64 { return r.F1OneAdapt }

// gain is how a family of settings stands to a baseline: means over those of its settings of which it can be told.
type gain struct {
	settings int     // with bytes that the baseline has
	f1       float64 // above that of the baseline at equal bytes
	bytes    float64 // relative to those of the baseline at equal F1, the geometric mean
	never    int     // settings whose F1 the baseline never has; they are not in bytes
}

func gainOf(rows, base []Row, f1 func(*Row) float64) (g gain) {
	best := front(base, f1)
	logs, n := 0.0, 0
	for i := range rows {
		r := &rows[i]
		if above := f1(r) - f1At(best, f1, float64(r.Container)); !math.IsNaN(above) {
			g.f1, g.settings = g.f1+above, g.settings+1
		}
		if at := bytesAt(best, f1, f1(r)); math.IsNaN(at) {
			g.never++
		} else {
			logs, n = logs+math.Log(float64(r.Container)/at), n+1
		}
	}
	g.f1 /= float64(g.settings)
	g.bytes = math.Exp(logs / float64(n))
	return g
}

// Compare tells how results stand to plain H.264 on the same clip: the difference of F1 at equal bytes, and the bytes relative to those that it takes
// for an equal F1; of each result, and then of each family of settings, that against AWStream's too. All containers count.
func Compare(w io.Writer, rows []Row) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	families := map[[2]string][]Row{}
	var order [][2]string
	fmt.Fprintln(out, "clip\tmethod\tsetting\tbytes\tF1 (DDS)\tat equal bytes\tbytes at equal F1\tF1 (OneAdapt)\tat equal bytes\tbytes at equal F1")
	for i := range rows {
		r := &rows[i]
		if r.Method == "mpeg" || r.Link != "" {
			continue
		}
		base, key := plain(rows, r.Clip), [2]string{r.Clip, r.family()}
		if families[key] == nil {
			order = append(order, key)
		}
		families[key] = append(families[key], *r)
		fmt.Fprintf(out, "%s\t%s\t%s\t%d", r.Clip, r.Method, r.Setting, r.Container)
		for _, f1 := range []func(*Row) float64{byDDS, byOneAdapt} {
			best := front(base, f1)
			fmt.Fprintf(out, "\t%.3f\t%s\t%s", f1(r), signed(f1(r)-f1At(best, f1, float64(r.Container))), percent(float64(r.Container)/bytesAt(best, f1, f1(r))))
		}
		fmt.Fprintln(out)
	}
	for _, against := range []string{"mpeg", "awstream"} {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Method == against && r.Link == "" }) {
			continue
		}
		fmt.Fprintf(out, "\nmeans against %s\tfamily\tsettings\tF1 (DDS) at equal bytes\tbytes at equal F1\tF1 (OneAdapt) at equal bytes\tbytes at equal F1\n", against)
		for _, key := range order {
			if base := by(against, rows, key[0]); len(base) > 0 && families[key][0].Method != against {
				compareFamily(out, key, families[key], base)
			}
		}
	}
	return out.Flush()
}

// compareFamily tells how the settings of one family stand to a baseline on the same clip, on average.
func compareFamily(out io.Writer, key [2]string, family, base []Row) {
	fmt.Fprintf(out, "%s\t%s\t%d", key[0], key[1], len(family))
	for _, f1 := range []func(*Row) float64{byDDS, byOneAdapt} {
		g := gainOf(family, base, f1)
		fmt.Fprintf(out, "\t%s\t%s", signed(g.f1), percent(g.bytes))
		if g.never > 0 && g.never < len(family) {
			fmt.Fprintf(out, ", without %d that it never has", g.never)
		}
	}
	fmt.Fprintln(out)
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
