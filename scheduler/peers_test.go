package scheduler

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPeersThatAreGoneAreForgotten: peers of ever new names come, and are lost, without the Core growing.
func TestPeersThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	comeAndGo := func(from, to int) {
		for i := from; i < to; i++ {
			name := PeerID(fmt.Sprintf("frontend-of-a-rather-long-name-%0100d", i))
			w.frontend(name)
			w.step(name, &wire.Lost{})
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	comeAndGo(0, 1000)
	before := heap()
	comeAndGo(1000, 21_000)
	if grown := heap() - before; grown > 200_000 {
		t.Errorf("20,000 peers that are gone hold %d bytes", grown)
	}
	runtime.KeepAlive(w)
}

// TestEpochOfALostPeer: a peer that was lost is told so when it comes back, by an epoch that it has not seen;
// the others keep theirs.
func TestEpochOfALostPeer(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	epoch := func(name PeerID) uint64 {
		out := w.core.Step(w.now, name, &wire.Hello{Role: wire.RoleFrontend, Name: string(name), Epoch: 1})
		return pick[*wire.Welcome](out)[0].Epoch
	}
	a, b := epoch("a"), epoch("b")
	seen := map[uint64]bool{a: true}
	for range 3 {
		w.step("a", &wire.Lost{})
		again := epoch("a")
		if seen[again] {
			t.Fatalf("the epoch %d was known to the peer before it was lost", again)
		}
		if seen[again] = true; epoch("a") != again || epoch("b") != b {
			t.Error("an epoch changes although nothing was lost")
		}
	}
}

// TestMeasuredWhileItRuns: what is measured of a network while a pass of it runs changes its cost, and neither ends the
// pass nor displaces what waits; a network of other tensors is another one.
func TestMeasuredWhileItRuns(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	w.frontend("web")
	info := func(epoch uint64, backward float64, cost wire.Cost, columns int) *wire.Hello {
		specs := []wire.TensorSpec{{Name: "x", Type: engine.FP32, Shape: []int{-1, columns}}}
		return &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: epoch, Executor: &wire.ExecutorInfo{Device: "test", Models: []wire.ModelInfo{{
			Name: "n", Fingerprint: "f", Cost: cost, Tensors: &wire.TensorLimits{Inputs: specs, MaxPassItems: 1, Backward: backward},
		}}}}
	}
	submit := func(id engine.JobID) []Envelope {
		work := &engine.Tensors{Inputs: []engine.Ref{{Name: "x", Type: engine.FP32, Shape: []int{1, 4}, Blob: "b"}}, Frames: 1}
		return w.step("web", &wire.Submit{Job: engine.Job{ID: id, Model: "n", Work: work}})
	}
	w.step("cpu", info(1, 1, wire.Cost{}, 4))
	run := pick[*wire.Run](submit(1))
	if len(run) != 1 || len(submit(2)) != 0 {
		t.Fatalf("%d passes run", len(run))
	}
	measured := wire.Cost{Unit: time.Second}
	if out := w.step("cpu", info(1, 1.5, measured, 4)); len(out) != 0 {
		t.Errorf("a measured cost makes the Core send %v", out)
	}
	served := pick[*wire.Welcome](w.core.Step(w.now, "web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1}))
	if len(served) != 1 || len(served[0].Served) != 1 || served[0].Served[0].Cost != measured || served[0].Served[0].Tensors.Backward != 1.5 {
		t.Errorf("frontends are told %+v", served)
	}
	out := w.step("cpu", &wire.Done{Pass: run[0].Pass, Took: time.Second, Items: []wire.ItemResult{{Job: 1, Output: &engine.TensorOutput{}}}})
	if results := pick[*wire.Result](out); len(results) != 1 || results[0].Job != 1 || len(pick[*wire.Run](out)) != 1 {
		t.Errorf("the end of the pass makes the Core send %v", out)
	}
	if out := w.step("cpu", info(1, 1.5, measured, 5)); len(pick[*wire.Abort](out)) != 1 {
		t.Errorf("another network in its place makes the Core send %v", out)
	}
}

// TestNetworkIsExchanged: a network that is another one from now on, of the same tensors, keeps what waits and the pass that runs,
// and its pieces are used without a Load where they are there; those of the old one alone are dropped.
func TestNetworkIsExchanged(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	w.frontend("web")
	specs := []wire.TensorSpec{{Name: "x", Type: engine.FP32, Shape: []int{-1, 4}}}
	info := func(print string, pieces []uint32, resident ...bool) *wire.Hello {
		e := &wire.ExecutorInfo{Device: "test", Memory: 1 << 30, LoadRate: 1e9, Models: []wire.ModelInfo{{
			Name: "n", Fingerprint: print, Weights: pieces, Tensors: &wire.TensorLimits{Inputs: specs, MaxPassItems: 1},
		}}}
		for _, is := range resident {
			e.Weights = append(e.Weights, wire.Weight{Bytes: 1 << 20, Resident: is})
		}
		return &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 1, Executor: e}
	}
	submit := func(id engine.JobID) []Envelope {
		work := &engine.Tensors{Inputs: []engine.Ref{{Name: "x", Type: engine.FP32, Shape: []int{1, 4}, Blob: "b"}}, Frames: 1}
		return w.step("web", &wire.Submit{Job: engine.Job{ID: id, Model: "n", Work: work}})
	}
	done := func(pass wire.PassID, job engine.JobID) []Envelope {
		return w.step("cpu", &wire.Done{Pass: pass, Took: time.Millisecond, Items: []wire.ItemResult{{Job: job, Output: &engine.TensorOutput{}}}})
	}
	w.step("cpu", info("a", []uint32{0, 1}, true, true))
	run := pick[*wire.Run](submit(1))
	if len(run) != 1 || len(submit(2)) != 0 {
		t.Fatalf("%d passes run", len(run))
	}
	out := w.step("cpu", info("b", []uint32{0, 2}, true, true, true))
	if len(pick[*wire.Abort](out))+len(pick[*wire.Result](out))+len(pick[*wire.Load](out)) != 0 {
		t.Errorf("the exchange makes the Core send %v", out)
	}
	next := done(run[0].Pass, 1)
	runs, drops := pick[*wire.Run](next), append(pick[*wire.Drop](out), pick[*wire.Drop](next)...)
	if len(pick[*wire.Result](next)) != 1 || len(runs) != 1 || len(pick[*wire.Load](next)) != 0 {
		t.Fatalf("the end of the pass makes the Core send %v", next)
	}
	if len(drops) != 1 || !slices.Equal(drops[0].Weights, []uint32{1}) {
		t.Errorf("dropped is %+v", drops)
	}
	if last := done(runs[0].Pass, 2); len(pick[*wire.Result](last)) != 1 {
		t.Errorf("the end of the next pass makes the Core send %v", last)
	}
}

// TestCostFollowsPasses: what frontends are told of a network's cost is what its passes take, and they are told again when that has changed.
func TestCostFollowsPasses(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	w.frontend("web")
	specs := []wire.TensorSpec{{Name: "x", Type: engine.FP32, Shape: []int{-1, 4}}}
	w.step("cpu", &wire.Hello{Role: wire.RoleExecutor, Name: "cpu", Epoch: 1, Executor: &wire.ExecutorInfo{Device: "test", Models: []wire.ModelInfo{{
		Name: "n", Fingerprint: "f", Cost: wire.Cost{Unit: 100 * time.Millisecond}, Tensors: &wire.TensorLimits{Inputs: specs, MaxPassItems: 1},
	}}}})
	models := uint64(0)
	told := func() []wire.Served {
		welcome := pick[*wire.Welcome](w.core.Step(w.now, "web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1, Models: models}))
		if len(welcome) != 1 {
			t.Fatalf("%d welcomes", len(welcome))
		}
		models = welcome[0].Models
		return welcome[0].Served
	}
	if s := told(); len(s) != 1 || s[0].Cost.Unit != 100*time.Millisecond {
		t.Fatalf("frontends are told %+v", s)
	}
	pass := func(id engine.JobID, took time.Duration) {
		work := &engine.Tensors{Inputs: []engine.Ref{{Name: "x", Type: engine.FP32, Shape: []int{1, 4}, Blob: "b"}}, Frames: 1}
		run := pick[*wire.Run](w.step("web", &wire.Submit{Job: engine.Job{ID: id, Model: "n", Work: work}}))
		if len(run) != 1 {
			t.Fatalf("job %d: %d passes", id, len(run))
		}
		w.now += took
		w.step("cpu", &wire.Done{Pass: run[0].Pass, Took: took, Items: []wire.ItemResult{{Job: id, Output: &engine.TensorOutput{}}}})
	}
	pass(1, 100*time.Millisecond)
	if s := told(); s != nil {
		t.Errorf("frontends are told %+v of nothing new", s)
	}
	for id := range engine.JobID(60) {
		pass(2+id, 20*time.Millisecond)
	}
	s := told()
	if len(s) != 1 || s[0].Cost.Unit < 20*time.Millisecond || s[0].Cost.Unit > 25*time.Millisecond {
		t.Errorf("after 60 passes of 20 ms frontends are told %+v", s)
	}
	if s := told(); s != nil {
		t.Errorf("frontends are told %+v twice", s)
	}
}

// TestDeathBeforeItIsHeardOf: a job that one executor has died of is to blame for the next, too, should that die before it has answered its Welcome: it is not run a third time. One that
// none has died of is not blamed for such.
func TestDeathBeforeItIsHeardOf(t *testing.T) {
	w := newWorld(t, DefaultConfig())
	w.frontend("web")
	info := llm{Device: "test", Model: "m", Fingerprint: "f", VocabSize: 100, MaxModelLen: 100, BlockTokens: 10, NumBlocks: 10, MaxPassRows: 100}
	w.executor("cpu", 1, info)
	if out := w.submit("web", &submission{Job: 1, Tokens: tokens(0, 5), MaxTokens: 1}); len(runs(out)) != 1 {
		t.Fatalf("the Core sends %v", out)
	}
	for epoch := uint64(2); epoch <= 3; epoch++ { // none has answered
		if out := w.executor("cpu", epoch, info); len(runs(out)) != 1 {
			t.Fatalf("epoch %d: the Core sends %v", epoch, out)
		}
	}
	w.executor("cpu", 3, info)
	if out := w.executor("cpu", 4, info); len(runs(out)) != 1 || len(results(out)) != 0 {
		t.Fatalf("after one death the Core sends %v", out)
	}
	out := w.executor("cpu", 5, info)
	if failed := results(out); len(failed) != 1 || failed[0].Err == nil || failed[0].Err.Code != engine.CodeExecutorLost || len(runs(out)) != 0 {
		t.Errorf("after two deaths the Core sends %v", out)
	}
}
