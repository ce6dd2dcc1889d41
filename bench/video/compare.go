package video

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// Resource is what results cost.
type Resource struct {
	Name string
	of   func(*Row) float64
}

// Resources are those that pipelines save.
var Resources = []Resource{
	{"bytes", func(r *Row) float64 { return float64(r.Container) }},
	{"frames", (*Row).inspectedFrames},
}

// inspectedFrames are those that the server's network has looked at, and as many as gradients took the device's time of.
func (r *Row) inspectedFrames() float64 {
	looking := r.Server - r.GradientTime
	if looking <= 0 {
		return float64(r.Inferences)
	}
	return float64(r.Inferences) * float64(r.Server) / float64(looking)
}

// measure is what results are judged by.
type measure struct{ f1, cost func(*Row) float64 }

// paretoFront are a baseline's results of which none is dearer and not better, the cheapest first: cost over F1 of a baseline whose settings are chosen
// afterwards.
func (m measure) paretoFront(rows []Row) (all []Row) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(m.cost(&a), m.cost(&b)) })
	for i := range rows {
		if len(all) == 0 || m.f1(&rows[i]) > m.f1(&all[len(all)-1]) {
			all = append(all, rows[i])
		}
	}
	return all
}

// costAt is what a front takes for an F1, between two of its settings by the logarithm; NaN where it never has that.
func (m measure) costAt(front []Row, want float64) float64 {
	for i := range front {
		if m.f1(&front[i]) < want {
			continue
		}
		if i == 0 {
			return m.cost(&front[0])
		}
		a, b := &front[i-1], &front[i]
		t := (want - m.f1(a)) / (m.f1(b) - m.f1(a))
		return math.Exp((1-t)*math.Log(m.cost(a)) + t*math.Log(m.cost(b)))
	}
	return math.NaN()
}

// f1At is a front's F1 for a cost, likewise; NaN below its first.
func (m measure) f1At(front []Row, cost float64) float64 {
	for i := len(front) - 1; i >= 0; i-- {
		if m.cost(&front[i]) > cost {
			continue
		}
		if i == len(front)-1 {
			return m.f1(&front[i])
		}
		a, b := &front[i], &front[i+1]
		t := math.Log(cost/m.cost(a)) / math.Log(m.cost(b)/m.cost(a))
		return m.f1(a) + t*(m.f1(b)-m.f1(a))
	}
	return math.NaN()
}

// plainRows are the results of plain H.264 on a clip, over a link that carries all at once.
func plainRows(rows []Row, clip string) []Row { return methodRows("mpeg", rows, clip) }

// methodRows are the results of a method on a clip, over a link that carries all at once.
func methodRows(method string, rows []Row, clip string) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Clip != clip || r.Method != method || r.Link != "" })
}

func byDDS(r *Row) float64      { return r.F1DDS }
func byOneAdapt(r *Row) float64 { return r.F1OneAdapt }

// gain is how a family of settings stands to a baseline: means over those of its settings of which it can be told.
type gain struct {
	settings int     // with a cost that the baseline has
	f1       float64 // above that of the baseline at equal cost
	cost     float64 // relative to that of the baseline at equal F1, the geometric mean
	never    int     // settings whose F1 the baseline never has; they are not in cost
}

func (m measure) gainOf(rows, base []Row) (g gain) {
	best := m.paretoFront(base)
	logs, n := 0.0, 0
	for i := range rows {
		r := &rows[i]
		if above := m.f1(r) - m.f1At(best, m.cost(r)); !math.IsNaN(above) {
			g.f1, g.settings = g.f1+above, g.settings+1
		}
		if at := m.costAt(best, m.f1(r)); math.IsNaN(at) {
			g.never++
		} else {
			logs, n = logs+math.Log(m.cost(r)/at), n+1
		}
	}
	g.f1 /= float64(g.settings)
	g.cost = math.Exp(logs / float64(n))
	return g
}

// Compare tells how results stand to the first of some methods on the same clip: the difference of F1 at equal cost, and the cost relative to what that takes
// for an equal F1; of each result, and then of each family of settings, that against the other methods too. Of bytes all containers count.
func Compare(w io.Writer, rows []Row, cost Resource, against []string) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	families := map[[2]string][]Row{}
	var order [][2]string
	heads := fmt.Sprintf("\tat equal %s\t%[1]s at equal F1", cost.Name)
	fmt.Fprintf(out, "clip\tmethod\tsetting\t%s\tF1 (DDS)%s\tF1 (OneAdapt)%s\n", cost.Name, heads, heads)
	measures := []measure{{byDDS, cost.of}, {byOneAdapt, cost.of}}
	for i := range rows {
		r := &rows[i]
		if r.Method == against[0] || r.Link != "" {
			continue
		}
		base, key := methodRows(against[0], rows, r.Clip), [2]string{r.Clip, r.chartFamily()}
		if families[key] == nil {
			order = append(order, key)
		}
		families[key] = append(families[key], *r)
		fmt.Fprintf(out, "%s\t%s\t%s\t%.0f", r.Clip, r.Method, r.Setting, cost.of(r))
		for _, m := range measures {
			best := m.paretoFront(base)
			fmt.Fprintf(out, "\t%.3f\t%s\t%s", m.f1(r), signed(m.f1(r)-m.f1At(best, m.cost(r))), percent(m.cost(r)/m.costAt(best, m.f1(r))))
		}
		fmt.Fprintln(out)
	}
	for _, method := range against {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Method == method && r.Link == "" }) {
			continue
		}
		fmt.Fprintf(out, "\nmeans against %s\tfamily\tsettings\tF1 (DDS)%s\tF1 (OneAdapt)%s\n", method, heads, heads)
		for _, key := range order {
			if base := methodRows(method, rows, key[0]); len(base) > 0 && families[key][0].Method != method {
				compareFamily(out, key, families[key], base, measures)
			}
		}
	}
	return out.Flush()
}

// compareFamily tells how the settings of one family stand to a baseline on the same clip, on average.
func compareFamily(out io.Writer, key [2]string, family, base []Row, measures []measure) {
	fmt.Fprintf(out, "%s\t%s\t%d", key[0], key[1], len(family))
	for _, m := range measures {
		g := m.gainOf(family, base)
		fmt.Fprintf(out, "\t%s\t%s", signed(g.f1), percent(g.cost))
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
