package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// visit is a job of one of a shop's models, and what became of it.
type visit struct {
	model       int
	at, started time.Duration
	takes       time.Duration // nothing cached
}

// mall runs jobs of several models of different speeds on one executor, which is given more than it can do.
func mall(t *testing.T, policy string, perToken []time.Duration, seed uint64) []*visit {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Policy, cfg.MaxPassItems, cfg.PeerTimeout, cfg.PrefixCaching = policy, 1, 1<<60, false
	w := newWorld(t, cfg)
	w.frontend("web")
	info := wire.ExecutorInfo{Device: "test"}
	for i, unit := range perToken {
		m := modelOf(string(rune('a'+i)), opts{})
		m.Cost.Unit = unit
		info.Models = append(info.Models, m)
	}
	w.step("gpu", &wire.Hello{Role: wire.RoleExecutor, Name: "gpu", Epoch: 1, Executor: &info})
	rng := rand.New(rand.NewPCG(seed, 71))
	var visits []*visit
	var at time.Duration
	for range 900 {
		v := &visit{model: rng.IntN(len(perToken)), at: at}
		n := 10 + rng.IntN(100)
		if rng.IntN(20) == 0 {
			n = 1000 + rng.IntN(2000)
		}
		v.takes = time.Duration(n) * perToken[v.model]
		visits = append(visits, v)
		at += time.Duration(rng.ExpFloat64() * 0.5 * float64(v.takes))
	}
	var running *wire.Run
	var ends time.Duration
	follow := func(out []Envelope) {
		for _, run := range runs(out) {
			v := visits[run.Items[0].Job-1]
			v.started, running, ends = w.now, run, w.now+v.takes
		}
	}
	for next := 0; next < len(visits) || running != nil; {
		if running != nil && (next == len(visits) || ends <= visits[next].at) {
			w.now = ends
			done := answer(running, visits[running.Items[0].Job-1].takes)
			running = nil
			follow(w.step("gpu", done))
			continue
		}
		v := visits[next]
		next++
		w.now = v.at
		n := int(v.takes / perToken[v.model])
		follow(w.submit("web", &submission{Job: engine.JobID(next), Model: string(rune('a' + v.model)), Tokens: tokens(next%60, n), MaxTokens: 1}))
	}
	return visits
}

// TestBoundAcrossModels holds srjf-calibrated to its bound between the models of one executor that is given twice
// what it can do: a job of another model goes before one only if it comes less than C/aging after it, where C is what
// that one or one before it in its own instance takes. The models' own lambda would age the
// slowest by 0.75: residency.Aging bounds that. In its own instance nobody is overtaken who would not be if the instance were alone.
func TestBoundAcrossModels(t *testing.T) {
	perToken := []time.Duration{20 * time.Microsecond, 300 * time.Microsecond, 1500 * time.Microsecond}
	const lambda, aging = 500, residency.Aging
	seconds := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	foreign, own := 0, 0
	for seed := range uint64(3) {
		visits := mall(t, "srjf-calibrated", perToken, seed)
		for _, j := range visits {
			window := time.Duration(0)
			for _, h := range visits {
				if h.model == j.model && h.started <= j.started && h.at <= j.at+seconds(float64(j.takes)/float64(perToken[j.model])/lambda) {
					window = max(window, h.at-j.at+seconds(h.takes.Seconds()/aging))
				}
			}
			for _, k := range visits {
				if k.started >= j.started || k.at <= j.at {
					continue
				}
				if k.model == j.model {
					own++
					if limit := seconds(float64(j.takes) / float64(perToken[j.model]) / lambda); k.at > j.at+limit {
						t.Fatalf("a job of %v at %v is overtaken by one of its own model at %v", j.takes, j.at, k.at)
					}
					continue
				}
				foreign++
				if k.at > j.at+window {
					t.Fatalf("a job of model %d, of %v at %v, is overtaken by one of model %d that comes %v later; the window is %v",
						j.model, j.takes, j.at, k.model, k.at-j.at, window)
				}
			}
		}
	}
	if foreign == 0 || own == 0 {
		t.Errorf("%d jobs of other models overtake, %d of the same: the test shows nothing", foreign, own)
	}
}

// TestOneModelsOrderBesideOthers holds that jobs of one model run in the order in which they would alone, whatever
// waits for other models of the executor.
func TestOneModelsOrderBesideOthers(t *testing.T) {
	order := func(policy string, beside bool) (ran []engine.JobID) {
		cfg := DefaultConfig()
		cfg.Policy, cfg.MaxPassItems = policy, 1
		w := newWorld(t, cfg)
		w.frontend("web")
		info := wire.ExecutorInfo{Device: "test"}
		for _, name := range []string{"m", "slow", "fast"} {
			m := modelOf(name, opts{})
			m.Cost.Unit = map[string]time.Duration{"m": time.Millisecond, "slow": 7 * time.Millisecond, "fast": time.Microsecond}[name]
			info.Models = append(info.Models, m)
		}
		w.step("gpu", &wire.Hello{Role: wire.RoleExecutor, Name: "gpu", Epoch: 1, Executor: &info})
		rng := rand.New(rand.NewPCG(4, 4))
		begun := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1}))
		for i := range engine.JobID(60) {
			w.now += time.Duration(rng.IntN(300)) * time.Millisecond
			w.submit("web", &submission{Job: 100 + i, Tokens: tokens(rng.IntN(5), 1+rng.IntN(300)), MaxTokens: 1, Priority: rng.IntN(3)})
			if other := []string{"slow", "fast"}[rng.IntN(2)]; beside {
				w.submit("web", &submission{Job: 1000 + i, Model: other, Tokens: tokens(7, 1+int(i)*7), MaxTokens: 1, Priority: int(i) % 3})
			}
		}
		for len(begun) > 0 {
			if id := begun[0].Items[0].Job; id < 1000 {
				ran = append(ran, id)
			}
			begun = runs(w.step("gpu", answer(begun[0], time.Millisecond)))
		}
		return ran
	}
	for _, policy := range Policies() {
		if policy == "hrrn" {
			continue // its order changes with time
		}
		if alone, beside := order(policy, false), order(policy, true); len(alone) != 61 || !slices.Equal(alone, beside) {
			t.Errorf("%s: alone the jobs of a model run as %v, beside others as %v", policy, alone, beside)
		}
	}
}
