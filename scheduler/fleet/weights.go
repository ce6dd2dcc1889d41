package fleet

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// weights is what an executor has on its device of its models' weights. A piece is a residency.Chunk of the number of
// its position in wire.ExecutorInfo.Weights.
type weights struct {
	memory  *residency.Memory
	users   [][]*Lane  // of each piece
	loaded  []*Lane    // those with weights that are all there
	keepers []*Lane    // those that are to be kept always
	models  int        // that memory has been told of
	loading *wire.Load // not answered yet
	loadFor *Lane      // whose it is; nil if that is gone
	stray   []uint32   // pieces that no model needs any more, to be dropped
	serial  uint64     // of the last Load
	area    uint64     // of work memory, the largest of the models in passes
}

// failure is why a lane cannot run its model.
type failure struct {
	reason string        // of the last time; may be empty
	always bool          // it never can
	until  time.Duration // when it is tried again
	wait   time.Duration // between the last two tries
}

const (
	// A load that has failed is tried again after shortestWait, then after twice as long each time.
	shortestWait, longestWait = time.Second, time.Minute
	// ahead bounds a Load, so that it can be redirected: to so many seconds, and pieces.
	aheadSeconds, aheadPieces = 0.05, 8
	// unmeasuredRate stands for the bytes a second of a device that has not told.
	unmeasuredRate = 1e9
	// unbounded is more bytes than any device has.
	unbounded = 1 << 60
)

// useless notes that a lane can never run its model.
func (l *Lane) useless(format string, args ...any) {
	l.failure.reason, l.failure.always = fmt.Sprintf(format, args...), true
}

// closed says why a lane takes no job now; nil if it does.
func (l *Lane) closed(now time.Duration) *engine.Error {
	switch {
	case l.failure.always || now < l.failure.until:
		return l.unusable()
	case l.unloading:
		return engine.Errorf(engine.CodeUnavailable, "model %q is being unloaded", l.Info.Name)
	}
	return nil
}

// unusable is what a job of a model that cannot be run is told.
func (l *Lane) unusable() *engine.Error {
	return engine.Errorf(engine.CodeUnavailable, "model %q cannot be run on %s: %s", l.Info.Name, l.Executor.Peer.Name.Name, l.failure.reason)
}

// state is how the model is in this lane.
func (l *Lane) state(now time.Duration) wire.ModelState {
	switch {
	case l.failure.always || now < l.failure.until:
		return wire.ModelFailed
	case l.unloading:
		return wire.ModelUnloading
	case l.ready:
		return wire.ModelReady
	case l.Executor.loadFor == l:
		return wire.ModelLoading
	}
	return wire.ModelAbsent
}

// bytes is the size of a model's weights.
func (l *Lane) bytes() (sum uint64) {
	for _, w := range l.Info.Weights {
		if int(w) < len(l.Executor.Info.Weights) {
			sum += l.Executor.Info.Weights[w].Bytes
		}
	}
	return sum
}

// loading is the seconds until the lane could run, for what is missing of its weights and what of others' is on its way.
func (l *Lane) loading() float64 {
	if l.ready {
		return 0
	}
	e := l.Executor
	seconds := e.memory.Load(l.model)
	if e.loading != nil && e.loadFor != l {
		for _, w := range e.loading.Weights {
			seconds += float64(e.Info.Weights[w].Bytes) / e.rate()
		}
	}
	return seconds
}

// furnish tells the memory of an executor of a lane's model. What is resident of it counts as loaded.
func (f *Fleet) furnish(l *Lane) {
	e := l.Executor
	l.model = residency.Model(e.models)
	e.models++
	if l.failure.always {
		return
	}
	spec := residency.Spec{Area: int64(min(l.Info.Work, unbounded)), Rate: e.rate(), Keep: l.keep == wire.KeepAlways}
	for _, w := range l.Info.Weights {
		if int(w) >= len(e.Info.Weights) {
			l.useless("it has weights at position %d, the executor has %d", w, len(e.Info.Weights))
			return
		}
		spec.Chunks = append(spec.Chunks, residency.Piece{Chunk: residency.Chunk(w), Bytes: int64(e.Info.Weights[w].Bytes)})
	}
	if err := e.memory.Register(l.model, spec); err != nil {
		l.useless("%s", e.tooLarge(l, err))
		return
	}
	if spec.Keep {
		e.keepers = append(e.keepers, l)
	}
	for _, w := range l.Info.Weights {
		e.users[w] = append(e.users[w], l)
	}
	l.settle()
}

// refurnish tells the memory of other weights of a lane's model, which may have passes.
func (f *Fleet) refurnish(l *Lane) {
	e, old := l.Executor, l.model
	isIt := func(o *Lane) bool { return o == l }
	for i := range e.users {
		e.users[i] = slices.DeleteFunc(e.users[i], isIt)
	}
	e.keepers = slices.DeleteFunc(e.keepers, isIt)
	_ = e.memory.SetKeep(old, false)
	f.furnish(l)
	if l.failure.always {
		l.model = old // its passes end
		return
	}
	for _, p := range e.Passes() {
		if p.Lane == l {
			_, _ = e.memory.Begin(l.model, 0, nil)
			e.memory.End(old, 0)
		}
	}
	for _, c := range e.memory.Remove(old) {
		e.stray = append(e.stray, uint32(c))
	}
}

// tooLarge says in words why a model cannot be registered, or kept.
func (e *Executor) tooLarge(l *Lane, err error) string {
	t, ok := err.(*residency.TooLarge)
	if !ok {
		return err.Error()
	}
	name := l.Info.Name
	for _, other := range e.Lanes {
		if other.model == t.Model {
			name = other.Info.Name
		}
	}
	return fmt.Sprintf("model %q needs %s for its weights and a pass; the device has %s, of which %s are kept for others",
		name, size(t.Needs), size(t.Capacity), size(t.Kept))
}

func size(bytes int64) string { return fmt.Sprintf("%.2f GB", float64(bytes)/1e9) }

// settle notes whether all of a lane's weights are there.
func (l *Lane) settle() {
	e := l.Executor
	ready := e.memory.Ready(l.model)
	if ready == l.ready {
		return
	}
	l.ready = ready
	if len(l.Info.Weights) == 0 {
		return
	}
	if ready {
		e.loaded = append(e.loaded, l)
		l.failure = failure{}
	} else {
		e.loaded = slices.DeleteFunc(e.loaded, func(o *Lane) bool { return o == l })
		l.Pool.Stats.Drops++
	}
}

// asks lists what is asked of the models on an executor: those for which jobs wait, those that are there and expect
// some, and those that are to be kept and are not there.
func (f *Fleet) asks(e *Executor) (lanes []residency.Lane) {
	now := f.Seconds()
	if len(e.busy) == 0 && len(e.low.busy) > 0 && len(e.awaited(now)) == 0 && !slices.ContainsFunc(e.keepers, absent) {
		return f.asksLowest(e)
	}
	mixed := e.feeds > 0
	seconds := mixed || queue.InSeconds(f.Policy)
	for _, l := range e.busy {
		lanes = append(lanes, residency.Lane{Model: l.model, Work: asked{f, l, mixed}, Kept: e.ledger.Needs(now, l.Info.Name)})
	}
	for _, l := range e.loaded {
		switch {
		case l.waiting > 0:
		case e.ledger.Needs(now, l.Info.Name):
			lanes = append(lanes, residency.Lane{Model: l.model, Kept: true})
		case seconds: // else what was used longest ago goes first
			service := l.Cost.Seconds(l.Pool.typical())
			lanes = append(lanes, residency.Lane{Model: l.model, Idle: true, Work: residency.Requests{Service: service, Next: l.arrivals.Next(now)}})
		}
	}
	for _, l := range e.keepers {
		if !l.ready && l.waiting == 0 {
			lanes = append(lanes, residency.Lane{Model: l.model, Kept: true})
		}
	}
	for _, l := range e.awaited(now) {
		if l.waiting == 0 && l.keep != wire.KeepAlways {
			lanes = append(lanes, residency.Lane{Model: l.model, Kept: true})
		}
	}
	return lanes
}

// awaited lists the lanes that streams with promised deadlines need and that are not there.
func (e *Executor) awaited(now float64) (lanes []*Lane) {
	for _, name := range e.ledger.Models(now) {
		if l := e.lane(name); l != nil && !l.ready && !l.failure.always {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// asked is what is asked of a lane in which jobs wait.
type asked struct {
	fleet *Fleet
	lane  *Lane
	mixed bool // frames wait beside requests: all are compared in seconds, whatever the policy
}

// Key implements residency.Work.
func (a asked) Key(load, back float64) float64 {
	l, now := a.lane, a.fleet.Seconds()
	key := math.Inf(1)
	s := l.Executor.scale(l, live, now, load+back)
	j, turn := a.fleet.head(l, live, 0), of(l.Queue.Turn())
	switch {
	case a.mixed:
		for _, j := range []*Job{j, turn} {
			if j != nil {
				key = min(key, a.fleet.urgency(l, j)+s.Load)
			}
		}
	case j != nil:
		key = l.Queue.Weigh(&j.Job, s)
	}
	if turn != nil && !a.mixed {
		key = min(key, l.Queue.WeighTurn(s))
	}
	if w, ok := l.frameWork(a.fleet.Now); ok {
		key = min(key, w.Key(load, back))
	}
	return key
}

// suspend takes a model that is to be kept out of those that are loaded, or back among them.
func (l *Lane) suspend(suspended bool) {
	e := l.Executor
	e.keepers = slices.DeleteFunc(e.keepers, func(o *Lane) bool { return o == l })
	keep := l.keep == wire.KeepAlways && !suspended
	if err := e.memory.SetKeep(l.model, keep); err == nil && keep {
		e.keepers = append(e.keepers, l)
	}
}

// Keep changes how a lane's model is kept; it says why that cannot be.
func (l *Lane) Keep(keep wire.Keep) error {
	e := l.Executor
	if err := e.memory.SetKeep(l.model, keep == wire.KeepAlways); err != nil {
		return fmt.Errorf("%s", e.tooLarge(l, err))
	}
	l.keep = keep
	l.suspend(false)
	return nil
}

// beside says what the weights and work areas of a lane, of the models to be kept and of those with promised deadlines
// take together, and whether there is so much.
func (f *Fleet) beside(l *Lane) (need uint64, fits bool) {
	e := l.Executor
	counted := make(map[uint32]bool, len(l.Info.Weights))
	work := uint64(0)
	for _, o := range e.Lanes {
		if o != l && o.keep != wire.KeepAlways && !e.ledger.Needs(f.Seconds(), o.Info.Name) || o.failure.always {
			continue
		}
		work = max(work, o.Info.Work)
		for _, w := range o.Info.Weights {
			if !counted[w] {
				counted[w] = true
				need += e.Info.Weights[w].Bytes
			}
		}
	}
	need += work
	return need, e.Info.Memory == 0 || need <= e.Info.Memory
}

// Stuck notes since when jobs wait for a lane that has no room beside models with promised deadlines, and says why
// after some time.
func (f *Fleet) Stuck(l *Lane, after time.Duration) *engine.Error {
	need, fits := f.beside(l)
	if fits || l.waiting+l.Lowest.Len() == 0 {
		l.stuck = 0
		return nil
	}
	if l.stuck == 0 {
		l.stuck = max(f.Now, 1)
	}
	if f.Now-l.stuck < after {
		return nil
	}
	return engine.Errorf(engine.CodeUnavailable, "model %q and those with promised deadlines need %s, %s has %s: it has had no room for %v",
		l.Info.Name, size(int64(need)), l.Executor.Peer.Name.Name, size(int64(l.Executor.Info.Memory)), f.Now-l.stuck)
}

// beginArea makes room for a pass of a lane, and holds its weights until endArea; it says whether that could be.
// Passes of lowest jobs make way for others.
func (f *Fleet) beginArea(l *Lane, c class) bool {
	e := l.Executor
	area := max(l.Info.Work, e.area) - e.area
	var asks []residency.Lane
	if e.memory.Free() < int64(area) {
		if asks = f.asks(e); c == lowest {
			asks = f.asksLowest(e)
		}
	}
	begin := e.memory.Begin
	if c == lowest {
		begin = e.memory.BeginUnused
	}
	evict, ok := begin(l.model, int64(area), asks)
	if !ok && c == live && f.yield(e, all) {
		return f.beginArea(l, c)
	}
	if ok {
		e.area += area
		f.drop(e, e.dropped(evict))
	}
	return ok
}

// endArea gives back what beginArea took, once the pass is off the executor.
func (e *Executor) endArea(l *Lane) {
	most := uint64(0)
	for _, p := range e.Passes() {
		most = max(most, p.Lane.Info.Work)
	}
	e.memory.End(l.model, int64(e.area-most))
	e.area = most
}

// Tend drops the weights of models that have been idle for as long as they are kept, or are to be unloaded, and tries
// again those to be kept that have failed.
func (f *Fleet) Tend(e *Executor) {
	e.noRoom = false
	for _, l := range e.Lanes {
		if l.failure.always {
			continue
		}
		if l.keep == wire.KeepAlways && l.failure.until > 0 && f.Now >= l.failure.until {
			l.failure.until = 0
			l.suspend(false)
		}
		idle := l.ready && l.keep == wire.KeepIdle && f.Now-l.idleSince >= l.Info.Idle
		if l.waiting+l.Lowest.Len() == 0 && (l.unloading || idle) {
			f.drop(e, e.dropped(e.memory.Unload(l.model)))
		}
	}
}
