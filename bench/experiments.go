package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// Experiments runs the paper's experiments in the simulator. Every file it writes is the same for
// the same Seed and Repeats.
type Experiments struct {
	Out     string // folder for CSV files and figures
	Seed    uint64
	Repeats int       // runs with seeds of their own that one figure is made of
	Users   int       // of the experiment scale; each sends ten requests
	Log     io.Writer // tables for people to read
	// Progress hears what is simulated next, and an empty text before a table is written to Log; nil ignores it.
	Progress func(what string)
	sweeps   map[string][]Point
}

// experiments lists what can be run, in the order of the paper.
var experiments = []struct {
	name, about string
	run         func(*Experiments) error
}{
	{"table-5.2", "longest prompt by machine and method", (*Experiments).table52},
	{"figure-5.3", "mean latency over request rate", (*Experiments).figure53},
	{"figure-5.4", "P99 latency over request rate", (*Experiments).figure54},
	{"figure-5.5", "throughput of credit verification on two H100", (*Experiments).figure55},
	{"figure-5.6", "throughput of post recommendation on two H100, over request rate", (*Experiments).figure56},
	{"figure-5.7", "distribution of latency by fairness", (*Experiments).figure57},
	{"preemption", "short requests among long ones, with and without pausing passes", (*Experiments).measurePreemption},
	{"flood", "hit rate of users' profiles in a flood of one-off long prompts, by eviction", (*Experiments).measurePrefixFlood},
	{"host-tier", "users who come back in turn, with and without host memory below the prefix cache", (*Experiments).hostTier},
	{"feeds", "camera streams for more models than fit, by order of runs and loads", (*Experiments).compareFeedOrders},
	{"feeds-400ms", "the same where frames live 400 ms, and Faster R-CNN can run", (*Experiments).compareLongFeeds},
	{"merging", "figures and tables of the GEMEL paper that need no training, beside the published numbers", (*Experiments).repeatMerging},
	{"swaps", "requests for three models where two fit, by order of jobs and loads", (*Experiments).compareModelSwaps},
	{"cameras", "streams with promised deadlines and gradients beside a language model", (*Experiments).compareCameraStreams},
	{"stages", "CPU stages of requests and camera frames, by the order of their slots", (*Experiments).compareStageOrders},
	{"scale", "routings and policies over 1,000 executors and --users users", (*Experiments).compareAtScale},
}

// ExperimentNames lists the experiments, and what each shows.
func ExperimentNames() (names, about []string) {
	for _, e := range experiments {
		names, about = append(names, e.name), append(about, e.about)
	}
	return names, about
}

// CheckExperiments refuses names of no experiment.
func CheckExperiments(names []string) error {
	all, _ := ExperimentNames()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("unknown experiment %q: want one of %s", name, strings.Join(all, ", "))
		}
	}
	return nil
}

// Run runs one experiment by its name.
func (x *Experiments) Run(name string) error {
	for _, e := range experiments {
		if e.name != name {
			continue
		}
		if err := e.run(x); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	return CheckExperiments([]string{name})
}

// Table52 is the table of the longest prompts; paper_tokens is empty where none is published.
func Table52() (*figures.Table, error) {
	table := &figures.Table{Header: []string{"machine", "model", "method", "max_tokens", "paper_tokens"}}
	for _, m := range presets.Machines()[:3] {
		for _, method := range m.Methods() {
			if method == presets.PrefillPacked {
				continue // as prefillonly
			}
			tokens, err := m.MaxTokens(method)
			if err != nil {
				return nil, err
			}
			paper := ""
			if n, ok := publishedMaxTokens[m.Name][method]; ok {
				paper = fmt.Sprint(n)
			}
			table.Add(m.Name, m.Model.Name, method, tokens, paper)
		}
	}
	return table, nil
}

func (x *Experiments) table52() error {
	table, err := Table52()
	if err != nil {
		return err
	}
	return x.saveTable("table-5.2", table)
}

// printNextRun tells what is simulated next.
func (x *Experiments) printNextRun(format string, args ...any) {
	if x.Progress != nil {
		x.Progress(fmt.Sprintf(format, args...))
	}
}

// saveTable writes a table as CSV and shows it.
func (x *Experiments) saveTable(name string, table *figures.Table) error {
	x.printNextRun("")
	fmt.Fprintf(x.Log, "%s\n\n%s\n", name, table.Markdown())
	return x.writeTable(name, table)
}

// writeTable writes a table as CSV.
func (x *Experiments) writeTable(name string, table *figures.Table) error {
	if x.Out == "" {
		return nil
	}
	if err := os.MkdirAll(x.Out, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(x.Out, name+".csv"))
	if err != nil {
		return err
	}
	return errors.Join(table.CSV(file), file.Close())
}

// figurePath is the path of a figure.
func (x *Experiments) figurePath(name string) string { return filepath.Join(x.Out, name+".svg") }

// paperWorkloads are the paper's two.
func paperWorkloads() []load.Spec {
	return []load.Spec{load.PostRecommendation(), load.CreditVerification()}
}

// runSeeds runs a contender on a workload at a rate with each seed and puts the latencies together.
func (x *Experiments) runSeeds(e contender, spec load.Spec, rate float64) (result, error) {
	var all result
	for i := range x.Repeats {
		requests, err := spec.Generate(load.Arrivals{Rate: rate, Sessions: true, Gap: sessionGap}, x.Seed+uint64(i))
		if err != nil {
			return all, err
		}
		x.printNextRun("%s, %s, %s, %.2f requests/s, seed %d", e.machine.Name, spec.Name, e.method, rate, x.Seed+uint64(i))
		r, err := e.runSimulation(requests)
		if err != nil {
			return all, err
		}
		all.sorted = append(all.sorted, r.sorted...)
		all.throughput += r.throughput / float64(x.Repeats)
		all.cached += r.cached / float64(x.Repeats)
		all.mean += r.mean / time.Duration(x.Repeats)
	}
	slices.Sort(all.sorted)
	return all, nil
}

// sweepMethods runs every method that can hold the workload at the multiples of the paper's own
// saturation, as section 5.4.2 does.
func (x *Experiments) sweepMethods(m presets.Machine, spec load.Spec) ([]Point, error) {
	key := m.Name + " " + spec.Name
	if points, ok := x.sweeps[key]; ok {
		return points, nil
	}
	saturated, err := x.runSeeds(newContender(m, presets.PrefillOnly), spec, math.Inf(1))
	if err != nil {
		return nil, err
	}
	var points []Point
	for _, method := range m.Methods() {
		if fits, err := m.MaxTokens(method); err != nil || fits < spec.Profile.Max+spec.Item {
			continue
		}
		for _, multiple := range Multiples {
			rate := multiple * saturated.throughput
			r, err := x.runSeeds(newContender(m, method), spec, rate)
			if err != nil {
				return nil, err
			}
			points = append(points, Point{
				Label: string(method), Workload: key, Rate: rate, Throughput: r.throughput,
				Mean: r.mean, P50: r.latencyPercentile(50), P99: r.latencyPercentile(99), Cached: r.cached, Requests: len(r.sorted),
			})
		}
	}
	if x.sweeps == nil {
		x.sweeps = map[string][]Point{}
	}
	x.sweeps[key] = points
	return points, nil
}

func (x *Experiments) figure53() error {
	return x.latencyFigures("figure-5.3", "mean latency", func(p Point) float64 { return p.Mean.Seconds() }, func(p publishedRun) float64 { return p.mean })
}

func (x *Experiments) figure54() error {
	return x.latencyFigures("figure-5.4", "P99 latency", func(p Point) float64 { return p.P99.Seconds() }, func(p publishedRun) float64 { return p.p99 })
}

// latencyFigures draws one figure for each machine and workload.
func (x *Experiments) latencyFigures(name, what string, ours func(Point) float64, theirs func(publishedRun) float64) error {
	table := &figures.Table{Header: []string{"machine", "workload", "method", "rate", "throughput", "seconds", "paper_rate", "paper_seconds"}}
	for _, m := range presets.Machines() {
		for _, spec := range paperWorkloads() {
			points, err := x.sweepMethods(m, spec)
			if err != nil {
				return err
			}
			chart := figures.Chart{Title: fmt.Sprintf("%s, %s, %s", what, spec.Name, m.Name), X: "requests/s", Y: "seconds", LogX: true, LogY: true}
			for _, p := range points {
				chart.Add(p.Label, p.Rate, ours(p))
				table.Add(m.Name, spec.Name, p.Label, p.Rate, p.Throughput, ours(p), "", "")
			}
			for _, method := range m.Methods() {
				for _, p := range publishedFor(m, spec, method) {
					chart.AddDashed(string(method)+", paper", p.rate, theirs(p))
					table.Add(m.Name, spec.Name, method, "", "", "", p.rate, theirs(p))
				}
			}
			if err := chart.Write(x.figurePath(fmt.Sprintf("%s-%s-%s", name, m.Name, spec.Name))); err != nil {
				return err
			}
		}
	}
	return x.saveTable(name, table)
}

// publishedFor are the published runs at a finite rate.
func publishedFor(m presets.Machine, spec load.Spec, method presets.Method) []publishedRun {
	if spec.Name != load.PostRecommendation().Name || m.Model.Name != "Llama-3.3-70B-FP8" {
		return nil
	}
	var runs []publishedRun
	for _, p := range publishedPosts[method] {
		if p.rate > 0 {
			runs = append(runs, p)
		}
	}
	return runs
}

func (x *Experiments) figure55() error {
	spec := load.CreditVerification()
	// The artifact's own lengths, which its published throughput is of.
	spec.Profile = load.Lengths{Mean: 40000, Deviation: 10000, Min: 10000, Max: 60000}
	linked, err := presets.MachineNamed("H100-NVLink")
	if err != nil {
		return err
	}
	table := &figures.Table{Header: []string{"method", "throughput", "paper_throughput"}}
	bars := figures.Bars{Title: "Throughput, credit-verification, two H100", Y: "requests/s", Series: []figures.Series{{Name: "simulated"}, {Name: "paper"}}}
	for _, method := range []presets.Method{presets.Pipeline, presets.Tensor, presets.TensorNVLink, presets.PrefillOnly, presets.LayerMajor} {
		r, err := x.runSeeds(newContender(linked, method), spec, math.Inf(1))
		if err != nil {
			return err
		}
		paper, ok := publishedCredit[method]
		if !ok {
			paper = math.NaN()
		}
		table.Add(method, r.throughput, paper)
		bars.Groups = append(bars.Groups, string(method))
		bars.Series[0].Y = append(bars.Series[0].Y, r.throughput)
		bars.Series[1].Y = append(bars.Series[1].Y, paper)
	}
	if err := bars.Write(x.figurePath("figure-5.5")); err != nil {
		return err
	}
	return x.saveTable("figure-5.5", table)
}

func (x *Experiments) figure56() error {
	h100, err := presets.MachineNamed("H100")
	if err != nil {
		return err
	}
	table := &figures.Table{Header: []string{"method", "rate", "throughput", "cached", "paper_throughput"}}
	chart := figures.Chart{Title: "Throughput, post-recommendation, two H100 PCIe", X: "requests/s sent", Y: "requests/s answered"}
	for _, method := range []presets.Method{presets.Chunked, presets.ChunkedTuned, presets.Pipeline, presets.Tensor, presets.PrefillOnly, presets.LayerMajor, presets.PrefillPacked} {
		for i, p := range publishedPosts[presets.PrefillOnly] {
			rate := p.rate
			if rate == 0 {
				rate = math.Inf(1)
			}
			r, err := x.runSeeds(newContender(h100, method), load.PostRecommendation(), rate)
			if err != nil {
				return err
			}
			paper := math.NaN()
			if runs := publishedPosts[method]; runs != nil {
				paper = runs[i].throughput
			}
			chart.Add(string(method), rate, r.throughput)
			chart.AddDashed(string(method)+", paper", rate, paper)
			table.Add(method, rate, r.throughput, r.cached, paper)
		}
	}
	if err := chart.Write(x.figurePath("figure-5.6")); err != nil {
		return err
	}
	return x.saveTable("figure-5.6", table)
}

// fairnessValues are the lambdas of figure 5.7, in cache-miss tokens a second; 500 is the default.
var fairnessValues = []float64{0, 100, 500, 2000, 10000}

func (x *Experiments) figure57() error {
	h100, err := presets.MachineNamed("H100")
	if err != nil {
		return err
	}
	table := &figures.Table{Header: []string{"fairness", "mean_s", "p50_s", "p90_s", "p99_s", "max_s", "cached"}}
	chart := figures.Chart{Title: "Latency by fairness, post-recommendation, two H100 PCIe", X: "seconds", Y: "share of requests", Steps: true}
	const rate = 24 // about twice the saturation, where the order matters
	for _, lambda := range fairnessValues {
		e := newContender(h100, presets.PrefillOnly)
		e.fairness = lambda
		r, err := x.runSeeds(e, load.PostRecommendation(), rate)
		if err != nil {
			return err
		}
		for i := 0; i <= 200; i++ {
			chart.Add(fmt.Sprintf("lambda %g", lambda), r.latencyPercentile(float64(i)/2).Seconds(), float64(i)/200)
		}
		table.Add(lambda, r.mean.Seconds(), r.latencyPercentile(50).Seconds(), r.latencyPercentile(90).Seconds(), r.latencyPercentile(99).Seconds(), r.latencyPercentile(100).Seconds(), r.cached)
	}
	if err := chart.Write(x.figurePath("figure-5.7")); err != nil {
		return err
	}
	return x.saveTable("figure-5.7", table)
}
