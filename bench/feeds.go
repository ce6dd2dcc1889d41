package bench

import (
	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// compareFeedOrders compares the scheduler with the GEMEL paper's variant of Nexus, on its nine workloads: 30 frames a
// second, 100 ms, weights as they are and with the most that could be shared.
func (x *Experiments) compareFeedOrders() error {
	table := &figures.Table{Header: []string{"sharing", "memory", "workload", "order", "mean", "least", "longest_gap_s", "gb_s"}}
	means := &figures.Table{Header: []string{"sharing", "memory", "order", "mean", "least", "longest_gap_s", "gb_s", "mean_ratio", "least_ratio"}}
	for _, merged := range []bool{false, true} {
		for _, memory := range []presets.Memory{presets.Least, presets.Half, presets.Three4} {
			if err := x.feedsAt(table, means, memory, merged); err != nil {
				return err
			}
		}
	}
	if err := x.writeTable("feeds-workloads", table); err != nil {
		return err
	}
	return x.saveTable("feeds", means)
}

// feedsAt simulates all workloads in one setting.
func (x *Experiments) feedsAt(table, means *figures.Table, memory presets.Memory, merged bool) error {
	sharing := map[bool]string{false: "none", true: "most"}[merged]
	var sums [2]tally
	for _, w := range presets.Workloads() {
		var of [2]tally
		for i := range x.Repeats {
			x.printNextRun("%s, sharing %s, memory %s, seed %d", w.Name, sharing, memory, x.Seed+uint64(i))
			f := presets.Feeds{Workload: w, Memory: memory, Merged: merged, Seed: x.Seed + uint64(i)}
			for k, run := range []func() (*presets.FeedsOutcome, error){f.RunNexus, f.Run} {
				o, err := run()
				if err != nil {
					return err
				}
				of[k].addOutcome(o)
			}
		}
		for i, name := range feedOrders {
			table.Add(sharing, memory, w.Name, name, of[i].mean/of[i].n, of[i].least/of[i].n, of[i].gap, of[i].loaded/of[i].n)
			sums[i].join(of[i])
		}
	}
	for i, name := range feedOrders {
		s := sums[i]
		means.Add(sharing, memory, name, s.mean/s.n, s.least/s.n, s.gap, s.loaded/s.n, s.mean/sums[0].mean, s.least/sums[0].least)
	}
	return nil
}

// feedOrders are the orders that are compared, in the order of the tables.
var feedOrders = [2]string{"nexus variant", "scheduler"}

// tally adds up outcomes; gap is the longest of them.
type tally struct{ n, mean, least, gap, loaded float64 }

func (t *tally) addOutcome(o *presets.FeedsOutcome) {
	t.join(tally{1, o.Mean(), o.Least(), o.Gap, o.Loaded / 1e9})
}

func (t *tally) join(o tally) {
	t.n += o.n
	t.mean += o.mean
	t.least += o.least
	t.gap = max(t.gap, o.gap)
	t.loaded += o.loaded
}
