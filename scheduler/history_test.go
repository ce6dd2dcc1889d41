package scheduler

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

var histories = flag.Int("histories", 10_000, "random histories that the property test runs")

// chooser is where a history's choices come from: a random source or a fuzzer's bytes.
type chooser interface{ IntN(n int) int }

// history plays frontends and executors at random against a Core, and checks what it answers.
type history struct {
	t    testing.TB
	pick chooser
	core *Core
	twin *Core // steps along and must say the same; may be nil
	now  time.Duration
	next engine.JobID
	// What is known of the peers and jobs:
	open        map[engine.JobID]PeerID           // submitted, not ended
	tokens      map[engine.JobID]int              // results that came
	whole       map[engine.JobID][]engine.TokenID // prompts, and what was generated from them
	scored      map[engine.JobID]int              // tokens of the prompts whose logprobs are asked for
	current     map[PeerID]*wire.Run              // the pass an executor is in
	parked      map[PeerID][]*wire.Run
	lowest      map[PeerID][]*wire.Run                       // of engine.Lowest, beside the current one
	pages       map[PeerID]map[wire.BlockID][]engine.TokenID // the sequence up to what each page holds
	memory      map[PeerID]map[wire.BlockID][]engine.TokenID // likewise, of host memory
	epochs      map[PeerID]uint64                            // the executors' own
	known       map[PeerID]uint64                            // the scheduler's, as they know it
	full        map[PeerID]bool                              // executors that refused a pass, and ended none since
	opened      map[engine.JobID]*openJob                    // all that were submitted
	info        llm
	passed      map[PeerID]passedOver
	longest     int                // tokens of a prompt
	room        int                // rows that an executor has for its passes together, paused ones included; 0: enough
	idle        int                // passes of lowest jobs that ended
	yielded     int                // such passes that gave up their room
	refused     int                // passes for which there was no room
	loads       int                // blocks loaded from host memory
	parts       int                // items that copied part of a block
	onward      int                // times that an open job went on
	deep        bool               // check all invariants after each step
	resubmitted int                // open jobs submitted again
	follow      func(wire.Message) // sees each message when the Core has taken it; may be nil
}

var (
	testFrontends = []PeerID{"web-0", "web-1"}
	testExecutors = []PeerID{"cpu-0", "cpu-1", "cpu-2"}
)

func newHistory(t testing.TB, pick chooser, cfg Config, twin queue.Policy) *history {
	h := &history{
		t: t, pick: pick, open: map[engine.JobID]PeerID{}, tokens: map[engine.JobID]int{}, whole: map[engine.JobID][]engine.TokenID{}, scored: map[engine.JobID]int{},
		current: map[PeerID]*wire.Run{}, parked: map[PeerID][]*wire.Run{}, lowest: map[PeerID][]*wire.Run{},
		epochs: map[PeerID]uint64{}, known: map[PeerID]uint64{}, full: map[PeerID]bool{}, info: executorInfo(),
		opened:  map[engine.JobID]*openJob{},
		pages:   map[PeerID]map[wire.BlockID][]engine.TokenID{},
		memory:  map[PeerID]map[wire.BlockID][]engine.TokenID{},
		passed:  map[PeerID]passedOver{},
		longest: 40,
	}
	h.info.NumBlocks = pick.IntN(24)
	h.info.MaxPassRows = pick.IntN(3) * 30
	h.info.CopiesParts = pick.IntN(2) == 0
	if h.info.HostBlocks = pick.IntN(2) * pick.IntN(80); h.info.HostBlocks > 0 {
		h.info.Device, h.info.CostLoad = "cuda (test)", time.Duration(pick.IntN(8))*time.Second
	}
	var err error
	if h.core, err = NewCore(cfg, 1); err != nil {
		t.Fatal(err)
	}
	if twin != nil {
		if h.twin, err = NewCore(cfg, 1); err != nil {
			t.Fatal(err)
		}
		h.twin.fleet.Policy = twin
	}
	return h
}

// move makes one random thing happen. Times are multiples of 1/512 s, which floats add exactly.
func (h *history) move() {
	h.now += time.Duration(h.pick.IntN(64)) * time.Second / 512
	executor := testExecutors[h.pick.IntN(len(testExecutors))]
	frontend := testFrontends[h.pick.IntN(len(testFrontends))]
	if h.pick.IntN(4) == 0 {
		h.goOn()
	}
	switch op := h.pick.IntN(32); {
	case op < 12:
		h.submit(frontend)
	case op < 24:
		h.finish(executor)
	case op < 26:
		h.send(frontend, &wire.Cancel{Job: engine.JobID(h.pick.IntN(int(h.next) + 1))})
	case op < 28:
		h.hello(executor)
	case op < 29:
		h.restart(executor)
	case op < 30:
		h.send("", &wire.Tick{})
	case op < 31:
		h.forgetPasses(executor)
		h.send(executor, &wire.Lost{})
	case h.pick.IntN(8) == 0:
		h.loseFrontend(frontend)
	case h.pick.IntN(4) == 0:
		h.send(frontend, &wire.Reset{})
	}
}

func (h *history) hello(executor PeerID) {
	h.send(executor, &wire.Hello{Role: wire.RoleExecutor, Name: string(executor), Epoch: h.epochs[executor], Executor: h.info.info()})
}

// restart is what an executor does when it starts, or hears of a new scheduler.
func (h *history) restart(executor PeerID) {
	h.epochs[executor]++
	h.forgetPasses(executor)
	h.hello(executor)
}

func (h *history) forgetPasses(executor PeerID) {
	delete(h.current, executor)
	delete(h.parked, executor)
	delete(h.lowest, executor)
	delete(h.full, executor)
	delete(h.passed, executor)
	h.pages[executor] = map[wire.BlockID][]engine.TokenID{}
	h.memory[executor] = map[wire.BlockID][]engine.TokenID{}
}

func (h *history) loseFrontend(frontend PeerID) {
	for id, owner := range h.open {
		if owner == frontend {
			delete(h.open, id)
		}
	}
	h.send(frontend, &wire.Lost{})
}

func (h *history) submit(from PeerID) {
	if h.core.peers[from] == nil {
		h.send(from, &wire.Hello{Role: wire.RoleFrontend, Name: string(from), Epoch: 1})
	}
	h.next++
	m := &submission{
		Job: h.next, Model: "m", Tokens: tokens(h.pick.IntN(3), 1+h.pick.IntN(h.longest)), MaxTokens: 1,
		User: fmt.Sprint(h.pick.IntN(3)), Priority: h.pick.IntN(3),
	}
	m.Tokens[len(m.Tokens)/2] = engine.TokenID(h.pick.IntN(2))
	switch h.pick.IntN(8) {
	case 0, 4:
		m.MaxTokens = h.pick.IntN(10)
		for n := range h.pick.IntN(4) {
			m.Ask.Bans = append(m.Ask.Bans, engine.Ban{Tokens: make([]engine.TokenID, 1+n)})
		}
	case 1:
		m.Ask.PromptLogprobs, m.Ask.PromptTop, m.MaxTokens = true, h.pick.IntN(3), h.pick.IntN(4)
		m.Ask.PromptFrom = h.pick.IntN(2) * h.pick.IntN(len(m.Tokens))
	case 2:
		m.Deadline = time.Duration(h.pick.IntN(2000)) * time.Second / 512
	case 3:
		m.Salt = "salt"
	case 5:
		h.submitOpen(m)
	}
	if h.pick.IntN(4) == 0 {
		m.Priority = engine.Lowest
	}
	if m.Ask.PromptLogprobs {
		h.scored[m.Job] = len(m.Tokens) - max(m.Ask.PromptFrom, 1)
	}
	h.open[m.Job], h.whole[m.Job] = from, slices.Clone(m.Tokens)
	h.send(from, m.message())
}

// finish lets an executor answer its pass, or a Pause it was sent.
func (h *history) finish(executor PeerID) {
	run := h.current[executor]
	if run == nil && len(h.lowest[executor]) > 0 {
		run = h.lowest[executor][0]
		h.idle++
	}
	if run == nil {
		return
	}
	d := &wire.Done{Pass: run.Pass, Took: time.Duration(1+h.pick.IntN(64)) * time.Second / 512}
	for _, item := range parts(run) {
		result := answered(item.Job, &engine.Answer{Token: engine.TokenID(7 + h.pick.IntN(3))})
		if item.Ask.PromptLogprobs {
			result.Output.(*engine.TokenOutput).Prompt = scoresOf(h.whole[item.Job], item.Ask.PromptTop)[min(max(item.Known, 1), item.Len())-1:]
		}
		d.Items = append(d.Items, result)
	}
	switch h.pick.IntN(24) {
	case 0:
		d.Items, d.Err = nil, engine.Errorf(engine.CodeInternal, "out of luck")
	case 1:
		d.Items[0] = wire.ItemResult{Job: d.Items[0].Job, Err: engine.Errorf(engine.CodeInternal, "a bad item")}
	}
	h.drop(executor, run.Pass)
	delete(h.full, executor)
	h.filled(executor, run, d)
	h.send(executor, d)
}

// send gives a message to the Core, and to its twin, and follows what comes out.
func (h *history) send(from PeerID, m wire.Message) {
	if c, ok := m.(*wire.Cancel); ok && h.open[c.Job] == from {
		delete(h.open, c.Job)
	}
	out := h.core.Step(h.now, from, m)
	if h.follow != nil {
		h.follow(m)
	}
	if h.twin != nil {
		if other := h.twin.Step(h.now, from, m); !reflect.DeepEqual(out, other) {
			h.t.Fatalf("after %T from %q the Core says\n%s\nthe full rescan\n%s", m, from, describe(out), describe(other))
		}
	}
	var pauses []Envelope
	var reborn, begun []PeerID
	for _, e := range out {
		switch m := e.Msg.(type) {
		case *wire.Run:
			h.started(e.To, m)
			begun = append(begun, e.To)
		case *wire.Resume:
			h.resumed(e.To, m)
		case *wire.Abort:
			h.aborted(e.To, m)
		case *wire.Result:
			h.result(e.To, m)
		case *wire.Pause:
			pauses = append(pauses, e)
		case *wire.Welcome:
			if h.known[e.To] != m.Epoch && h.core.executorAt(e.To) != nil {
				h.known[e.To] = m.Epoch
				reborn = append(reborn, e.To)
			}
		}
	}
	h.check()
	for _, e := range reborn {
		h.restart(e)
	}
	for _, e := range begun {
		h.yield(e)
		h.refuse(e)
	}
	for _, e := range pauses {
		h.paused(e.To, e.Msg.(*wire.Pause).Pass)
	}
}

func (h *history) started(to PeerID, run *wire.Run) {
	if n := len(h.lowest[to]); run.Lowest && n > 1 {
		h.t.Fatalf("%s gets pass %d of lowest jobs, beside %d", to, run.Pass, n)
	}
	if h.current[to] != nil && !run.Lowest {
		h.t.Fatalf("%s gets pass %d while it runs %d", to, run.Pass, h.current[to].Pass)
	}
	if h.full[to] {
		h.t.Fatalf("%s gets pass %d, although it has refused one and ended none since", to, run.Pass)
	}
	if run.Lowest {
		h.lowest[to] = append(h.lowest[to], run)
	} else {
		h.current[to] = run
	}
	h.checkClass(to, run)
	h.copy(to, run)
	rows := newRowsOf(run)
	for _, item := range parts(run) {
		if item.Cached >= item.Len() || item.Cached-item.Part.Tokens > len(item.Blocks)*h.info.BlockTokens {
			h.t.Fatalf("job %v: %d of %d tokens cached in %d blocks", item.Job, item.Cached, item.Len(), len(item.Blocks))
		}
		h.checkBrought(&item)
		h.checkAllowed(&item)
		if item.Ask.PromptLogprobs && item.Cached > 0 && item.Cached >= item.Known || !item.Ask.PromptLogprobs && item.Known > 0 {
			h.t.Fatalf("job %v: prompt logprobs are asked for from token %d on, beside %d cached ones", item.Job, item.Known, item.Cached)
		}
		h.checkCached(to, &item)
	}
	if len(run.Items) > 1 && rows > h.info.MaxPassRows {
		h.t.Fatalf("a packed pass of %d rows, at most %d fit", rows, h.info.MaxPassRows)
	}
	h.checkPages(to)
	if !run.Lowest {
		h.checkTurns(to, run)
	}
}

// paused lets an executor obey a Pause.
func (h *history) paused(executor PeerID, pass wire.PassID) {
	run := h.current[executor]
	if run == nil || run.Pass != pass || h.pick.IntN(4) == 0 {
		return // the pass will end first
	}
	delete(h.current, executor)
	h.parked[executor] = append(h.parked[executor], run)
	h.send(executor, &wire.Paused{Pass: pass, Share: 0.1})
}

func (h *history) resumed(to PeerID, m *wire.Resume) {
	for i, run := range h.parked[to] {
		if run.Pass == m.Pass {
			h.parked[to] = append(h.parked[to][:i:i], h.parked[to][i+1:]...)
			h.current[to] = run
			return
		}
	}
	h.t.Fatalf("%s is to resume pass %d, which it has not paused", to, m.Pass)
}

func (h *history) aborted(to PeerID, m *wire.Abort) {
	delete(h.full, to)
	h.drop(to, m.Pass)
}

// drop takes a pass from wherever an executor has it.
func (h *history) drop(of PeerID, pass wire.PassID) {
	if run := h.current[of]; run != nil && run.Pass == pass {
		delete(h.current, of)
	}
	isIt := func(run *wire.Run) bool { return run.Pass == pass }
	h.parked[of], h.lowest[of] = slices.DeleteFunc(h.parked[of], isIt), slices.DeleteFunc(h.lowest[of], isIt)
}

func (h *history) result(to PeerID, r *wire.Result) {
	if h.open[r.Job] != to {
		h.t.Fatalf("%s gets %s for a job that is not its own, ended or was cancelled", to, describeResult(r))
	}
	if r.Err != nil && r.Err.Code == engine.CodeOverloaded {
		h.t.Fatalf("job %v failed because others were paused", r.Job)
	}
	out := output(r)
	if out.Answer != nil && out.Index != h.tokens[r.Job] {
		h.t.Fatalf("job %v: token %d comes after %d tokens", r.Job, out.Index, h.tokens[r.Job])
	}
	if r.Err == nil && (len(out.Prompt) > 0) != (h.scored[r.Job] > 0 && out.Index == 0) {
		h.t.Fatalf("job %v: token %d comes with %d prompt scores of %d", r.Job, out.Index, len(out.Prompt), h.scored[r.Job])
	}
	if len(out.Prompt) > 0 {
		whole := h.whole[r.Job]
		if want := logprobs(scoresOf(whole, 0))[len(whole)-h.scored[r.Job]-1:]; !slices.Equal(logprobs(out.Prompt), want) {
			h.t.Fatalf("job %v has the scores %v, want %v", r.Job, logprobs(out.Prompt), want)
		}
	}
	h.tokens[r.Job]++
	if out.Answer != nil {
		h.whole[r.Job] = append(h.whole[r.Job], out.Answer.Token)
	}
	if r.Err != nil || r.Finish != engine.FinishNone {
		delete(h.open, r.Job)
	}
	h.answered(r)
}

// drain keeps the executors alive and answering until every job has its answer.
func (h *history) drain() {
	for round := 0; len(h.open) > 0; round++ {
		if round > 2000 {
			h.t.Fatalf("%d jobs are never answered", len(h.open))
		}
		h.now += time.Second
		for _, f := range testFrontends {
			h.send(f, &wire.Hello{Role: wire.RoleFrontend, Name: string(f), Epoch: 1})
		}
		for _, e := range testExecutors {
			h.hello(e)
			h.finish(e)
		}
		for _, id := range h.heldJobs() {
			h.say(id, h.opened[id], false)
		}
		h.send("", &wire.Tick{})
	}
}

// check holds the Core's state to its invariants.
func (h *history) check() {
	if !h.deep {
		return
	}
	if len(h.core.jobs) != len(h.open) {
		h.t.Fatalf("the Core knows %d jobs, %d are open", len(h.core.jobs), len(h.open))
	}
	if err := h.core.fleet.CheckIntegrity(slices.Collect(maps.Values(h.core.jobs))); err != nil {
		h.t.Fatal(err)
	}
}

// TestHistoriesOfAllPolicies holds every policy to the invariants.
func TestHistoriesOfAllPolicies(t *testing.T) {
	for _, policy := range Policies() {
		t.Run(policy, func(t *testing.T) {
			for seed := range *histories / 100 {
				rng := rand.New(rand.NewPCG(uint64(seed), 53))
				cfg := DefaultConfig()
				cfg.Policy = policy
				cfg.UserFairness = rng.IntN(2) == 0
				cfg.FullKV = rng.IntN(4) == 0
				cfg.PrefixCaching = rng.IntN(8) > 0
				cfg.Eviction = []kvcache.Eviction{kvcache.EvictReuse, kvcache.EvictLRU}[rng.IntN(2)]
				h := newHistory(t, rng, cfg, nil)
				h.deep = true
				for range 150 {
					h.move()
				}
				h.drain()
			}
		})
	}
}
