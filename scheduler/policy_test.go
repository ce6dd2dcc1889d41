package scheduler

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// request is a job of a shop, and what became of it.
type request struct {
	at, started, ended time.Duration
	tokens             int
	user               string
	priority           int
	held               time.Duration // paused after it was started
}

// perToken is the speed of a shop's executor.
const perToken = time.Millisecond

// shop runs requests, in the order of their times, on one executor that takes a millisecond a token
// and stops at once when it is told to pause.
func shop(t *testing.T, change func(*Config), requests []*request) {
	t.Helper()
	w := basic(t, func(c *Config) {
		c.MaxPassItems, c.PeerTimeout, c.PrefixCaching = 1, 1<<60, false
		change(c)
	})
	w.core.fleet.Executors[0].Instances[0].Cost = cost.New(wire.Cost{Unit: perToken})
	by := map[engine.JobID]*request{}
	left := map[wire.PassID]time.Duration{}
	byPass := map[wire.PassID]*wire.Run{}
	pausedAt := map[wire.PassID]time.Duration{}
	var running *wire.Run
	var since time.Duration
	var follow func(out []Envelope)
	follow = func(out []Envelope) {
		for _, e := range slices.Clone(out) {
			switch m := e.Msg.(type) {
			case *wire.Run:
				running, since = m, w.now
				byPass[m.Pass] = m
				left[m.Pass] = time.Duration(item(m, 0).Len()) * perToken
				by[m.Items[0].Job].started = w.now
			case *wire.Resume:
				running, since = byPass[m.Pass], w.now
				by[running.Items[0].Job].held += w.now - pausedAt[m.Pass]
			case *wire.Pause:
				left[m.Pass] -= w.now - since
				pausedAt[m.Pass] = w.now
				running = nil
				follow(w.step("cpu", &wire.Paused{Pass: m.Pass}))
			case *wire.Result:
				by[m.Job].ended = w.now
			}
		}
	}
	for next := 0; next < len(requests) || running != nil; {
		if running != nil && (next == len(requests) || since+left[running.Pass] <= requests[next].at) {
			w.now = since + left[running.Pass]
			done := answer(running, left[running.Pass])
			done.Took = time.Duration(item(running, 0).Len()) * perToken
			running = nil
			follow(w.step("cpu", done))
			continue
		}
		r := requests[next]
		next++
		w.now = r.at
		id := engine.JobID(next)
		by[id] = r
		follow(w.submit("web", &submission{Job: id, Tokens: tokens(1, r.tokens), MaxTokens: 1, User: r.user, Priority: r.priority}))
	}
	for i, r := range requests {
		if r.ended == 0 {
			t.Fatalf("request %d, of %d tokens at %v, is never answered", i, r.tokens, r.at)
		}
	}
}

// mixture makes requests at a load of the executor: mostly short, some long.
func mixture(seed uint64, n int, load float64) []*request {
	rng := rand.New(rand.NewPCG(seed, 9))
	var at time.Duration
	var out []*request
	for range n {
		size := 10 + rng.IntN(100)
		if rng.IntN(20) == 0 {
			size = 1000 + rng.IntN(3000)
		}
		out = append(out, &request{at: at, tokens: size, priority: rng.IntN(3), user: strconv.Itoa(rng.IntN(4))})
		const mean = 0.95*60 + 0.05*2500
		at += time.Duration(rng.ExpFloat64() * mean / load * float64(perToken))
	}
	return out
}

// TestNoOvertakingUnderFCFS holds fcfs to its bound: a job waits for those before it alone.
func TestNoOvertakingUnderFCFS(t *testing.T) {
	requests := mixture(1, 500, 1.2)
	shop(t, func(c *Config) { c.Policy = "fcfs" }, requests)
	for i := 1; i < len(requests); i++ {
		if requests[i].started < requests[i-1].ended {
			t.Fatalf("request %d started before %d had ended", i, i-1)
		}
	}
}

// TestBoundOfCalibratedSRJF holds srjf-calibrated and srpt to their bounds, under overload and with a
// cache that changes all the time: a job of cost c is overtaken only by jobs that arrive less than
// c/lambda after it, and waits no longer than those and what was there before it take.
func TestBoundOfCalibratedSRJF(t *testing.T) {
	for _, policy := range []string{"srjf-calibrated", "srpt"} {
		for _, lambda := range []float64{50, 500} {
			for _, caching := range []bool{false, true} {
				requests := mixture(2, 800, 1.5)
				shop(t, func(c *Config) { c.Policy, c.Fairness, c.PrefixCaching = policy, lambda, caching }, requests)
				overtaken := 0
				backlog, since := time.Duration(0), time.Duration(0) // of work, at a time
				for i, r := range requests {
					backlog, since = max(0, backlog-(r.at-since)), r.at
					window := time.Duration(float64(r.tokens) / lambda * float64(time.Second))
					most := backlog
					for _, later := range requests[i+1:] {
						if later.at <= r.at+window {
							most += time.Duration(later.tokens) * perToken
						}
						if later.started >= r.started {
							continue
						}
						overtaken++
						if later.at > r.at+window {
							t.Fatalf("%s, lambda %v: %d tokens at %v are overtaken by %d at %v, more than %v later",
								policy, lambda, r.tokens, r.at, later.tokens, later.at, window)
						}
					}
					if waited := r.started - r.at; waited > most {
						t.Fatalf("%s, lambda %v: %d tokens wait for %v, want at most %v", policy, lambda, r.tokens, waited, most)
					}
					backlog += time.Duration(r.tokens) * perToken
				}
				if overtaken == 0 {
					t.Errorf("%s, lambda %v: nobody is ever overtaken, the test shows nothing", policy, lambda)
				}
			}
		}
	}
}

// TestFairnessIsInTokens holds the meaning of lambda to its words: on executors of any speed, profiled or not, it
// is so many tokens a second, and a profile's attention counts in tokens of that profile.
func TestFairnessIsInTokens(t *testing.T) {
	for _, tt := range []struct {
		name  string
		token time.Duration
		pair  float64 // seconds
		more  float64 // cost in tokens of 2,000 over 1,000
	}{
		{"without a profile", 0, 0, 1000},
		{"a fast executor", 10 * time.Microsecond, 0, 1000},
		{"a slow one", 10 * time.Millisecond, 0, 1000},
		{"one whose attention costs as much again", 10 * time.Microsecond, 10e-6 / 1500, 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				cfg := DefaultConfig()
				cfg.MaxPassItems = 1
				w := newWorld(t, cfg)
				w.frontend("web")
				info := executorInfo()
				info.CostToken, info.CostPair = tt.token, tt.pair
				w.executor("cpu", 1, info)
				run := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 9), MaxTokens: 1}))[0]
				w.submit("web", &submission{Job: 2, Tokens: tokens(2, 2000), MaxTokens: 1})
				w.now += time.Duration(tt.more / cfg.Fairness * 0.99 * float64(time.Second))
				want := engine.JobID(3)
				if late {
					w.now += time.Duration(tt.more / cfg.Fairness * 0.02 * float64(time.Second))
					want = 2
				}
				w.submit("web", &submission{Job: 3, Tokens: tokens(3, 1000), MaxTokens: 1})
				if next := runs(w.step("cpu", answer(run, time.Second))); next[0].Items[0].Job != want {
					t.Errorf("1,000 tokens come %v after 2,000, and job %d is next", w.now, next[0].Items[0].Job)
				}
			}
		})
	}
}

// TestBoundOfPreemption holds srpt to its bound: a started job is held up no longer than it runs, and
// by one job more.
func TestBoundOfPreemption(t *testing.T) {
	requests := mixture(3, 800, 1.5)
	longest := time.Duration(0)
	for _, r := range requests {
		longest = max(longest, time.Duration(r.tokens)*perToken)
	}
	shop(t, func(c *Config) { c.Policy = "srpt" }, requests)
	paused := 0
	for _, r := range requests {
		if r.held > 0 {
			paused++
		}
		if runs := time.Duration(r.tokens) * perToken; r.held > runs+longest {
			t.Errorf("%d tokens are held up for %v, they run for %v", r.tokens, r.held, runs)
		}
	}
	if paused == 0 {
		t.Error("no pass is ever paused")
	}
}

// TestPreemptionHelpsTheShort compares the 99th percentile of short jobs among long ones.
func TestPreemptionHelpsTheShort(t *testing.T) {
	p99 := func(policy string) time.Duration {
		var requests []*request
		for i := range 400 {
			at := time.Duration(i) * 500 * time.Millisecond
			requests = append(requests, &request{at: at, tokens: 200})
			if i%100 == 0 {
				requests = append(requests, &request{at: at + 1, tokens: 24000})
			}
		}
		shop(t, func(c *Config) { c.Policy = policy }, requests)
		var waits []time.Duration
		for _, r := range requests {
			if r.tokens == 200 {
				waits = append(waits, r.ended-r.at)
			}
		}
		slices.Sort(waits)
		return waits[len(waits)*99/100]
	}
	without, with := p99("srjf-calibrated"), p99("srpt")
	t.Logf("P99 of short jobs: %v without pre-emption, %v with", without, with)
	if without < 5*with {
		t.Errorf("pre-emption lowers the P99 of short jobs from %v to %v only, want a fifth", without, with)
	}
}

// TestHRRNEndsStarvation sends a long job into a stream of short ones that leaves no gap: sjf never
// runs it while they come, hrrn does when its ratio has grown past theirs.
func TestHRRNEndsStarvation(t *testing.T) {
	started := func(policy string) time.Duration {
		requests := []*request{{tokens: 100}, {tokens: 100}, {tokens: 2000}}
		for i := range 600 {
			requests = append(requests, &request{at: time.Duration(i+1) * 100 * perToken, tokens: 100})
		}
		shop(t, func(c *Config) { c.Policy = policy }, requests)
		return requests[2].started
	}
	// One short job is always waiting, about as long as it runs: its ratio is about 2 or 3.
	if at := started("hrrn"); at > 6*time.Second {
		t.Errorf("under hrrn 2 s of work begin after %v, want within 6 s", at)
	}
	if at := started("sjf"); at < 60*time.Second {
		t.Errorf("under sjf the long job begins at %v: the stream has gaps, the test shows nothing", at)
	}
}

// TestUserFairness lets one user flood: another's job must not wait for all of it.
func TestUserFairness(t *testing.T) {
	started := func(fair bool) time.Duration {
		var requests []*request
		for range 200 {
			requests = append(requests, &request{tokens: 100, user: "greedy"})
		}
		requests = append(requests, &request{at: time.Second, tokens: 100, user: "modest"})
		shop(t, func(c *Config) { c.Policy, c.UserFairness = "fcfs", fair }, requests)
		return requests[200].started
	}
	if fair, unfair := started(true), started(false); fair > 2*time.Second || unfair < 19*time.Second {
		t.Errorf("the modest user's job starts at %v with fairness and %v without, want within a second, and last", fair, unfair)
	}
}

func TestOrderOfPriorities(t *testing.T) {
	requests := mixture(4, 200, 3)
	shop(t, func(c *Config) { c.Policy = "priority" }, requests)
	for i, r := range requests {
		for k, other := range requests {
			waited := other.at <= r.started && other.started > r.started
			if waited && (other.priority < r.priority || other.priority == r.priority && k < i) {
				t.Fatalf("request %d of priority %d started while %d of priority %d waited", i, r.priority, k, other.priority)
			}
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Policy = "lottery" },
		func(c *Config) { c.Fairness = -1 },
		func(c *Config) { c.Routing = "random" },
		func(c *Config) { c.Eviction = "mru" },
		func(c *Config) { c.MaxQueuedJobs = 0 },
		func(c *Config) { c.MaxQueuedTokens = 0 },
		func(c *Config) { c.MaxQueueTime = -1 },
		func(c *Config) { c.MaxPassItems = 0 },
		func(c *Config) { c.MaxPaused = 0 },
		func(c *Config) { c.PeerTimeout = 0 },
		func(c *Config) { c.UnavailableAfter = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := NewCore(cfg, 1); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
