package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// basic is a world with a frontend "web" and an executor "cpu".
func basic(t testing.TB, change func(*Config)) *world {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	w := newWorld(t, cfg)
	w.frontend("web")
	w.executor("cpu", 1, executorInfo())
	return w
}

func TestOneJob(t *testing.T) {
	w := basic(t, nil)
	w.now = time.Second
	run := runs(w.submit("web", &submission{Job: 5, Tokens: tokens(1, 10), MaxTokens: 1}))[0]
	if it := item(run, 0); it.Cached != 0 || len(it.Blocks) != 2 || it.From != 0 || len(it.Tokens) != 10 {
		t.Errorf("10 cold tokens run as %+v, want two blocks to fill", it)
	}
	w.now = 3 * time.Second
	out := w.step("cpu", answer(run, time.Second))
	if len(out) != 1 || out[0].To != "web" {
		t.Fatalf("sent %+v, want one result to web", out)
	}
	r := results(out)[0]
	if r.Finish != engine.FinishLength || output(r).Answer.Token != 7 || r.Timing.Running != 2*time.Second {
		t.Errorf("result %+v", r)
	}
	second := runs(w.submit("web", &submission{Job: 6, Tokens: tokens(1, 10), MaxTokens: 1}))[0]
	if item(second, 0).Cached != 8 {
		t.Errorf("the same prompt again has %d tokens cached, want 8", item(second, 0).Cached)
	}
}

// TestVectors: what needs each position is computed whole, a last token's vector from the cache, and an answer of another
// size is a fault.
func TestVectors(t *testing.T) {
	w := basic(t, nil)
	vector := func(job engine.JobID, pool engine.Pool) *wire.Run {
		return runs(w.submit("web", &submission{Job: job, Tokens: tokens(1, 10), Ask: engine.Ask{Pool: pool}}))[0]
	}
	done := func(run *wire.Run, n int) *wire.Result {
		items := []wire.ItemResult{{Job: run.Items[0].Job, Output: &engine.TokenOutput{Vector: make([]float32, n)}}}
		return results(w.step("cpu", &wire.Done{Pass: run.Pass, Items: items}))[0]
	}
	if r := done(vector(5, engine.PoolMean), hiddenSize); r.Err != nil || len(output(r).Vector) != hiddenSize || r.Finish == engine.FinishNone {
		t.Errorf("a mean is answered with %+v", r)
	}
	for pool, want := range map[engine.Pool]int{engine.PoolLast: 8, engine.PoolAll: 0} {
		run := vector(6, pool)
		if got := item(run, 0).Cached; got != want {
			t.Errorf("pooling %d: %d tokens are cached, want %d", pool, got, want)
		}
		if r := done(run, 3); r.Err == nil || r.Err.Code != engine.CodeInternal {
			t.Errorf("pooling %d: three numbers are an answer: %+v", pool, r)
		}
	}
}

func TestImpossibleJobsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		submit submission
		code   engine.Code
		text   string
	}{
		{"no tokens", submission{MaxTokens: 1}, engine.CodeBadTokens, "the prompt has no tokens"},
		{"nothing asked", submission{Tokens: tokens(1, 1)}, engine.CodeBadTokens,
			"max_tokens is 0 and neither prompt logprobs nor a vector are asked for: nothing to answer"},
		{"tokens and a vector", submission{Tokens: tokens(1, 1), MaxTokens: 1, Ask: engine.Ask{Pool: engine.PoolLast}}, engine.CodeBadTokens,
			"a vector is asked for, and tokens or prompt logprobs too: these are two jobs"},
		{"no pooling", submission{Tokens: tokens(1, 1), Ask: engine.Ask{Head: true}}, engine.CodeBadTokens, "pooling 0 with head true is unknown"},
		{"scores of no position", submission{Tokens: tokens(1, 4), Ask: engine.Ask{PromptLogprobs: true, PromptFrom: 4}}, engine.CodeBadTokens,
			"prompt logprobs from position 4 on are asked for, of 4 tokens, with prompt logprobs true"},
		{"too long", submission{Tokens: tokens(1, 1<<20), MaxTokens: 1}, engine.CodeTooLong,
			"the prompt has 1048576 tokens and max_tokens is 1, 1048577 together; the limit is 1048576"},
		{"too much to keep", submission{Tokens: tokens(1, 300), MaxTokens: 102}, engine.CodeTooLong,
			"300 prompt tokens and 102 to generate need 101 KV blocks of 4 tokens, the cache has 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := basic(t, nil)
			tt.submit.Job = 1
			out := w.submit("web", &tt.submit)
			if len(out) != 1 || len(results(out)) != 1 {
				t.Fatalf("sent %+v, want one result", out)
			}
			if err := results(out)[0].Err; err == nil || err.Code != tt.code || err.Message != tt.text {
				t.Errorf("refused with %v, want %v: %s", err, tt.code, tt.text)
			}
			if len(w.core.jobs) != 0 || w.core.fleet.Queued(false).Jobs != 0 {
				t.Error("the refused job is still known")
			}
		})
	}
}

func TestAdmissionBounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Config)
		text   string
		stats  wire.Stats
	}{
		{"jobs", func(c *Config) { c.MaxQueuedJobs = 2 }, "2 requests wait, the limit is 2", wire.Stats{RefusedJobs: 1}},
		{"tokens", func(c *Config) { c.MaxQueuedTokens = 45 }, "40 tokens wait and the prompt has 20, the limit is 45", wire.Stats{RefusedTokens: 1}},
		{"time", func(c *Config) { c.MaxQueueTime = 2 * time.Second }, "the predicted wait is 3.0 s, the limit is 2.0 s", wire.Stats{RefusedTime: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := basic(t, tt.change)
			w.core.fleet.Executors[0].Instances[0].Cost = cost.New(wire.Cost{Base: 1280 * time.Millisecond, Unit: 10 * time.Millisecond})
			var out []Envelope
			for i := range 4 {
				if out = w.submit("web", &submission{Job: engine.JobID(i + 1), Tokens: tokens(i, 20), MaxTokens: 1}); len(results(out)) > 0 {
					break
				}
			}
			err := results(out)[0].Err
			if err == nil || err.Code != engine.CodeOverloaded || err.Message != tt.text || err.RetryAfter < time.Second {
				t.Errorf("refused with %+v, want %s", err, tt.text)
			}
			if got := w.core.fleet.Stats; got != tt.stats {
				t.Errorf("counted %+v, want %+v", got, tt.stats)
			}
		})
	}
}

// TestPromptsThatNeverFitTheQueue: one that is longer than all that may wait together is too long, now and later.
func TestPromptsThatNeverFitTheQueue(t *testing.T) {
	w := basic(t, func(c *Config) { c.MaxQueuedTokens = 45 })
	err := results(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 46), MaxTokens: 1}))[0].Err
	if err == nil || err.Code != engine.CodeTooLong || !strings.Contains(err.Message, "46 tokens, and all prompts that wait may have 45") {
		t.Errorf("refused with %+v", err)
	}
}

// TestPassUnits holds that passes are counted by what they compute, without what they find in the cache.
func TestPassUnits(t *testing.T) {
	w := basic(t, nil)
	for i, size := range []int{16, 17, 17, 16384 + 1} {
		run := runs(w.submit("web", &submission{Job: engine.JobID(i + 1), Tokens: tokens(1, size), MaxTokens: 1}))[0]
		w.step("cpu", answer(run, time.Second))
	}
	got := w.core.fleet.Pools["m"].Gauges()
	want := make([]uint64, len(wire.PassUnitBounds)+1)
	want[2], want[0], want[12] = 1, 2, 1 // 16; 17 with 16 cached, twice; the rest of 16,385
	if !slices.Equal(got.PassUnits, want) || got.ComputedUnits != 16+1+1+16385-16 || got.Passes != 4 {
		t.Errorf("counted %v of %d tokens in %d passes, want %v", got.PassUnits, got.ComputedUnits, got.Passes, want)
	}
}

func TestExecutorDeaths(t *testing.T) {
	w := basic(t, nil)
	w.executor("cpu", 1, executorInfo()) // a heartbeat
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1})
	again := runs(w.executor("cpu", 2, executorInfo()))
	if len(again) != 1 || again[0].Items[0].Job != 1 {
		t.Fatalf("after the first death %+v, want the job run again", again)
	}
	w.executor("cpu", 2, executorInfo())
	out := w.step("cpu", &wire.Lost{})
	if r := results(out); len(r) != 1 || r[0].Err == nil || r[0].Err.Code != engine.CodeExecutorLost {
		t.Fatalf("after the second death %+v, want the job given up", out)
	}
	if w.core.fleet.Stats.ExecutorLost != 2 || w.core.fleet.Stats.Retries != 2 {
		t.Errorf("stats %+v", w.core.fleet.Stats)
	}
}

// TestProgressClearsBlame kills an executor after each token but the last.
func TestProgressClearsBlame(t *testing.T) {
	w := basic(t, nil)
	run := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 5}))[0]
	for token := range 5 {
		out := w.step("cpu", answer(run, time.Second))
		if r := results(out); len(r) != 1 || r[0].Err != nil || output(r[0]).Index != token {
			t.Fatalf("token %d comes as %+v", token, r)
		}
		if token < 4 {
			epoch := uint64(token + 1)
			w.executor("cpu", epoch, executorInfo()) // a heartbeat
			run = runs(w.executor("cpu", epoch+1, executorInfo()))[0]
		}
	}
}

func TestFirstWelcomeIsNoDeath(t *testing.T) {
	w := basic(t, nil)
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1})
	out := w.executor("cpu", 2, executorInfo())
	if a := pick[*wire.Abort](out); len(a) != 1 || a[0].Pass != 1 || len(runs(out)) != 1 {
		t.Errorf("sent %+v, want the first pass aborted and run again", out)
	}
	if n := w.core.jobs[1].Deaths; n != 0 {
		t.Errorf("an executor that changes its epoch in answer to its first Welcome counts as %d deaths", n)
	}
}

// TestStaleHelloIsNoSecondDeath has the last heartbeat of a dead executor come after its loss was
// noticed: the pass it is given then never arrives.
func TestStaleHelloIsNoSecondDeath(t *testing.T) {
	w := basic(t, nil)
	w.executor("cpu", 1, executorInfo()) // a heartbeat
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1})
	w.step("cpu", &wire.Lost{})
	w.executor("cpu", 1, executorInfo())
	w.step("cpu", &wire.Lost{})
	if j := w.core.jobs[1]; j == nil || j.Deaths != 1 {
		t.Errorf("one death is counted as %+v", j)
	}
	if r := runs(w.executor("cpu", 2, executorInfo())); len(r) != 1 {
		t.Errorf("the new executor gets %+v, want the job", r)
	}
}

func TestOrphansWaitForAnExecutor(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	w.frontend("web")
	if out := w.submit("web", &submission{Job: 1, Tokens: tokens(1, 4), MaxTokens: 1}); len(out) != 0 {
		t.Fatalf("sent %+v", out)
	}
	w.submit("web", &submission{Job: 2, Model: "other", Tokens: tokens(1, 4), MaxTokens: 1})
	if r := runs(w.executor("cpu", 1, executorInfo())); len(r) != 1 {
		t.Fatalf("the executor got %+v, want the waiting job", r)
	}
	for w.now < DefaultConfig().UnavailableAfter-time.Second {
		w.tickUntil(w.now + time.Second)
		w.step("cpu", &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 1})
		w.step("web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1})
	}
	out := w.tickUntil(w.now + time.Second)
	if r := results(out); len(r) != 1 || r[0].Job != 2 || r[0].Err.Code != engine.CodeUnavailable {
		t.Errorf("after the wait %+v, want job 2 unavailable", out)
	}
}

func TestCancel(t *testing.T) {
	w := basic(t, func(c *Config) { c.MaxPassItems = 1 })
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 40), MaxTokens: 1})
	w.submit("web", &submission{Job: 2, Tokens: tokens(2, 40), MaxTokens: 1})
	w.submit("web", &submission{Job: 3, Tokens: tokens(3, 40), MaxTokens: 1})
	w.frontend("other")
	if out := w.step("other", &wire.Cancel{Job: 1}); len(out) != 0 {
		t.Fatalf("a stranger's cancel sent %+v", out)
	}
	w.step("web", &wire.Cancel{Job: 2})
	out := w.step("web", &wire.Cancel{Job: 1})
	if len(pick[*wire.Abort](out)) != 1 || len(runs(out)) != 1 || runs(out)[0].Items[0].Job != 3 {
		t.Fatalf("cancel of the running job sent %+v, want an abort and the run of job 3", out)
	}
	w.step("cpu", answer(runs(out)[0], time.Second))
	if inst := w.core.fleet.Executors[0].Instances[0]; len(w.core.jobs) != 0 || inst.Queue.Len() != 0 || inst.Cache.Index.Used() != 10 {
		t.Errorf("%d jobs, %d queued, %d pages used after all", len(w.core.jobs), inst.Queue.Len(), inst.Cache.Index.Used())
	}
}

func TestDeadline(t *testing.T) {
	w := basic(t, func(c *Config) { c.MaxPassItems = 1 })
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 40), MaxTokens: 1, Deadline: time.Second})
	w.submit("web", &submission{Job: 2, Tokens: tokens(2, 40), MaxTokens: 1, Deadline: 2 * time.Second})
	w.now = 2 * time.Second
	out := w.step("", &wire.Tick{})
	if r := results(out); len(r) != 1 || r[0].Job != 2 || r[0].Err.Code != engine.CodeDeadline {
		t.Errorf("at 2 s %+v, want job 2 dropped: job 1 has been started", out)
	}
}

func TestGeneration(t *testing.T) {
	w := basic(t, nil)
	run := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 3}))[0]
	if n := len(item(run, 0).Blocks); n != 3 {
		t.Errorf("a job of 10+3 tokens holds %d blocks of 4, want 3", n)
	}
	for i := range 3 {
		out := w.step("cpu", answer(run, time.Second))
		r := results(out)[0]
		if output(r).Index != i || (r.Finish == engine.FinishLength) != (i == 2) {
			t.Fatalf("result %+v for token %d", r, i)
		}
		if i == 2 {
			break
		}
		run = runs(out)[0]
		if it := item(run, 0); it.Cached != 10+i || it.From != 10+i || len(it.Tokens) != 1 || it.Draw != i+1 || it.Tokens[0] != 7 {
			t.Fatalf("pass %d is %+v", i+1, it)
		}
	}
	if n := w.core.fleet.Executors[0].Instances[0].Cache.Index.Used(); n != 2 {
		t.Errorf("%d pages are used after the job, want the prompt's two full blocks", n)
	}
	run = runs(w.submit("web", &submission{Job: 2, Tokens: tokens(1, 10), MaxTokens: 9, StopTokens: []engine.TokenID{7}}))[0]
	if r := results(w.step("cpu", answer(run, time.Second))); r[0].Finish != engine.FinishStop {
		t.Errorf("a stop token gives %+v", r[0])
	}
}

// TestAnyMessageIsASignOfLife has an executor that is too busy for heartbeats answer its pass.
func TestAnyMessageIsASignOfLife(t *testing.T) {
	w := basic(t, nil)
	run := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1}))[0]
	w.tickUntil(DefaultConfig().PeerTimeout - 1)
	w.step("cpu", answer(run, time.Second))
	w.tickUntil(w.now + 2)
	if len(w.core.fleet.Executors) != 1 || len(w.core.frontends) != 0 {
		t.Errorf("%d executors and %d frontends are left, want the one that spoke", len(w.core.fleet.Executors), len(w.core.frontends))
	}
}

// TestSleepingSchedulerBlamesNobody stops the scheduler's clock, as a suspended machine does: what the
// peers said meanwhile is read after the Tick.
func TestSleepingSchedulerBlamesNobody(t *testing.T) {
	w := basic(t, nil)
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1})
	w.now = time.Hour
	if out := w.step("", &wire.Tick{}); len(out) != 0 || len(w.core.fleet.Executors) != 1 || len(w.core.frontends) != 1 {
		t.Errorf("after an hour's sleep the Core sends %+v, %d executors are left", out, len(w.core.fleet.Executors))
	}
	w.tickUntil(w.now + DefaultConfig().PeerTimeout)
	if len(w.core.fleet.Executors) != 0 {
		t.Error("an executor that is silent from then on is not lost")
	}
}

func TestLostFrontend(t *testing.T) {
	w := basic(t, nil)
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1})
	w.tickUntil(DefaultConfig().PeerTimeout - 1)
	w.step("cpu", &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 1})
	if out := w.tickUntil(w.now + 1); len(pick[*wire.Abort](out)) != 1 {
		t.Errorf("the loss of the frontend sent %+v, want its pass aborted", out)
	}
	back := w.core.Step(w.now, "web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1})
	if m, ok := back[0].Msg.(*wire.Welcome); !ok || m.Epoch == 1000 {
		t.Errorf("the frontend that comes back is told %+v, want a new epoch: it must submit again", back[0].Msg)
	}
}
