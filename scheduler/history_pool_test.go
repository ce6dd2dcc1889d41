package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// poolHistory plays a frontend and executors of many models at random against a Core, and holds what it says to what
// must be: it is an oracle that knows bytes, and nothing of any order.
type poolHistory struct {
	t       testing.TB
	pick    chooser
	core    *Core
	now     time.Duration
	next    engine.JobID
	open    map[engine.JobID]bool
	devices []*hostOfMany
	wishes  map[uint64]bool // SetModels that are not answered
	serial  uint64
	seen    counts
}

// counts are what happened in histories, so that a test can tell that something did.
type counts struct{ passes, nested, lowest, loads, drops, failed, late, refused, tensors, prepared int }

// hostOfMany is an executor of many models as it really is.
type hostOfMany struct {
	name     PeerID
	info     wire.ExecutorInfo
	epoch    uint64
	greeted  bool // the Welcome to its Hello has come, and been answered
	gone     bool
	resident map[uint32]bool
	running  *wire.Run
	nested   *wire.Run
	parked   []*wire.Run
	lowest   []*wire.Run // beside the running one
	prepares []*wire.Run // that could not begin; the first ones are prepared, and of no more than an Abort
	prepared int
	loading  *wire.Load
	pausing  bool
}

func newPoolHistory(t testing.TB, pick chooser, cfg Config) *poolHistory {
	core, err := NewCore(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	h := &poolHistory{t: t, pick: pick, core: core, open: map[engine.JobID]bool{}, wishes: map[uint64]bool{}}
	for i := range 1 + pick.IntN(2) {
		d := &hostOfMany{name: PeerID(fmt.Sprintf("gpu-%d", i)), resident: map[uint32]bool{}}
		d.info = h.anyInfo(i)
		h.devices = append(h.devices, d)
	}
	h.send("web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1})
	return h
}

// anyInfo is a device of a few models that share pieces, with room for the largest at least.
func (h *poolHistory) anyInfo(seed int) wire.ExecutorInfo {
	info := wire.ExecutorInfo{Device: "test", CanPause: h.pick.IntN(2) == 0, Nests: h.pick.IntN(2) == 0, Aside: h.pick.IntN(2) == 0, LoadRate: 1e9}
	for range 4 + h.pick.IntN(10) {
		info.Weights = append(info.Weights, wire.Weight{Bytes: uint64(1+h.pick.IntN(20)) * 1e6})
	}
	largest, all := uint64(0), uint64(0)
	for i := range 1 + h.pick.IntN(5) {
		m := h.anyModel(i, len(info.Weights))
		need := m.Work
		for _, w := range m.Weights {
			need += info.Weights[w].Bytes
		}
		largest, all = max(largest, need), all+need
		info.Models = append(info.Models, m)
	}
	if h.pick.IntN(4) > 0 {
		info.Memory = largest + uint64(h.pick.IntN(4))*(all-largest)/4
	}
	return info
}

func (h *poolHistory) anyModel(i, pieces int) wire.ModelInfo {
	m := wire.ModelInfo{
		Name: fmt.Sprint("model-", i), Fingerprint: "f", Work: uint64(h.pick.IntN(4)) * 5e6, Step: time.Duration(h.pick.IntN(3)) * time.Millisecond,
		Cost: wire.Cost{Unit: time.Duration(h.pick.IntN(3)) * time.Millisecond, Base: time.Duration(h.pick.IntN(3)) * 5 * time.Millisecond},
	}
	for w := range pieces {
		if h.pick.IntN(3) == 0 {
			m.Weights = append(m.Weights, uint32(w))
		}
	}
	switch h.pick.IntN(8) {
	case 0:
		m.Keep = wire.KeepAlways
	case 1:
		m.Keep, m.Idle = wire.KeepIdle, time.Second
	}
	if i%2 == 0 {
		m.Tokens = &wire.TokenLimits{VocabSize: 1 << 16, MaxModelLen: 1 << 20, BlockTokens: 4, NumBlocks: 60, MaxPassRows: 60}
	} else {
		m.Tensors = &wire.TensorLimits{MaxPassItems: 1 + h.pick.IntN(4), Backward: 1}
	}
	return m
}

// move makes one random thing happen.
func (h *poolHistory) move() {
	h.now += time.Duration(h.pick.IntN(20)) * time.Millisecond
	d := h.devices[h.pick.IntN(len(h.devices))]
	switch op := h.pick.IntN(40); {
	case op < 14:
		h.submit()
	case op < 22:
		h.finish(d)
	case op < 31:
		h.loaded(d)
	case op < 34:
		h.hello(d)
	case op < 36:
		h.send("", &wire.Tick{})
	case op < 37:
		h.send("web", &wire.Cancel{Job: h.anyOpen()})
	case op < 38:
		h.restart(d)
	case op < 39:
		h.wish()
	case h.pick.IntN(2) == 0:
		h.change(d)
	case h.pick.IntN(3) == 0:
		d.reset()
		d.gone = true
		h.send(d.name, &wire.Lost{})
	}
}

func (h *poolHistory) anyOpen() engine.JobID {
	ids := slices.Sorted(maps.Keys(h.open))
	if len(ids) == 0 {
		return 0
	}
	id := ids[h.pick.IntN(len(ids))]
	delete(h.open, id)
	return id
}

func (h *poolHistory) submit() {
	h.next++
	i := h.pick.IntN(5)
	m := &wire.Submit{Job: engine.Job{ID: h.next, Model: fmt.Sprint("model-", i)}}
	if i%2 == 0 {
		m.Work = &engine.Tokens{IDs: tokens(h.pick.IntN(3), 1+h.pick.IntN(40)), Max: 1 + h.pick.IntN(3)*h.pick.IntN(2)}
	} else {
		w := &engine.Tensors{Frames: float64(1 + h.pick.IntN(3))}
		if h.pick.IntN(3) == 0 {
			w.Grad = &engine.Grad{}
		}
		m.Work = w
	}
	switch h.pick.IntN(6) {
	case 0, 1:
		m.Stream, m.Promised, m.Deadline = fmt.Sprint(h.pick.IntN(4)), true, time.Duration(20+h.pick.IntN(200))*time.Millisecond
	case 2:
		m.Stream, m.Deadline = "feed", time.Duration(20+h.pick.IntN(400))*time.Millisecond
	case 3:
		m.Deadline = time.Duration(1+h.pick.IntN(400)) * time.Millisecond
	case 4:
		m.Priority = engine.Lowest
	}
	h.open[h.next] = true
	h.send("web", m)
}

// finish lets a device answer the pass that ends first.
func (h *poolHistory) finish(d *hostOfMany) {
	if d.greeted && d.prepared < len(d.prepares) && h.pick.IntN(2) == 0 {
		d.prepared++
		h.seen.prepared++
		h.send(d.name, &wire.Paused{Pass: d.prepares[d.prepared-1].Pass})
		return
	}
	run := d.running
	switch {
	case d.nested != nil:
		run = d.nested
	case run == nil && len(d.lowest) > 0:
		run = d.lowest[0]
	}
	if run == nil || !d.greeted {
		return
	}
	if h.prepares(d, run) {
		return
	}
	d.end(run)
	done := &wire.Done{Pass: run.Pass, Took: time.Duration(1+h.pick.IntN(30)) * time.Millisecond}
	for _, it := range run.Items {
		r := wire.ItemResult{Job: it.Job, Output: &engine.TensorOutput{}}
		if _, ok := it.Work.(*wire.TokenItem); ok {
			r = answered(it.Job, &engine.Answer{Token: 7})
		}
		done.Items = append(done.Items, r)
	}
	if h.pick.IntN(16) == 0 {
		done.Items, done.Err = nil, engine.Errorf(engine.CodeInternal, "out of luck")
	}
	h.send(d.name, done)
}

// prepares lets a device say of a pass of tensors that it cannot begin yet; most can.
func (h *poolHistory) prepares(d *hostOfMany, run *wire.Run) bool {
	if _, ok := run.Items[0].Work.(*wire.TensorItem); !ok || h.pick.IntN(4) > 0 {
		return false
	}
	d.end(run)
	d.prepares = append(d.prepares, run)
	h.send(d.name, &wire.Paused{Pass: run.Pass, Prepares: true})
	return true
}

// end takes a pass off a device.
func (d *hostOfMany) end(run *wire.Run) {
	switch run {
	case d.nested:
		d.nested = nil
	case d.running:
		d.running = nil
	default:
		d.lowest = d.lowest[1:]
	}
}

// loaded lets a device answer a Load, or fail in it.
func (h *poolHistory) loaded(d *hostOfMany) {
	load := d.loading
	if load == nil {
		return
	}
	d.loading = nil
	m := &wire.Loaded{Serial: load.Serial, Count: len(load.Weights), Took: time.Millisecond}
	if h.pick.IntN(12) == 0 {
		h.seen.failed++
		m.Count = h.pick.IntN(len(load.Weights))
		m.Err = engine.Errorf(engine.CodeUnavailable, "no such file")
	}
	for _, w := range load.Weights[:m.Count] {
		d.resident[w] = true
	}
	h.checkBytes(d)
	h.send(d.name, m)
}

func (h *poolHistory) hello(d *hostOfMany) {
	m := &wire.Hello{Role: wire.RoleExecutor, Name: string(d.name), Epoch: d.epoch, Executor: d.says()}
	if d.greeted && h.pick.IntN(2) == 0 {
		m.Executor = nil
	}
	d.gone = false
	h.send(d.name, m)
	if !d.greeted {
		d.greeted = true
		h.send(d.name, m)
	}
}

// says is what a device tells of itself.
func (d *hostOfMany) says() *wire.ExecutorInfo {
	info := d.info
	info.Weights = slices.Clone(info.Weights)
	for i := range info.Weights {
		info.Weights[i].Resident = d.resident[uint32(i)]
	}
	return &info
}

// restart is what a device does when it sees another scheduler, or when its process starts anew: then its weights are
// gone as well.
func (h *poolHistory) restart(d *hostOfMany) {
	d.reset()
	if h.pick.IntN(2) == 0 {
		d.resident = map[uint32]bool{}
	}
	h.hello(d)
}

func (d *hostOfMany) reset() {
	d.epoch++
	d.greeted = false
	d.running, d.nested, d.parked, d.loading, d.pausing = nil, nil, nil, nil, false
	d.prepares, d.prepared, d.lowest = nil, 0, nil
}

// change gives a device other models, or the same at another cost.
func (h *poolHistory) change(d *hostOfMany) {
	if !d.greeted || d.gone {
		return
	}
	models := slices.Clone(d.info.Models)
	d.info.Weights = slices.Clone(d.info.Weights)
	switch i := h.pick.IntN(len(models)); h.pick.IntN(5) {
	case 3: // its weights are found to be another's
		models[i].Weights = slices.Clone(models[i].Weights)
		for k, w := range models[i].Weights {
			if other := h.pick.IntN(len(d.info.Weights)); !slices.Contains(models[i].Weights, uint32(other)) && d.info.Weights[other].Bytes <= d.info.Weights[w].Bytes {
				models[i].Weights[k] = uint32(other)
				break
			}
		}
	case 4:
		d.info.Weights[h.pick.IntN(len(d.info.Weights))].Bytes /= 2
	case 0:
		models[i].Cost.Unit += time.Millisecond
	case 1:
		models[i].Reason, models[i].Tokens, models[i].Tensors = "it was taken away", nil, nil
	case 2:
		models = slices.Delete(models, i, i+1)
	}
	if len(models) > 0 {
		d.info.Models = models
	}
	h.send(d.name, &wire.Hello{Role: wire.RoleExecutor, Name: string(d.name), Epoch: d.epoch, Executor: d.says()})
}

func (h *poolHistory) wish() {
	h.serial++
	h.wishes[h.serial] = true
	h.send("web", &wire.SetModel{Serial: h.serial, Model: fmt.Sprint("model-", h.pick.IntN(5)), Unload: h.pick.IntN(2) == 0})
}

// send gives a message to the Core and does what it says.
func (h *poolHistory) send(from PeerID, m wire.Message) {
	out := slices.Clone(h.core.Step(h.now, from, m))
	jobs := slices.Collect(maps.Values(h.core.jobs))
	if err := h.core.fleet.CheckIntegrity(jobs); err != nil {
		h.t.Fatalf("after %T from %q: %v", m, from, err)
	}
	if len(h.core.jobs) != len(h.open)-len(pick[*wire.Result](out))+h.unfinished(out) {
		h.t.Fatalf("after %T from %q the Core knows %d jobs, %d are open: %s", m, from, len(h.core.jobs), len(h.open), describe(out))
	}
	var pauses []*hostOfMany
	for _, e := range out {
		if d := h.device(e.To); d != nil {
			if h.obey(d, e.Msg) {
				pauses = append(pauses, d)
			}
			continue
		}
		switch m := e.Msg.(type) {
		case *wire.Result:
			h.result(m)
		case *wire.ModelSet:
			if !h.wishes[m.Serial] {
				h.t.Fatalf("wish %d is answered twice", m.Serial)
			}
			delete(h.wishes, m.Serial)
		}
	}
	for _, d := range pauses {
		h.paused(d)
	}
}

// unfinished counts the Results after which more will come.
func (h *poolHistory) unfinished(out []Envelope) (n int) {
	for _, r := range pick[*wire.Result](out) {
		if r.Err == nil && r.Finish == engine.FinishNone {
			n++
		}
	}
	return n
}

func (h *poolHistory) device(id PeerID) *hostOfMany {
	i := slices.IndexFunc(h.devices, func(d *hostOfMany) bool { return d.name == id })
	if i < 0 {
		return nil
	}
	return h.devices[i]
}

func (h *poolHistory) result(r *wire.Result) {
	if !h.open[r.Job] {
		h.t.Fatalf("%s, which has ended or was cancelled", describeResult(r))
	}
	if r.Err != nil {
		switch r.Err.Code {
		case engine.CodeDeadline:
			h.seen.late++
		case engine.CodeOverloaded:
			h.seen.refused++
		}
	}
	if r.Err != nil || r.Finish != engine.FinishNone {
		delete(h.open, r.Job)
	}
}

// drain keeps the devices alive and answering until every job and wish has its answer.
func (h *poolHistory) drain() {
	for round := 0; len(h.open)+len(h.wishes) > 0; round++ {
		if round > 1500 {
			h.t.Fatalf("%d jobs and %d wishes are never answered", len(h.open), len(h.wishes))
		}
		h.now += 100 * time.Millisecond
		h.send("web", &wire.Hello{Role: wire.RoleFrontend, Name: "web", Epoch: 1})
		for _, d := range h.devices {
			h.hello(d)
			h.loaded(d)
			h.finish(d)
		}
		h.send("", &wire.Tick{})
	}
}
