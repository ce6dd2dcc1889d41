// Package processors has the work that a process does beside the devices' passes (CPU stages: JSON, tokens, pictures,
// frames, grammars) go in one order, that of scheduler/stages, and no more of it at a time than there are processors.
package processors

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// quick is what takes so little that it waits for no slot.
const quick = 500 * time.Microsecond

// ErrLate ends a stage whose time has passed before it could begin.
var ErrLate = errors.New("its deadline passed before a processor was free")

// Stage is a piece of work.
type Stage struct {
	Kind  string        // one of few, by which it is learnt how long they take
	Takes time.Duration // about, by its size
	Due   time.Time     // by when it must have ended; zero: before its context does
	Apart bool          // it takes seconds and cannot be interrupted: one such at a time goes beside the slots
}

// Pool gives out slots. Its methods are safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	core    *stages.Core         // guarded by mu, but for its slots, which stay
	last    uint64               // ID; guarded by mu
	waiting map[uint64]chan bool // what becomes of those that wait; guarded by mu
}

// Shared is the Pool of this process: a slot less than it has processors, as the devices' threads run there as well, and two at least.
var Shared = sync.OnceValue(func() *Pool { return New(max(2, runtime.GOMAXPROCS(0)-1)) })

// New makes a Pool.
func New(slots int) *Pool {
	return &Pool{core: stages.New(slots), waiting: map[uint64]chan bool{}}
}

// Slots is how many stages run at a time, one more where it is short.
func (p *Pool) Slots() int { return p.core.Slots() }

// Load is how many stages wait for a slot, and how many have one.
func (p *Pool) Load() (waiting, running int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Waiting(), p.core.Running()
}

// Do calls f when the stage's turn has come, and tells how long it waited. f must not wait for a device.
// Where the seat of ctx has a slot already, f runs in that. The errors of Do itself are ErrLate and why ctx has ended.
func (p *Pool) Do(ctx context.Context, s Stage, f func() error) (waited time.Duration, err error) {
	at := seatOf(ctx)
	if s.Takes <= quick || at != nil && at.pool != nil {
		return 0, f()
	}
	if at == nil {
		at = new(seat)
	}
	asked := time.Now()
	if err := at.sit(ctx, p, s); err != nil {
		return time.Since(asked), err
	}
	defer at.leave()
	return at.began.Sub(asked), f()
}

// Try begins a stage if there is a slot that nobody waits for. The caller calls done at its end, which is soon when others are Wanting.
func (p *Pool) Try(s Stage) (done func(), ok bool) {
	id, answer := p.ask(stages.Ask{Kind: s.Kind, Takes: s.Takes, Spare: true})
	if !<-answer {
		return nil, false
	}
	began := time.Now()
	return func() { p.step(stages.Done{ID: id, Took: time.Since(began)}) }, true
}

// Wanting says that stages wait for a slot.
func (p *Pool) Wanting() bool {
	waiting, _ := p.Load()
	return waiting > 0
}

// ask asks for a slot, and returns where it is told whether it was granted.
func (p *Pool) ask(a stages.Ask) (id uint64, answer <-chan bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	a.ID = p.last
	return a.ID, p.stepWaiting(a.ID, a)
}

// stepWaiting has the core take an event by which a stage waits; the caller holds mu.
func (p *Pool) stepWaiting(id uint64, event any) <-chan bool {
	answer := make(chan bool, 1)
	p.waiting[id] = answer
	p.stepLocked(event)
	return answer
}

func (p *Pool) step(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepLocked(event)
}

// stepLocked has the core take an event, and tells those of whom it decides; the caller holds mu.
func (p *Pool) stepLocked(event any) {
	for _, a := range p.core.Step(time.Now(), event) {
		p.waiting[a.ID] <- a.Grant
		delete(p.waiting, a.ID)
	}
}

// lateError is why a stage was dropped: its context's deadline, if that has passed.
func lateError(ctx context.Context) error {
	if ends, ok := ctx.Deadline(); ok && !time.Now().Before(ends) {
		<-ctx.Done() // at once
		return context.Cause(ctx)
	}
	return ErrLate
}

// wait waits until a stage begins.
func (p *Pool) wait(ctx context.Context, id uint64, answer <-chan bool) error {
	select {
	case granted := <-answer:
		if !granted {
			return lateError(ctx)
		}
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
	p.stepLocked(stages.Withdraw{ID: id}) // where it was granted at the same time, too
	return context.Cause(ctx)
}
