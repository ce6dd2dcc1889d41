package request

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/budget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lengthOf answers a prompt with its length as a token.
func lengthOf(s *wire.Submit) []*wire.Result {
	n := len(s.Work.(*engine.Tokens).IDs)
	r := clienttest.Token(s.ID, 0, engine.TokenID(n), engine.FinishLength)
	r.Timing = engine.Timing{Queued: time.Duration(n), Running: time.Duration(2 * n)}
	return []*wire.Result{r}
}

// newCall makes one to "demo" of a pool that answers so.
func newCall(answer func(*wire.Submit) []*wire.Result) (*Call, *client.Client, *clienttest.Scheduler) {
	s := clienttest.NewScheduler(answer)
	pool := client.New(client.Config{}, s, zap.NewNop())
	s.Deliver = pool.Deliver
	pool.Deliver(clienttest.Welcome(1, 256))
	return New(pool, Origin{Model: "demo", Arrived: time.Now()}), pool, s
}

func prompt(n int) engine.Job {
	return engine.Job{Work: &engine.Tokens{IDs: make([]engine.TokenID, n), Max: 1}}
}

func answerOf(d client.Delivery) int {
	return int(d.Result.Output.(*engine.TokenOutput).Answer.Token)
}

// TestLaterPassesAreMadeOfWhatEarlierOnesFound runs a request whose second pass is made of the results of its first one, and asks another
// model.
func TestLaterPassesAreMadeOfWhatEarlierOnesFound(t *testing.T) {
	c, pool, s := newCall(lengthOf)
	c.Record.Tokens = &Tokens{}
	defer c.Close()
	err := c.AdmitTokens(t.Context(), func(limits *wire.TokenLimits) error {
		if limits.VocabSize != 256 {
			t.Errorf("limits %+v", limits)
		}
		return errors.Join(c.Add(prompt(3)), c.Add(prompt(5)))
	})
	if err == nil {
		err = c.Submit()
	}
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]int{}
	accept := func(d client.Delivery) error {
		found[d.Index] = answerOf(d)
		return nil
	}
	if err := c.Wait(t.Context(), accept); err != nil {
		t.Fatal(err)
	}
	again := prompt(found[0] + found[1])
	again.Model = "other"
	if err := errors.Join(c.Add(again), c.Add(prompt(1))); err != nil {
		t.Fatal(err)
	}
	c.Together()
	if err := c.Submit(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context(), accept); err != nil {
		t.Fatal(err)
	}
	if len(found) != 4 || found[2] != 8 {
		t.Errorf("found %v, want 8 of the second pass", found)
	}
	if r := c.Record; r.Jobs != 4 || r.Queued != 8 || r.Running != 16 || r.Tokens.Prefilled != 16 || r.Tokens.First.IsZero() {
		t.Errorf("record %+v, tokens %+v", r, r.Tokens)
	}
	submits, _ := s.Seen()
	if submits[0].Model != "demo" || submits[2].Model != "other" {
		t.Errorf("asked %s, then %s", submits[0].Model, submits[2].Model)
	}
	if submits[1].Request != 0 || submits[2].Request != submits[2].ID || submits[3].Request != submits[2].ID {
		t.Errorf("jobs of request %v, %v and %v; want the last two together", submits[1].Request, submits[2].Request, submits[3].Request)
	}
	if open, _ := pool.Jobs(); open != 0 || !c.Done() {
		t.Errorf("%d jobs are open", open)
	}
}

// TestCloseWithdrawsWhatIsNotDone: of jobs, those that were submitted; of budgets, all that is held.
func TestCloseWithdrawsWhatIsNotDone(t *testing.T) {
	c, pool, s := newCall(nil)
	numbers, bytes := budget.New(100), budget.New(1000)
	for _, full := range []*budget.Full{c.Hold(numbers, 10, 4), c.Hold(bytes, 500, 1), c.Hold(numbers, 20, 4)} {
		if full != nil {
			t.Fatal(full)
		}
	}
	if full := c.Hold(numbers, 71, 4); full == nil || numbers.Held() != 30 {
		t.Errorf("71 beside 30 of 100: %v, %d are held", full, numbers.Held())
	}
	c.Release(bytes, 200)
	if c.Record.Memory != 30*4+500 || bytes.Held() != 300 {
		t.Errorf("%d bytes, %d of them held", c.Record.Memory, bytes.Held())
	}
	if err := errors.Join(c.Add(prompt(3)), c.Add(prompt(4)), c.Submit(), c.Add(prompt(5))); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancelCause(t.Context())
	left := errors.New("left")
	leave(left)
	if err := c.Wait(gone, nil); !errors.Is(err, left) {
		t.Errorf("waited: %v", err)
	}
	for range 2 {
		c.Close()
	}
	if open, _ := pool.Jobs(); open != 0 || numbers.Held() != 0 || bytes.Held() != 0 {
		t.Errorf("%d jobs are open, %d and %d are held", open, numbers.Held(), bytes.Held())
	}
	if submits, cancels := s.Seen(); len(submits) != 2 || len(cancels) != 2 {
		t.Errorf("%d jobs were submitted, %d withdrawn; the third was not submitted", len(submits), len(cancels))
	}
}

// TestFailedJobsAreTimedWhereNoTokenIsWanted holds what is told of a job that failed.
func TestFailedJobsAreTimedWhereNoTokenIsWanted(t *testing.T) {
	failed := engine.Errorf(engine.CodeDeadline, "late")
	for _, tokens := range []*Tokens{nil, {}} {
		c, _, _ := newCall(func(s *wire.Submit) []*wire.Result {
			return []*wire.Result{{Job: s.ID, Err: failed, Timing: engine.Timing{Queued: 7}}}
		})
		c.Record.Tokens = tokens
		if err := errors.Join(c.Add(prompt(3)), c.Submit()); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context(), nil); !errors.Is(err, failed) {
			t.Errorf("waited: %v", err)
		}
		c.Close()
		if timed := c.Record.Queued == 7; timed != (tokens == nil) {
			t.Errorf("queued for %v with tokens %v", c.Record.Queued, tokens)
		}
	}
}

// TestDeadlineEndsContexts: what waits for a request with a deadline is told that it has passed.
func TestDeadlineEndsContexts(t *testing.T) {
	c, _, _ := newCall(nil)
	if ctx, cancel := c.LimitTime(t.Context()); ctx != t.Context() {
		cancel()
		t.Error("a request without a deadline has another context")
	}
	c.Arrived, c.Deadline = time.Now().Add(-time.Hour), time.Minute
	ctx, cancel := c.LimitTime(t.Context())
	defer cancel()
	var late *engine.Error
	if err := c.AddTensors(engine.Job{}, nil); !errors.As(err, &late) || late.Code != engine.CodeDeadline {
		t.Errorf("a job behind the deadline: %v", err)
	}
	if cause := context.Cause(ctx); !errors.As(cause, &late) || late.Message != "the deadline of 1m0s has passed" {
		t.Errorf("the context ended for %v", cause)
	}
}
