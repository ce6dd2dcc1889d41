package request

import (
	"context"
	"errors"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// PlanTensors tells the pool, before anything is done for it, of a job of so many units of a model that will be submitted, and
// returns what it takes there. A request that cannot be in time, as the devices are with what they were asked for before, ends
// here: nothing was done for it in vain.
func (c *Call) PlanTensors(model string, units float64) (takes time.Duration, err error) {
	m := c.pool.State().Models[model]
	if m == nil {
		return 0, nil
	}
	p := c.pool.Plan(m, units)
	c.plans = append(c.plans, p)
	return p.Cost, c.checkWait(p.Wait, p.Cost)
}

// checkWait refuses the request if it cannot be in time behind what devices do for others first.
func (c *Call) checkWait(wait, cost time.Duration) error {
	if late := wait + cost + c.Answering - time.Until(c.Arrived.Add(c.Deadline)); c.Deadline > 0 && late > 0 && wait > 0 {
		return c.tooLateError(late)
	}
	return nil
}

// beginPlans looks again at what devices have to do before the first thing is done for the request: since it was planned passes may
// have become slower, as they share processors with others' stages.
func (c *Call) beginPlans() error {
	for _, p := range c.plans {
		if err := c.checkWait(p.Begin()); err != nil {
			return err
		}
	}
	c.worked = true
	return nil
}

func (c *Call) endPlans() {
	for _, p := range c.plans {
		p.End()
	}
	c.plans = nil
}

// RunStage has a processor do f for the request when its turn has come, so that what comes after it can be done by the request's
// deadline, too: s.Rest and the Answering. Its own errors are those of Call, and why ctx has ended.
func (c *Call) RunStage(ctx context.Context, pool *processors.Pool, s processors.Stage, f func() error) error {
	s.Came, s.Tenant = c.Arrived, c.Holder
	if c.Deadline > 0 {
		s.Due, s.Rest, s.First = c.Arrived.Add(c.Deadline), s.Rest+c.Answering, !c.worked
	}
	asked := time.Now()
	waited, err := pool.Do(ctx, s, func() error {
		if !c.worked {
			if err := c.beginPlans(); err != nil {
				return err
			}
		}
		return f()
	})
	c.Record.noteStage(Stage{s.Kind, asked, time.Now(), waited})
	var late *processors.LateError
	switch {
	case !errors.As(err, &late):
		return err
	case late.RetryAfter > 0:
		return c.tooLateError(late.RetryAfter)
	}
	return c.lateError()
}

// tooLateError refuses what the like of may be in time later.
func (c *Call) tooLateError(retryAfter time.Duration) error {
	err := engine.Errorf(engine.CodeOverloaded, "the deadline of %v is too soon, as others wait for processors and devices; come back later, or give it more time", c.Deadline)
	err.RetryAfter = retryAfter
	return err
}
