package generations

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/search"
)

// Run is a search to carry out.
type Run struct {
	Plan    *merging.Plan
	Options search.Options
	Open    func(context.Context) (merging.Session, error)
	Clock   func() time.Duration // of work, from any beginning
	Tell    func(Event)          // what happens
}

// runner is a Run under way.
type runner struct {
	*Run
	dir     *Dir
	search  *search.Search
	session merging.Session
	base    time.Duration // of the clock, when the merge began, less what was killed
	now     state
}

// Carry carries a merge on to its end, from where another process left it.
func (d *Dir) Carry(ctx context.Context, run *Run) (*search.Done, error) {
	r := &runner{Run: run, dir: d, now: state{Events: 1, Slots: map[search.Slot]snapshot{}}}
	last := d.events[len(d.events)-1]
	spent := duration(last.At) >= run.Options.Budget
	if last.Event == Ended && (spent || last.Reason != search.OutOfBudget) {
		return &search.Done{Reason: last.Reason, Refused: last.Refused}, nil
	}
	if spent {
		return &search.Done{Reason: search.OutOfBudget}, nil
	}
	actions, err := r.resumeRun(ctx)
	if r.session != nil {
		defer r.session.Close()
	}
	for err == nil {
		var event search.Event
		for _, a := range actions {
			if done, ok := a.(*search.Done); ok && err == nil {
				return done, r.logEvent(Event{Event: Ended, Reason: done.Reason, Refused: done.Refused})
			}
			if err == nil {
				event, err = r.performAction(ctx, a)
			}
		}
		if err == nil {
			actions = r.search.Step(duration(d.events[len(d.events)-1].At), event)
		}
	}
	return nil, err
}

// resumeRun goes to where the last state was kept, and gives the actions from there on.
func (r *runner) resumeRun(ctx context.Context) ([]search.Action, error) {
	kept, err := r.dir.readState()
	if err != nil {
		return nil, err
	}
	if kept != nil {
		r.now = *kept
	}
	if err := r.dir.truncateEvents(r.now.Events); err != nil {
		return nil, err
	}
	r.search = search.New(r.Plan, r.Options)
	actions, epochs := r.search.Begin(), 0.
	for _, e := range r.dir.events {
		if epochs += e.Epochs; e.Event == Tied {
			epochs = 0
		}
		if event := r.dir.searchEvent(e); event != nil {
			if !asks(actions, event) {
				return nil, fmt.Errorf("%s is of another version of this program: remove %s and begin anew", r.dir.log.Name(), r.dir.path)
			}
			actions = r.search.Step(duration(e.At), event)
		}
	}
	at := r.dir.events[len(r.dir.events)-1].At
	r.base = r.Clock() - duration(at)
	if kept != nil {
		r.Tell(Event{At: at, Event: Resumed, Epochs: epochs})
	}
	if r.session, err = r.Open(ctx); err != nil {
		return nil, err
	}
	if kept != nil {
		err = r.restoreWeights(r.now.Session)
	}
	return actions, err
}

// asks says whether the last of some actions asks for an event.
func asks(actions []search.Action, e search.Event) bool {
	switch a := actions[len(actions)-1].(type) {
	case *search.Evaluate:
		scored, ok := e.(*search.Scored)
		return ok && scored.Model == a.Model
	case *search.Train:
		_, ok := e.(*search.Trained)
		return ok
	}
	return false
}

// logEvent keeps what happened now, and tells it.
func (r *runner) logEvent(e Event) error {
	e.At = seconds(r.Clock() - r.base)
	r.Tell(e)
	return r.dir.appendEvent(e)
}

func (r *runner) restoreWeights(s snapshot) error {
	if err := r.session.Tie(s.Ties); err != nil {
		return err
	}
	r.now.Session = s
	return r.session.Restore(s.Of)
}

// saveSnapshot is what the session is now.
func (r *runner) saveSnapshot() (s snapshot, err error) {
	s = snapshot{Ties: r.now.Session.Ties}
	s.Of, err = r.session.Snapshot()
	return s, err
}

// performAction does what the search wants, and gives what came of it if it asks.
func (r *runner) performAction(ctx context.Context, a search.Action) (event search.Event, err error) {
	switch a := a.(type) {
	case *search.Tie:
		r.now.Session.Ties = a.Ties
		if err = r.session.Tie(a.Ties); err == nil && a.Attempt > 0 {
			err = r.logEvent(Event{Event: Tied, Attempt: a.Attempt, Layers: len(a.Ties), Saved: a.Saved})
		}
	case *search.Keep:
		r.now.Slots[a.Slot], err = r.saveSnapshot()
	case *search.Return:
		err = r.restoreWeights(r.now.Slots[a.Slot])
	case *search.Ship:
		err = r.shipGeneration(ctx, a)
	case *search.Train:
		return r.trainPart(ctx, a)
	case *search.Evaluate:
		score, err := r.session.Evaluate(ctx, a.Model, merging.HeldOut)
		if err != nil {
			return nil, err
		}
		e := Event{Event: Scored, Model: r.dir.inputs.Models[a.Model].Name, Score: scoreOf(score)}
		return r.dir.searchEvent(e), r.logEvent(e)
	}
	return nil, err
}

// trainPart trains, and keeps the state before, from which it can be done again.
func (r *runner) trainPart(ctx context.Context, a *search.Train) (event search.Event, err error) {
	if r.now.Session, err = r.saveSnapshot(); err != nil {
		return nil, err
	}
	r.now.Events = len(r.dir.events)
	if err := r.dir.writeState(&r.now); err != nil {
		return nil, err
	}
	r.Tell(Event{At: seconds(r.Clock() - r.base), Event: Training, Epochs: a.Epochs, Rate: a.Rate})
	losses, err := r.session.Train(ctx, a.Models, a.Epochs, a.Rate)
	if err != nil {
		return nil, err
	}
	for i := range losses {
		losses[i] = finite(losses[i], math.MaxFloat64)
	}
	e := Event{Event: Trained, Epochs: a.Epochs, Rate: a.Rate, Losses: losses}
	return r.dir.searchEvent(e), r.logEvent(e)
}

func (r *runner) shipGeneration(ctx context.Context, a *search.Ship) error {
	m, files, err := r.dir.buildGeneration(ctx, r.Plan, r.session, a)
	if err != nil {
		return err
	}
	if err := r.dir.writeGeneration(m, files); err != nil {
		return err
	}
	return r.logEvent(Event{Event: Shipped, Attempt: a.Attempt, Saved: m.SharedBytes, Number: &m.Generation})
}
