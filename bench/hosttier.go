package bench

import (
	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/sim"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// hostTier measures what host memory below the prefix cache gives to users who come back in turn, more
// than the device holds prefixes of, over the request rate. The rate is in multiples of what the device
// does when it computes every prompt whole.
func (x *Experiments) hostTier() error {
	table := &figures.Table{Header: []string{"machine", "workload", "rate", "host_gib", "eviction", "throughput", "mean_s", "p99_s", "on_device", "loaded"}}
	for _, name := range []string{"H100", "L4"} {
		m, err := presets.MachineNamed(name)
		if err != nil {
			return err
		}
		for _, spec := range []load.Spec{load.PostRecommendation(), returningApplicants()} {
			if err := x.hostTierOf(table, m, spec); err != nil {
				return err
			}
		}
	}
	return x.saveTable("host-tier", table)
}

// returningApplicants is credit verification with three questions to each applicant's history.
func returningApplicants() load.Spec {
	spec := load.CreditVerification()
	spec.Name, spec.PerUser, spec.Item = "credit-verification-x3", 3, 150
	return spec
}

func (x *Experiments) hostTierOf(table *figures.Table, m presets.Machine, spec load.Spec) error {
	longest := spec.Profile.Max + spec.Item
	config, executor, err := m.Engine(presets.LayerMajor, longest, true)
	if err != nil {
		return err
	}
	mean := (spec.Profile.Min+spec.Profile.Max)/2 + spec.Item
	whole := executor.Cost.Pass([]sim.Item{{Tokens: mean}}).Seconds()
	for _, multiple := range []float64{0.5, 1, 4} {
		requests, err := spec.Generate(load.Arrivals{Rate: multiple / whole}, x.Seed) // in a random order
		if err != nil {
			return err
		}
		for _, c := range []struct {
			gib      float64
			eviction kvcache.Eviction
		}{{0, kvcache.EvictReuse}, {0, kvcache.EvictLRU}, {64, kvcache.EvictReuse}, {256, kvcache.EvictReuse}} {
			config.Eviction = c.eviction
			x.printNextRun("%s, %s, %.2f requests/s, %v GiB, %s", m.Name, spec.Name, multiple/whole, c.gib, c.eviction)
			out, err := sim.Run(config, []sim.Executor{m.WithHostMemory(executor, c.gib*(1<<30))}, toSim(requests))
			if err != nil {
				return err
			}
			r, err := summarizeRecords(out.Records)
			if err != nil {
				return err
			}
			queries := float64(out.Models[0].PrefixQueries)
			table.Add(m.Name, spec.Name, multiple/whole, c.gib, c.eviction, r.throughput, r.mean.Seconds(), r.latencyPercentile(99).Seconds(),
				float64(out.Models[0].PrefixHits)/queries, float64(out.Models[0].HostHits)/queries)
		}
	}
	return nil
}
