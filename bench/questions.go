package bench

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/bench/figures"
	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/sim"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// measurePreemption measures short requests among long ones on one H100: how long the short ones wait when
// a pass can be paused after any layer, and when it cannot.
func (x *Experiments) measurePreemption() error {
	const long, short, requests = 60000, 200, 4000
	m, err := presets.MachineNamed("H100")
	if err != nil {
		return err
	}
	config, executor, err := m.Engine(presets.LayerMajor, long, true)
	if err != nil {
		return err
	}
	table := &figures.Table{Header: []string{"short_per_s", "policy", "profiled", "short_p50_s", "short_p99_s", "long_p50_s", "long_p99_s", "throughput", "pauses"}}
	// Long requests keep the GPU busy for half of the time.
	const longRate = 0.02
	for _, shortRate := range []float64{0.1, 1} {
		for _, way := range []struct {
			policy   string
			profiled bool
		}{{"srjf-calibrated", true}, {"srpt", true}, {"srjf-calibrated", false}, {"srpt", false}} {
			config.Policy, executor.Untold = way.policy, !way.profiled
			x.printNextRun("%v short requests/s, %s, profiled %v", shortRate, way.policy, way.profiled)
			out, err := sim.Run(config, []sim.Executor{executor}, mixPoissonPrompts(x.Seed, requests, long, short, longRate, shortRate))
			if err != nil {
				return err
			}
			row := []any{shortRate, way.policy, way.profiled}
			for _, tokens := range []int{short, long} {
				l := latenciesOf(out.Records, tokens)
				row = append(row, load.Percentile(l, 50).Seconds(), load.Percentile(l, 99).Seconds())
			}
			table.Add(append(row, float64(requests)/out.Span.Seconds(), out.Stats.Preemptions)...)
		}
	}
	return x.saveTable("preemption", table)
}

// latenciesOf sorts the latencies of the requests of so many tokens.
func latenciesOf(records []sim.Record, tokens int) []time.Duration {
	var l []time.Duration
	for _, r := range records {
		if r.Tokens == tokens {
			l = append(l, r.Latency())
		}
	}
	slices.Sort(l)
	return l
}

// mixPoissonPrompts makes two Poisson processes of prompts that nobody else begins with.
func mixPoissonPrompts(seed uint64, requests, long, short int, longRate, shortRate float64) iter.Seq[sim.Request] {
	return func(yield func(sim.Request) bool) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var at float64
		for i := range requests {
			at += rng.ExpFloat64() / (longRate + shortRate)
			tokens, kind := short, "short"
			if rng.Float64() < longRate/(longRate+shortRate) {
				tokens, kind = long, "long"
			}
			q := sim.Request{At: time.Duration(at * 1e9), User: kind, Tokens: oneOff(seed, i, tokens)}
			if !yield(q) {
				return
			}
		}
	}
}

// oneOff is a prompt of its own.
func oneOff(seed uint64, i, tokens int) []engine.TokenID {
	return load.Shape{Suffix: seed<<32 + uint64(i), SuffixTokens: tokens}.TokenIDs(load.DefaultVocabulary)
}

// measurePrefixFlood measures how many of their profiles' tokens users find in the prefix cache, alone and among
// long prompts that come once, under both evictions.
func (x *Experiments) measurePrefixFlood() error {
	const users, perUser, room, long = 10, 60, 180_000, 60_000
	m, err := presets.MachineNamed("H100")
	if err != nil {
		return err
	}
	config, executor, err := m.Engine(presets.LayerMajor, long, true)
	if err != nil {
		return err
	}
	executor.NumBlocks = room / executor.BlockTokens
	spec := load.PostRecommendation()
	spec.Users, spec.PerUser = users, perUser
	requests, err := spec.Generate(load.Arrivals{Rate: 0.5}, x.Seed)
	if err != nil {
		return err
	}
	table := &figures.Table{Header: []string{"eviction", "hit_rate_alone", "hit_rate_in_flood", "points_lost"}}
	for _, eviction := range []kvcache.Eviction{kvcache.EvictReuse, kvcache.EvictLRU} {
		config.Eviction = eviction
		var rates [2]float64
		for i, every := range []int{0, 10} {
			x.printNextRun("eviction %s, a long prompt after every %d", eviction, every)
			out, err := sim.Run(config, []sim.Executor{executor}, addLongPrompts(requests, x.Seed, every, long))
			if err != nil {
				return err
			}
			var cached, tokens int
			for _, r := range out.Records {
				if r.Tokens != long {
					cached += r.Cached
					tokens += r.Tokens
				}
			}
			rates[i] = float64(cached) / float64(tokens)
		}
		table.Add(eviction, rates[0], rates[1], 100*(rates[0]-rates[1]))
	}
	return x.saveTable("flood", table)
}

// addLongPrompts adds a long prompt of its own to every so many requests; 0 adds none.
func addLongPrompts(requests []load.Request, seed uint64, every, long int) iter.Seq[sim.Request] {
	return func(yield func(sim.Request) bool) {
		i := 0
		for q := range toSim(requests) {
			if !yield(q) {
				return
			}
			if i++; every > 0 && i%every == 0 {
				if !yield(sim.Request{At: q.At, User: fmt.Sprint("once-", i), Tokens: oneOff(seed, i, long)}) {
					return
				}
			}
		}
	}
}

// scaleDown is by how much scale shortens prompts and slows executors, so that a million prompts fit
// into memory and minutes: a block is one token long and stands for so many. Latencies are those of the
// full lengths.
const scaleDown = 160

// compareAtScale compares routings and policies over 1,000 executors, each one H100, below and above what they
// can do when no prefix is computed twice.
func (x *Experiments) compareAtScale() error {
	const executors, perUser = 1000, 10
	config, one, spec, err := scaledExperiment()
	if err != nil {
		return err
	}
	cluster := make([]sim.Executor, executors)
	for i := range cluster {
		cluster[i] = one
		cluster[i].Name = fmt.Sprintf("gpu-%04d", i)
	}
	spec.PerUser = perUser
	table := &figures.Table{Header: []string{"load", "users", "routing", "policy", "throughput", "mean_s", "p50_s", "p99_s", "cached", "busy"}}
	for _, part := range scaleParts {
		spec.Users = max(1, x.Users/part.fewer)
		rate := part.load * executors / sessionCost(one, spec, perUser) * perUser
		requests, err := spec.Generate(load.Arrivals{Rate: rate, Sessions: true, Gap: sessionGap}, x.Seed)
		if err != nil {
			return err
		}
		for _, policy := range part.policies {
			config.Routing, config.Policy = part.routing, policy
			start := time.Now()
			x.printNextRun("load %v, %s, %s, %d requests", part.load, part.routing, policy, len(requests))
			out, err := sim.Run(config, cluster, toSim(requests))
			if err != nil {
				return err
			}
			x.printNextRun("")
			fmt.Fprintf(x.Log, "%v %s %s: %d requests in %s\n", part.load, part.routing, policy, len(out.Records), time.Since(start).Round(time.Second))
			r, err := summarizeRecords(out.Records)
			if err != nil {
				return err
			}
			var busy time.Duration
			for _, b := range out.Busy {
				busy += b
			}
			table.Add(part.load, spec.Users, part.routing, policy, r.throughput, r.mean.Seconds(), r.latencyPercentile(50).Seconds(), r.latencyPercentile(99).Seconds(), r.cached,
				busy.Seconds()/out.Span.Seconds()/executors)
			// A run that is cut short leaves what is done.
			if err := x.writeTable("scale", table); err != nil {
				return err
			}
		}
	}
	return x.saveTable("scale", table)
}

// scaleParts are what scale compares, the likely winners first. load is the share of what the executors
// can do; above 1, where waits grow for as long as users come, fewer of them do.
var scaleParts = []struct {
	load     float64
	fewer    int
	routing  string
	policies []string
}{
	{0.8, 1, scheduler.RoutePrefix, []string{"srjf-calibrated", "srpt", "fcfs", "hrrn", "srjf"}},
	{0.8, 1, scheduler.RouteUser, []string{"srjf-calibrated", "srpt", "fcfs", "hrrn", "srjf"}},
	{0.8, 1, scheduler.RouteLoad, []string{"srjf-calibrated", "fcfs"}},
	{1.2, 5, scheduler.RoutePrefix, []string{"srjf-calibrated", "fcfs", "hrrn", "srjf", "srpt"}},
}

// scaledExperiment is the scheduler, one executor and the workload of scale, scaled down.
func scaledExperiment() (scheduler.Config, sim.Executor, load.Spec, error) {
	spec, err := load.PostRecommendation().Scale(1.0/scaleDown, 1)
	if err != nil {
		return scheduler.Config{}, sim.Executor{}, spec, err
	}
	m, err := presets.MachineNamed("H100")
	if err != nil {
		return scheduler.Config{}, sim.Executor{}, spec, err
	}
	longest := load.PostRecommendation().Profile.Max + load.PostRecommendation().Item
	config, one, err := m.Engine(presets.LayerMajor, longest, true)
	one.NumBlocks = one.NumBlocks * one.BlockTokens / scaleDown
	one.BlockTokens = 1
	one.Cost.Token *= scaleDown
	one.Cost.Pair *= scaleDown * scaleDown
	one.MaxModelLen = longest
	return config, one, spec, err
}

// sessionCost is the seconds an executor spends on one user's requests when only the first one
// misses the cache.
func sessionCost(e sim.Executor, spec load.Spec, perUser int) float64 {
	profile := (spec.Profile.Min + spec.Profile.Max) / 2
	first := e.Cost.Pass([]sim.Item{{Tokens: profile + spec.Item}})
	other := e.Cost.Pass([]sim.Item{{Tokens: profile + spec.Item, Cached: profile}})
	return (first + time.Duration(perUser-1)*other).Seconds()
}
