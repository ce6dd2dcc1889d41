package bench

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/bench/load"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/sim"
	"github.com/prefillonly/prefillonly/scheduler/sim/presets"
)

// sessionGap is the time between the requests of one user in the paper's experiments. It is not
// published; at 100 ms the latencies below saturation agree with the artifact's raw results.
const sessionGap = 100 * time.Millisecond

// contender is one method on one machine, as the paper's figures compare them.
type contender struct {
	machine       presets.Machine
	method        presets.Method
	prefixCaching bool
	fairness      float64          // lambda; negative: the default
	eviction      kvcache.Eviction // empty: the method's
}

// result is what one run in the simulator found.
type result struct {
	throughput float64 // requests a second, from the start of the trace to the last answer
	mean       time.Duration
	sorted     []time.Duration // latencies
	cached     float64         // share of prompt tokens
}

func (r result) latencyPercentile(p float64) time.Duration { return load.Percentile(r.sorted, p) }

func newContender(m presets.Machine, method presets.Method) contender {
	return contender{machine: m, method: method, prefixCaching: true, fairness: -1}
}

// runSimulation simulates requests on the contender's instances. As in the paper each instance is an engine of
// its own, and users are assigned to instances in turn.
func (e contender) runSimulation(requests []load.Request) (result, error) {
	longest := 0
	for _, q := range requests {
		longest = max(longest, q.Prompt.Len())
	}
	config, executor, err := e.machine.Engine(e.method, longest, e.prefixCaching)
	if err != nil {
		return result{}, err
	}
	if e.fairness >= 0 {
		config.Fairness = e.fairness
	}
	if e.eviction != "" {
		config.Eviction = e.eviction
	}
	var records []sim.Record
	for _, part := range byUser(requests, e.method.Instances()) {
		out, err := sim.Run(config, []sim.Executor{executor}, toSim(part))
		if err != nil {
			return result{}, fmt.Errorf("%s on %s: %w", e.method, e.machine.Name, err)
		}
		records = append(records, out.Records...)
	}
	return summarizeRecords(records)
}

func summarizeRecords(records []sim.Record) (result, error) {
	var r result
	var sum, last time.Duration
	var tokens, cached int
	for _, q := range records {
		if q.Code != 0 {
			return r, fmt.Errorf("a request of %d tokens was refused: %s", q.Tokens, q.Code)
		}
		r.sorted = append(r.sorted, q.Latency())
		sum += q.Latency()
		last = max(last, q.Done)
		tokens += q.Tokens
		cached += q.Cached
	}
	slices.Sort(r.sorted)
	r.mean = sum / time.Duration(len(records))
	r.throughput = float64(len(records)) / last.Seconds()
	r.cached = float64(cached) / float64(tokens)
	return r, nil
}

// byUser splits requests over n instances, users in turn by their first request.
func byUser(requests []load.Request, n int) [][]load.Request {
	parts := make([][]load.Request, n)
	instance := map[string]int{}
	for _, q := range requests {
		i, known := instance[q.User]
		if !known {
			i = len(instance) % n
			instance[q.User] = i
		}
		parts[i] = append(parts[i], q)
	}
	return slices.DeleteFunc(parts, func(p []load.Request) bool { return len(p) == 0 })
}

// toSim makes the prompts one by one, when their time has come.
func toSim(requests []load.Request) iter.Seq[sim.Request] {
	return func(yield func(sim.Request) bool) {
		for _, q := range requests {
			tokens := q.Prompt.Tokens
			if len(tokens) == 0 {
				tokens = q.Prompt.Shape.TokenIDs(load.DefaultVocabulary)
			}
			if !yield(sim.Request{At: q.At, User: q.User, Tokens: tokens}) {
				return
			}
		}
	}
}
