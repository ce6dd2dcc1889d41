package processors

import (
	"context"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// seat is where a request's slot is known to all that it calls. One goroutine uses it at a time.
type seat struct {
	pool  *Pool // nil: it has no slot
	of    *waiter
	began time.Time
	ends  time.Time // about
}

type seatKey struct{}

// WithSeat makes a context by which what is called within Do knows of its slot: Do there asks for no second one, and Yield
// lends it to others.
func WithSeat(ctx context.Context) context.Context {
	return context.WithValue(ctx, seatKey{}, new(seat))
}

func seatOf(ctx context.Context) *seat {
	at, _ := ctx.Value(seatKey{}).(*seat)
	return at
}

// Yield lets a stage go before the rest of this one if its turn has come: call it where the work can be interrupted. When it fails,
// as Do does, the slot is lost.
func Yield(ctx context.Context) error {
	at := seatOf(ctx)
	if at == nil || at.pool == nil || !at.pool.Wanting() {
		return nil
	}
	p := at.pool
	left := max(quick, time.Until(at.ends))
	p.mu.Lock()
	at.of.ask.Takes = left
	p.waitForSlot(at.of, stages.Yield{ID: at.of.ask.ID, Left: left})
	p.mu.Unlock()
	yielded := time.Now()
	if err := p.awaitGrant(ctx, at.of); err != nil {
		at.pool = nil
		return err
	}
	away := time.Since(yielded)
	at.began, at.ends = at.began.Add(away), at.ends.Add(away)
	return nil
}

// takeSeat waits for a slot.
func (at *seat) takeSeat(ctx context.Context, p *Pool, s Stage) error {
	w := p.askForSlot(s.ask(ctx))
	if err := p.awaitGrant(ctx, w); err != nil {
		return err
	}
	now := time.Now()
	*at = seat{pool: p, of: w, began: now, ends: now.Add(s.Takes)}
	return nil
}

// leaveSeat gives the slot back, if it was not lost, and tells the order what the stage took, if that is to be learnt from: one that failed may
// have done next to nothing.
func (at *seat) leaveSeat(taught bool, took time.Duration) {
	switch {
	case at.pool == nil:
	case taught:
		at.pool.done(at.of, took)
	default:
		at.pool.withdrawStage(at.of)
	}
	at.pool = nil
}
