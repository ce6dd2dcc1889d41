package bench

import (
	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// compareModelSwaps compares the real scheduler with the orders of other servers: Poisson requests for three models of half a
// billion parameters, where two fit. On a CPU a load of 1 GB takes 0.5 s of the device's own time and a request of 200
// tokens 0.15 s; the same times beside a channel of its own show what that changes.
func (x *Experiments) compareModelSwaps() error {
	table := &figures.Table{Header: []string{"loads_take", "load_s", "busy", "order", "loads", "mean_s", "p99_s", "longest_s"}}
	for _, ownTime := range []bool{true, false} {
		for _, load := range []float64{0.25, 0.5, 1} {
			for _, busy := range []float64{0.2, 0.4, 0.6, 0.7, 0.8} {
				if err := x.swapsAt(table, ownTime, load, busy); err != nil {
					return err
				}
			}
		}
	}
	return x.saveTable("swaps", table)
}

// swapsAt compares the orders where requests alone would keep the device busy for such a share of the time.
func (x *Experiments) swapsAt(table *figures.Table, ownTime bool, load, busy float64) error {
	const service, requests = 0.15, 4000
	takes := map[bool]string{true: "device", false: "channel"}[ownTime]
	s := presets.Swaps{
		Shares: []float64{0.6, 0.3, 0.1}, Room: 2, Load: load, Service: service, Rate: busy / service, OwnTime: ownTime,
		Requests: requests,
	}
	for _, name := range append([]string{presets.Scheduler}, presets.Servers()...) {
		x.printNextRun("%s, loads of %v s take the %s, %v busy", name, load, takes, busy)
		var all presets.SwapsOutcome
		for i := range x.Repeats {
			s.Seed = x.Seed + uint64(i)
			o, err := s.Run(name)
			if err != nil {
				return err
			}
			all.Loads += o.Loads
			all.Waits = append(all.Waits, o.Waits...)
		}
		table.Add(takes, load, busy, name, float64(all.Loads)/float64(x.Repeats), all.Mean(), all.Percentile(99), all.Percentile(100))
	}
	return nil
}
