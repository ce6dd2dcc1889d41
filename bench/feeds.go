package bench

import (
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// feedOrder is an order of runs and loads that is compared.
type feedOrder struct {
	name string
	run  func(presets.Feeds) (*presets.FeedsOutcome, error)
}

// feedOrders are those, in the order of the tables.
var feedOrders = []feedOrder{
	{"nexus variant", presets.Feeds.RunNexus},
	{"scheduler", presets.Feeds.Run},
	{"scheduler, evicting models", func(f presets.Feeds) (*presets.FeedsOutcome, error) {
		f.ByModel = true
		return f.Run()
	}},
}

// The places of two in feedOrders.
const nexusOrder, ourOrder = 0, 1

// compareFeedOrders compares the scheduler with the GEMEL paper's variant of Nexus, on its nine workloads: 30 frames a
// second, 100 ms, weights as they are, partly merged and with the most that could be shared.
func (x *Experiments) compareFeedOrders() error {
	return x.compareFeeds("feeds", presets.ShortLife)
}

// compareLongFeeds is that with frames that live longer than a pass of Faster R-CNN takes.
func (x *Experiments) compareLongFeeds() error {
	return x.compareFeeds("feeds-400ms", presets.LongLife)
}

// feedTables are what one comparison writes.
type feedTables struct {
	workloads, means, merged figures.Table
}

func (x *Experiments) compareFeeds(name string, lives time.Duration) error {
	t := &feedTables{
		workloads: figures.Table{Header: []string{"sharing", "memory", "workload", "order", "mean", "least", "accuracy", "longest_gap_s", "gb_s"}},
		means:     figures.Table{Header: []string{"sharing", "memory", "order", "mean", "least", "accuracy", "longest_gap_s", "gb_s", "mean_ratio", "least_ratio"}},
		merged: figures.Table{Header: []string{
			"memory", "workload", "ours_merged", "paper_merged", "paper_unmerged", "to_merged", "to_unmerged", "ours_least", "paper_least", "unmerged_least", "ours_accuracy", "paper_accuracy", "unmerged_accuracy",
		}},
	}
	for _, memory := range presets.Memories {
		of := map[presets.Sharing][][]tally{} // by workload and order
		for _, sharing := range []presets.Sharing{presets.Unmerged, presets.Merged, presets.Optimal} {
			rows, err := x.feedsAt(t, presets.Feeds{Memory: memory, Sharing: sharing, Lives: lives})
			if err != nil {
				return err
			}
			of[sharing] = rows
		}
		for i, w := range presets.Workloads(lives) {
			t.addMerged(memory, w.Name, of[presets.Merged][i], of[presets.Unmerged][i])
		}
		t.addMerged(memory, "all", sumTallies(of[presets.Merged]), sumTallies(of[presets.Unmerged]))
	}
	if err := x.writeTable(name+"-workloads", &t.workloads); err != nil {
		return err
	}
	if err := x.saveTable(name+"-merged", &t.merged); err != nil {
		return err
	}
	return x.saveTable(name, &t.means)
}

// feedsAt simulates all workloads in one setting.
func (x *Experiments) feedsAt(t *feedTables, f presets.Feeds) (rows [][]tally, err error) {
	workloads := presets.Workloads(f.Lives)
	outcomes := make([]*presets.FeedsOutcome, len(workloads)*len(feedOrders)*x.Repeats)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range outcomes {
		f, order := f, feedOrders[i/x.Repeats%len(feedOrders)]
		f.Workload, f.Seed = workloads[i/x.Repeats/len(feedOrders)], x.Seed+uint64(i%x.Repeats)
		x.printNextRun("%s, sharing %s, memory %s, %s, seed %d", f.Workload.Name, f.Sharing, f.Memory, order.name, f.Seed)
		g.Go(func() (err error) {
			outcomes[i], err = order.run(f)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, w := range workloads {
		of := make([]tally, len(feedOrders))
		for k, order := range feedOrders {
			from := (i*len(feedOrders) + k) * x.Repeats
			for _, o := range outcomes[from : from+x.Repeats] {
				of[k].addOutcome(o)
			}
			m := of[k].meanTally()
			t.workloads.Add(f.Sharing, f.Memory, w.Name, order.name, m.shares, m.least, m.accuracy, m.gap, m.loaded)
		}
		rows = append(rows, of)
	}
	sums := sumTallies(rows)
	nexus := sums[nexusOrder].meanTally()
	for i, order := range feedOrders {
		m := sums[i].meanTally()
		t.means.Add(f.Sharing, f.Memory, order.name, m.shares, m.least, m.accuracy, m.gap, m.loaded, m.shares/nexus.shares, m.least/nexus.least)
	}
	return rows, nil
}

// addMerged sets the scheduler on merged models beside the paper's schedule on merged and on unmerged ones.
func (t *feedTables) addMerged(memory presets.Memory, workload string, merged, unmerged []tally) {
	ours, paper, plain := merged[ourOrder].meanTally(), merged[nexusOrder].meanTally(), unmerged[nexusOrder].meanTally()
	t.merged.Add(memory, workload, ours.shares, paper.shares, plain.shares, ours.shares/paper.shares, ours.shares/plain.shares,
		ours.least, paper.least, plain.least, ours.accuracy, paper.accuracy, plain.accuracy)
}

// tally adds up outcomes; gap is the longest of them.
type tally struct{ n, shares, least, accuracy, gap, loaded float64 }

func (t *tally) addOutcome(o *presets.FeedsOutcome) {
	t.addTally(tally{1, o.Mean(), o.Least(), o.MeanAccuracy(), o.Gap, o.Loaded / 1e9})
}

func (t *tally) addTally(o tally) {
	t.n += o.n
	t.shares += o.shares
	t.least += o.least
	t.accuracy += o.accuracy
	t.gap = max(t.gap, o.gap)
	t.loaded += o.loaded
}

func (t tally) meanTally() tally {
	return tally{1, t.shares / t.n, t.least / t.n, t.accuracy / t.n, t.gap, t.loaded / t.n}
}

// sumTallies adds up those of all workloads, by order.
func sumTallies(rows [][]tally) []tally {
	sums := make([]tally, len(feedOrders))
	for _, row := range rows {
		for i, t := range row {
			sums[i].addTally(t)
		}
	}
	return sums
}
