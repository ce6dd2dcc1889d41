// Package processors has the work that is done beside the devices' passes (CPU stages: JSON, tokens, pictures, frames,
// grammars) go in one order, that of scheduler/stages, and no more of it at a time than there are processors. The order is
// that of all processes of a host where one of them serves it (Serve) and the others follow it (Pool.Follow); a process
// that is alone, or cannot reach it, has its own.
package processors

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// quick is what takes so little that it waits for no slot.
const quick = 500 * time.Microsecond

// LateError ends a stage that cannot be in time before it has begun.
type LateError struct {
	Refused    bool          // before anything was done for its request
	RetryAfter time.Duration // when the like of it may be in time; 0: not known
}

func (e *LateError) Error() string {
	return "its deadline is sooner than processors and devices can be done with it"
}

// Stage is a piece of work.
type Stage struct {
	Kind    string        // one of few, by which it is learnt how long they take
	Tenant  string        // whose share of the slots it takes; empty: the server's own
	Takes   time.Duration // about, by its size
	Came    time.Time     // when its request came, by which it ages; zero: now
	Due     time.Time     // by when its request must have ended; zero: before its context does
	Rest    time.Duration // what its request needs after this stage, of devices and of processors
	First   bool          // nothing was done for its request: it is refused at once if it cannot be in time
	Yields  bool          // f calls Yield often, within a seat: it holds up no others, however long it takes
	Apart   bool          // it takes seconds and cannot be interrupted: one such at a time goes beside the slots
	Outside bool          // another program does it, within the part of the slots that those may have
}

// ask is what the order is asked for.
func (s *Stage) ask(ctx context.Context) stages.Ask {
	a := stages.Ask{
		Kind: s.Kind, Tenant: s.Tenant, Takes: s.Takes, Came: s.Came, Due: s.Due, Rest: s.Rest,
		First: s.First, Yields: s.Yields && seatOf(ctx) != nil, Apart: s.Apart, Outside: s.Outside,
	}
	if ends, ok := ctx.Deadline(); ok && s.Due.IsZero() {
		a.Due = ends
	}
	return a
}

// Pool gives out slots. Its methods are safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	own     *stages.Core       // guarded by mu
	host    *link              // to the host's order; guarded by mu, nil: it is not reached
	last    uint64             // ID; guarded by mu
	open    map[uint64]*waiter // those that wait or have a slot; guarded by mu
	kinds   map[string]*Kind   // guarded by mu
	observe atomic.Pointer[func(Observation)]
	told    atomic.Pointer[load] // of the host, if it was reached
}

// Observation is what became of a stage that asked for a slot.
type Observation struct {
	Kind         string
	Waited, Took time.Duration // Took without what others were let go before the rest of it
	Dropped      Reason        // why it has not begun; empty: it has
}

// Reason is why a stage has not begun.
type Reason string

// Reasons.
const (
	Late    Reason = "late"    // its deadline came too near
	Refused Reason = "refused" // the same, before anything was done for its request
	Left    Reason = "left"    // whoever asked did not wait
)

// reasonOf is why by the error that await returns.
func reasonOf(ctx context.Context, err error) Reason {
	var late *LateError
	switch {
	case errors.As(err, &late) && late.Refused:
		return Refused
	case late != nil, errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Late
	}
	return Left
}

// Kind is how the stages of a kind do in this process.
type Kind struct {
	Name             string
	Waiting, Running int
	Late, Refused    int // since it began
}

// waiter is a stage that waits or has a slot.
type waiter struct {
	ask     stages.Ask         // again, should the order that has it be lost
	in      order              // guarded by Pool.mu; nil: none knows of it, as its lease is over
	waits   bool               // guarded by Pool.mu
	answer  chan stages.Action // when it no longer waits
	expired chan struct{}      // guarded by Pool.mu, closed when another has its slot, and nil from then on
}

// order decides which stages begin. The caller of step holds the Pool's mu.
type order interface {
	step(event any)
}

// Shared is the Pool of this process.
var Shared = sync.OnceValue(func() *Pool { return New(0) })

// New makes a Pool of so many slots; 0: as many as WithDefaults has.
func New(slots int) *Pool {
	p := &Pool{own: stages.New(parametersOf(slots)), open: map[uint64]*waiter{}, kinds: map[string]*Kind{}}
	p.told.Store(&load{Slots: p.own.Slots(), Outside: p.own.Outside()})
	return p
}

func parametersOf(slots int) stages.Parameters {
	return WithDefaults(stages.Parameters{Slots: slots, Policy: stages.OnTime, Express: true, Outside: stages.Half})
}

// WithDefaults has the host's slots where none are given: one less than there are processors, as the devices' threads run
// there as well, and two at least. Programs beside the server have no more than these.
func WithDefaults(p stages.Parameters) stages.Parameters {
	p.Slots = cmp.Or(p.Slots, max(2, runtime.GOMAXPROCS(0)-1))
	p.Outside = min(p.Slots, p.Outside)
	return p
}

// Slots is how many stages run at a time, one more where it is short; of a host that is not reached, how many they were.
func (p *Pool) Slots() int { return p.told.Load().Slots }

// OutsideSlots is how many of them other programs may have.
func (p *Pool) OutsideSlots() int { return p.told.Load().Outside }

// Load is how many stages wait for a slot, and how many have one.
func (p *Pool) Load() (waiting, running int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, running = p.own.Waiting(), p.own.Running()
	if p.host != nil {
		host := p.host.load.Load()
		waiting, running = waiting+host.Waiting, running+host.Running
	}
	return waiting, running
}

func (p *Pool) link() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host
}

// Do calls f when the stage's turn has come, and tells how long it waited. f must not wait for a device.
// Where the seat of ctx has a slot already, f runs in that. The errors of Do itself are a *LateError and why ctx has ended.
func (p *Pool) Do(ctx context.Context, s Stage, f func() error) (waited time.Duration, err error) {
	at := seatOf(ctx)
	if s.Takes <= quick || at != nil && at.pool != nil {
		return 0, f()
	}
	if at == nil {
		at = new(seat)
	}
	asked := time.Now()
	if err := at.takeSeat(ctx, p, s); err != nil {
		p.tellObserver(Observation{Kind: s.Kind, Waited: time.Since(asked), Dropped: reasonOf(ctx, err)})
		return time.Since(asked), err
	}
	waited, taught := at.began.Sub(asked), false
	defer func() {
		now := time.Now()
		took := now.Sub(at.began)
		at.leaveSeat(taught, took)
		p.tellObserver(Observation{Kind: s.Kind, Waited: now.Sub(asked) - took, Took: took})
	}()
	err = f()
	taught = err == nil
	return waited, err
}

// Observe has f hear of every stage that asked for a slot, in whichever goroutine it was.
func (p *Pool) Observe(f func(Observation)) { p.observe.Store(&f) }

func (p *Pool) tellObserver(o Observation) {
	p.mu.Lock()
	of := p.kind(o.Kind)
	switch o.Dropped {
	case Late:
		of.Late++
	case Refused:
		of.Refused++
	}
	p.mu.Unlock()
	if f := p.observe.Load(); f != nil {
		(*f)(o)
	}
}

// kind is what is counted of a kind; the caller holds mu.
func (p *Pool) kind(name string) *Kind {
	of := p.kinds[name]
	if of == nil {
		of = &Kind{Name: name}
		p.kinds[name] = of
	}
	return of
}

// Kinds are those of this process's stages, by name, of which any ever asked for a slot.
func (p *Pool) Kinds() (list []Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.kinds {
		of.Waiting, of.Running = 0, 0
	}
	for _, w := range p.open {
		if of := p.kind(w.ask.Kind); w.waits {
			of.Waiting++
		} else {
			of.Running++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.kinds)) {
		list = append(list, *p.kinds[name])
	}
	return list
}

// Try begins a stage if there is a slot that nobody waits for. The caller calls done at its end, which is soon when others are Wanting.
func (p *Pool) Try(s Stage) (done func(), ok bool) {
	w := p.askForSlot(stages.Ask{Kind: s.Kind, Takes: s.Takes, Spare: true})
	if a := <-w.answer; a.Verdict != stages.Granted {
		return nil, false
	}
	began := time.Now()
	return func() {
		took := time.Since(began)
		p.done(w, took)
		p.tellObserver(Observation{Kind: s.Kind, Took: took})
	}, true
}

// Held is a slot that its holder uses outside of this process.
type Held struct {
	Waited  time.Duration
	Expired <-chan struct{} // closed when it was held for so long that another has it now
	Release func()
}

// Hold waits for the slot of a stage, whose end the caller tells by Release. Its errors are those of Do.
func (p *Pool) Hold(ctx context.Context, s Stage) (*Held, error) {
	asked, expired := time.Now(), make(chan struct{})
	w := p.askWith(s.ask(ctx), expired)
	if err := p.awaitGrant(ctx, w); err != nil {
		p.tellObserver(Observation{Kind: s.Kind, Waited: time.Since(asked), Dropped: reasonOf(ctx, err)})
		return nil, err
	}
	began := time.Now()
	return &Held{Waited: began.Sub(asked), Expired: expired, Release: func() {
		took := time.Since(began)
		p.done(w, took)
		p.tellObserver(Observation{Kind: s.Kind, Waited: began.Sub(asked), Took: took})
	}}, nil
}

// Wanting says that stages wait for a slot.
func (p *Pool) Wanting() bool {
	waiting, _ := p.Load()
	return waiting > 0
}

// askForSlot asks for a slot.
func (p *Pool) askForSlot(a stages.Ask) *waiter { return p.askWith(a, nil) }

// askWith is ask of one who wants to know of the end of the lease.
func (p *Pool) askWith(a stages.Ask, expired chan struct{}) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	a.ID = p.last
	w := &waiter{ask: a, answer: make(chan stages.Action, 1), expired: expired}
	p.waitForSlot(w, nil)
	return w
}

// waitForSlot has w wait by an event, which its order takes, or by what it asks for if none has it; the caller holds mu.
func (p *Pool) waitForSlot(w *waiter, event any) {
	if l, linked := w.in.(*link); w.in == nil || linked && l != p.host { // the order that had it is silent, or has forgotten it
		if linked {
			l.step(stages.Withdraw{ID: w.ask.ID})
		}
		w.in, event = p.order(), w.ask
	}
	p.open[w.ask.ID], w.waits = w, true
	w.in.step(event)
}

// done ends a stage that has a slot.
func (p *Pool) done(w *waiter, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endStage(w, stages.Done{ID: w.ask.ID, Took: took})
}

// withdrawStage ends a stage that teaches nothing, whether it waits or has a slot.
func (p *Pool) withdrawStage(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endStage(w, stages.Withdraw{ID: w.ask.ID})
}

// endStage tells the order that has w of its end; the caller holds mu.
func (p *Pool) endStage(w *waiter, event any) {
	delete(p.open, w.ask.ID)
	if w.in != nil {
		w.in.step(event)
	}
}

// order is whose turn it is to decide; the caller holds mu.
func (p *Pool) order() order {
	if p.host != nil {
		return p.host
	}
	return ownOrder{p}
}

// ownOrder is that of a process that is alone.
type ownOrder struct{ *Pool }

func (o ownOrder) step(event any) {
	for _, a := range o.own.Step(time.Now(), event) {
		o.acceptAction(o, a)
	}
}

// acceptAction tells a stage what becomes of it, if it is still the order's that decides so; the caller holds mu.
func (p *Pool) acceptAction(of order, a stages.Action) {
	w := p.open[a.ID]
	switch {
	case w == nil || w.in != of:
	case a.Verdict == stages.Expired:
		p.expireStage(w)
	case w.waits:
		w.waits = false
		w.answer <- a
		if a.Verdict != stages.Granted {
			delete(p.open, a.ID)
		}
	}
}

// expireStage ends what an order knows of a stage. One that has yielded meanwhile asks for a slot anew, and another does so when it
// yields; the caller holds mu.
func (p *Pool) expireStage(w *waiter) {
	w.in = nil
	if w.expired != nil {
		close(w.expired)
		w.expired = nil
	}
	if w.waits {
		p.waitForSlot(w, w.ask)
	}
}

// lateError is why a stage was dropped: its context's deadline, if that has passed.
func lateError(ctx context.Context, a stages.Action) error {
	if ends, ok := ctx.Deadline(); ok && !time.Now().Before(ends) {
		<-ctx.Done() // at once
		return context.Cause(ctx)
	}
	return &LateError{a.Verdict == stages.Refused, a.RetryAfter}
}

// awaitGrant waits until a stage begins.
func (p *Pool) awaitGrant(ctx context.Context, w *waiter) error {
	select {
	case a := <-w.answer:
		if a.Verdict != stages.Granted {
			return lateError(ctx, a)
		}
		return nil
	case <-ctx.Done():
	}
	p.withdrawStage(w) // where it was granted at the same time, too
	return context.Cause(ctx)
}
