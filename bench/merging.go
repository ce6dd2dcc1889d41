package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/published"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// repeatMerging repeats what of the GEMEL paper needs no training: its schedule as its authors simulate it, and what layers could be
// shared.
func (x *Experiments) repeatMerging() error {
	for _, part := range []func() error{x.mergingCases, x.mergingGains, x.mergingBounds, x.mergingPairs, x.mergingCurves} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// mergingCases sets each outcome of the authors' simulator beside ours.
func (x *Experiments) mergingCases() error {
	table := &figures.Table{Header: []string{"models", "memory", "sharing", "batches", "ms", "fps", "shares", "published_shares", "waited", "published_waited", "evictions", "published_evictions", "equal"}}
	for _, c := range published.Cases() {
		o, possible := presets.RunCase(c)
		setting := []any{strings.Join(c.Architectures, " "), presets.Memory(c.Memory), presets.Sharing(c.Sharing), joinNumbers(c.Batches), c.Lives, c.Rate}
		if !possible {
			table.Add(append(setting, "no room", publishedText(c), "", "", "", "", c.Impossible)...)
			continue
		}
		equal := slices.Equal(o.PublishedShares(), c.Shares) && o.Evictions == c.Evictions
		table.Add(append(setting, joinNumbers(o.PublishedShares()), publishedText(c), o.Waited, c.Waited, o.Evictions, c.Evictions, equal)...)
	}
	return x.saveTable("merging-cases", table)
}

func publishedText(c published.Case) string {
	if c.Impossible {
		return "no room"
	}
	return joinNumbers(c.Shares)
}

// joinNumbers writes numbers, or the one that they all are.
func joinNumbers[T int | float64](numbers []T) string {
	if slices.Max(numbers) == slices.Min(numbers) {
		numbers = numbers[:1]
	}
	return strings.Trim(fmt.Sprint(numbers), "[]")
}

// gainSetting is one of the paper's settings of its schedule: figures 3, 6 and 10 and table 3.
type gainSetting struct {
	name    string
	turns   presets.Turns
	sharing []presets.Sharing
}

// gainSettings are those, with what is shared beside nothing.
func gainSettings() (list []gainSetting) {
	for _, m := range presets.Memories {
		list = append(list, gainSetting{"100 ms, 30 fps", presets.Turns{Memory: m, Lives: presets.ShortLife, Rate: 30}, []presets.Sharing{presets.Merged, presets.Optimal}})
	}
	return append(list,
		gainSetting{"100 ms, 10 fps", presets.Turns{Lives: presets.ShortLife, Rate: 10}, []presets.Sharing{presets.Merged}},
		gainSetting{"400 ms, 30 fps", presets.Turns{Lives: presets.LongLife, Rate: 30}, []presets.Sharing{presets.Merged}})
}

// mergingGains is what merging brings under the paper's schedule, by workload and by the medians of its classes.
func (x *Experiments) mergingGains() error {
	table := &figures.Table{Header: []string{"setting", "memory", "sharing", "workload", "frames", "unmerged_frames", "frames_gain_percent", "waited", "unmerged_waited", "accuracy", "unmerged_accuracy", "accuracy_gain_percent"}}
	medians := &figures.Table{Header: []string{"setting", "memory", "sharing", "class", "accuracy_gain_percent", "least", "most", "frames_gain_percent", "published_percent"}}
	charts := map[presets.Sharing]*figures.Bars{presets.Merged: gainChart("60 % of what could be is shared"), presets.Optimal: gainChart("all that could be is shared")}
	for _, g := range gainSettings() {
		plain := map[string]*presets.TurnsOutcome{}
		for _, w := range presets.Workloads(g.turns.Lives) {
			x.printNextRun("%s, memory %s, %s", g.name, g.turns.Memory, w.Name)
			g.turns.Workload, g.turns.Sharing = w, presets.Unmerged
			plain[w.Name] = g.turns.Run()
		}
		for _, s := range g.sharing {
			gains, frames := map[string][]float64{}, map[string][]float64{}
			for _, w := range presets.Workloads(g.turns.Lives) {
				g.turns.Workload, g.turns.Sharing = w, s
				o, was := g.turns.Run(), plain[w.Name]
				gain, more := gainPercent(o.MeanAccuracy(), was.MeanAccuracy()), gainPercent(o.Mean(), was.Mean())
				class := w.Name[:2]
				gains[class], frames[class] = append(gains[class], gain), append(frames[class], more)
				table.Add(g.name, g.turns.Memory, s, w.Name, o.Mean(), was.Mean(), more, o.Waited, was.Waited, o.MeanAccuracy(), was.MeanAccuracy(), gain)
			}
			for k, class := range classes {
				all := gains[class]
				medians.Add(g.name, g.turns.Memory, s, class, medianOf(all), slices.Min(all), slices.Max(all), medianOf(frames[class]), publishedGain(g, s, class))
				if strings.HasPrefix(g.name, "100 ms, 30") {
					charts[s].Series[k].Y = append(charts[s].Series[k].Y, medianOf(all))
				}
			}
		}
	}
	for s, name := range map[presets.Sharing]string{presets.Merged: "merging-figure-10", presets.Optimal: "merging-figure-6"} {
		if err := charts[s].Write(x.figurePath(name)); err != nil {
			return err
		}
	}
	if err := x.writeTable("merging-gains-workloads", table); err != nil {
		return err
	}
	return x.saveTable("merging-gains", medians)
}

// classes are the paper's, by how much could be saved.
var classes = []string{"LP", "MP", "HP"}

func gainChart(what string) *figures.Bars {
	b := &figures.Bars{Title: "Accuracy gained where " + what + ", medians", Y: "percent"}
	for _, m := range presets.Memories {
		b.Groups = append(b.Groups, "memory "+m.String())
	}
	for _, class := range classes {
		b.Series = append(b.Series, figures.Series{Name: class})
	}
	return b
}

func gainPercent(now, was float64) float64 { return 100 * (now/was - 1) }

func medianOf(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// publishedGain is the accuracy gained by the paper's merges, as far as its text has numbers.
func publishedGain(g gainSetting, s presets.Sharing, class string) float64 {
	if s != presets.Merged {
		return math.NaN()
	}
	if v, ok := publishedGains[g.name+", "+g.turns.Memory.String()][class]; ok {
		return v
	}
	return math.NaN()
}

// mergingBounds are figures 2, 5, 11 and 12, and of 13 and 14 what needs no clock: groups in the order in which they are tried, each
// taken to succeed.
func (x *Experiments) mergingBounds() error {
	table := &figures.Table{Header: []string{
		"workload", "models", "full_gb_batch_1", "full_gb_batch_4", "mib", "optimal_percent", "stem_percent", "merged_percent",
		"groups", "groups_for_50", "groups_for_80", "groups_for_90", "shipped_gb_for_80", "shipped_gb_for_90",
	}}
	bars := &figures.Bars{Title: "Bytes saved where all equal layers are shared, and equal beginnings alone", Y: "percent", Series: []figures.Series{{Name: "all equal layers"}, {Name: "beginnings"}}}
	curve := &figures.Chart{Title: "Bytes saved by groups of layers, those that save most first", X: "groups", Y: "percent of the optimum"}
	shipped := &figures.Chart{Title: "Bytes shipped for bytes saved, all models of a group each time", X: "percent of the optimum saved", Y: "GB"}
	for _, w := range presets.Workloads(presets.LongLife) {
		models, err := published.Models(w.Name)
		if err != nil {
			return err
		}
		p := merging.NewPlan(models)
		total := float64(p.Total()) / 100
		steps := mergingSteps(p)
		for i, s := range steps {
			curve.Add(w.Name, float64(i+1), s.saved)
			shipped.Add(w.Name, s.saved, s.shipped)
		}
		optimal, stem := float64(p.Shared())/total, float64(p.Stem())/total
		at := func(percent float64) int {
			return slices.IndexFunc(steps, func(s mergingStep) bool { return s.saved >= percent-1e-9 }) + 1
		}
		merged := optimal * float64(presets.Merged)
		table.Add(w.Name, len(models), float64(w.FullMemory(1))/1e9, float64(w.FullMemory(4))/1e9, float64(p.Total())/(1<<20), optimal, stem, merged,
			len(steps), at(50), at(80), at(90), steps[at(80)-1].shipped, steps[at(90)-1].shipped)
		bars.Groups = append(bars.Groups, w.Name)
		bars.Series[0].Y, bars.Series[1].Y = append(bars.Series[0].Y, optimal), append(bars.Series[1].Y, stem)
	}
	if err := bars.Write(x.figurePath("merging-figure-5")); err != nil {
		return err
	}
	if err := curve.Write(x.figurePath("merging-figure-13")); err != nil {
		return err
	}
	if err := shipped.Write(x.figurePath("merging-figure-14")); err != nil {
		return err
	}
	return x.saveTable("merging-bounds", table)
}

// mergingStep is where a merge is after some groups.
type mergingStep struct {
	saved   float64 // percent of the optimum
	shipped float64 // GB: after each group, all models that have a layer in it
}

// mergingSteps takes all appearances of a signature as one group and the groups in the order of their bytes, as the paper does.
func mergingSteps(p *merging.Plan) (steps []mergingStep) {
	var keys []string
	saved, bytes, models := map[string]float64{}, map[string]int64{}, map[string]map[int]bool{}
	for _, g := range p.Groups {
		if models[g.Signature] == nil {
			keys = append(keys, g.Signature)
			models[g.Signature] = map[int]bool{}
		}
		saved[g.Signature] += 100 * float64(g.Saved()) / float64(p.Shared())
		for _, m := range g.Members {
			models[g.Signature][m.Model] = true
		}
	}
	for _, m := range p.Models {
		for _, l := range m.Layers {
			bytes[l.Signature] += l.Bytes
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(bytes[b], bytes[a]) })
	var at mergingStep
	for _, key := range keys {
		at.saved += saved[key]
		for m := range models[key] {
			at.shipped += float64(p.Models[m].Bytes()) / 1e9
		}
		steps = append(steps, at)
	}
	return steps
}

// mergingPairs is figure 4: layers that two networks have in common.
func (x *Experiments) mergingPairs() error {
	table := &figures.Table{Header: []string{"a", "b", "layers_a", "layers_b", "common", "percent_of_both", "percent_of_smaller", "mib"}}
	names := presets.Architectures()
	for i, a := range names {
		for _, b := range names[i:] {
			models := []merging.Model{{Layers: published.Layers(a, 1000)}, {Layers: published.Layers(b, 1000)}}
			p := merging.NewPlan(models)
			common, la, lb := float64(len(p.Groups)), float64(len(models[0].Layers)), float64(len(models[1].Layers))
			if common > 0 {
				table.Add(a, b, la, lb, common, 100*2*common/(la+lb), 100*common/min(la, lb), float64(p.Shared())/(1<<20))
			}
		}
	}
	return x.saveTable("merging-pairs", table)
}

// mergingCurves is figure 9: where in a network its bytes are.
func (x *Experiments) mergingCurves() error {
	table := &figures.Table{Header: []string{"network", "layers", "percent_in_largest", "its_place_from_the_end", "percent_in_two_largest", "percent_of_layers_for_80_percent"}}
	chart := &figures.Chart{Title: "Bytes of layers, from a network's first to its last", X: "percent of layers", Y: "percent of bytes"}
	for _, name := range presets.Architectures() {
		layers := published.Layers(name, 1000)
		total := float64(merging.Model{Layers: layers}.Bytes()) / 100
		var sizes []float64
		sum := 0.0
		for i, l := range layers {
			sizes = append(sizes, float64(l.Bytes)/total)
			sum += sizes[i]
			chart.Add(name, 100*float64(i+1)/float64(len(layers)), sum)
		}
		largest := slices.Index(sizes, slices.Max(sizes))
		slices.Sort(sizes)
		slices.Reverse(sizes)
		count, most := 0, 0.0
		for ; most < 80; count++ {
			most += sizes[count]
		}
		table.Add(name, len(layers), sizes[0], len(layers)-largest, sizes[0]+sizes[1], 100*float64(count)/float64(len(layers)))
	}
	if err := chart.Write(x.figurePath("merging-figure-9")); err != nil {
		return err
	}
	return x.saveTable("merging-curves", table)
}
