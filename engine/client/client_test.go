package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func welcome(epoch uint64) *wire.Welcome { return clienttest.Welcome(epoch, 300) }

var token = clienttest.Token

// newClient makes a Client whose scheduler has not said Welcome. What cfg leaves out is set.
func newClient(cfg Config, answer func(*wire.Submit) []*wire.Result) (*Client, *clienttest.Scheduler) {
	cfg.Name = "front-1"
	cfg.MaxJobs = max(cfg.MaxJobs, 2)
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = time.Second
	}
	cfg.AwayTimeout = time.Minute
	s := clienttest.NewScheduler(answer)
	c := New(cfg, s, zap.NewNop())
	s.Deliver = c.Deliver
	return c, s
}

// welcomed makes one whose scheduler has, under epoch 1.
func welcomed(answer func(*wire.Submit) []*wire.Result) (*Client, *clienttest.Scheduler) {
	c, s := newClient(Config{}, answer)
	c.Deliver(welcome(1))
	return c, s
}

// asking is a job for three tokens after a prompt of one.
func asking(id engine.TokenID) engine.Job {
	return engine.Job{Model: "demo", Work: &engine.Tokens{IDs: []engine.TokenID{id}, Max: 3, Ask: engine.Ask{Seed: 7}}}
}

// tokens is what a Submit asks.
func tokens(s *wire.Submit) *engine.Tokens { return s.Work.(*engine.Tokens) }

// submit opens a job for each of the prompts, whose Results come to the stream that is returned.
func submit(t *testing.T, c *Client, prompts ...engine.TokenID) ([]*Job, *Results) {
	t.Helper()
	results := NewResults()
	var jobs []*Job
	for i, id := range prompts {
		j, err := c.NewJob(asking(id), time.Now(), results, i)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	if err := c.Submit("", jobs); err != nil {
		t.Fatal(err)
	}
	return jobs, results
}

// texts takes all Results that have come, as the tokens of each of n jobs, and the first error.
func texts(t *testing.T, results *Results, n int) ([]string, *engine.Error) {
	t.Helper()
	out := make([]string, n)
	var failed *engine.Error
	for _, d := range results.takeDeliveries(nil) {
		if d.At.IsZero() {
			t.Errorf("%+v came at no time", d)
		}
		if d.Result.Err != nil {
			failed = d.Result.Err
			continue
		}
		out[d.Index] += string(rune(d.Result.Output.(*engine.TokenOutput).Answer.Token))
	}
	return out, failed
}

func openJobs(c *Client) int {
	open, _ := c.Jobs()
	return open
}

func TestSchedulerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := welcomed(nil)
		_, results := submit(t, c, 'a', 'b')
		first, _ := s.Seen()
		if len(first) != 2 || first[0].Waited != 0 || first[1].ID != first[0].ID+1 || tokens(first[1]).IDs[0] != 'b' {
			t.Fatalf("submitted %+v", first)
		}
		c.Deliver(token(first[0].ID, 0, 'x', engine.FinishNone))
		c.Deliver(token(first[1].ID, 0, 'p', engine.FinishNone))
		c.Deliver(token(first[1].ID, 1, 'q', engine.FinishLength))
		time.Sleep(3 * time.Second)
		c.Deliver(welcome(1)) // a heartbeat: nothing is missing
		c.Deliver(welcome(2)) // a new scheduler: the open job is
		again, _ := s.Seen()
		if len(again) != 3 || again[2].ID != first[0].ID || again[2].Waited != 3*time.Second || tokens(again[2]).Ask.Seed != 7 || tokens(again[2]).Max != 3 {
			t.Fatalf("submitted again: %+v", again[2:])
		}
		c.Deliver(token(first[0].ID, 0, 'x', engine.FinishNone))
		c.Deliver(token(first[0].ID, 1, 'y', engine.FinishLength))
		if got, err := texts(t, results, 2); err != nil || !slices.Equal(got, []string{"xy", "pq"}) {
			t.Errorf("got %q, %v", got, err)
		}
		if open := openJobs(c); open != 0 {
			t.Errorf("%d jobs are still open", open)
		}
	})
}

func TestSubmitWaitsForScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := welcomed(nil)
		s.Fail(errors.New("no connection"))
		_, results := submit(t, c, 'a')
		s.Fail(nil)
		time.Sleep(time.Second)
		c.Deliver(welcome(1))
		submits, _ := s.Seen()
		if len(submits) != 1 || submits[0].Waited != time.Second {
			t.Fatalf("submits %+v", submits)
		}
		c.Deliver(token(submits[0].ID, 0, 'Y', engine.FinishLength))
		if got, err := texts(t, results, 1); err != nil || got[0] != "Y" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestStrayResults(t *testing.T) {
	c, s := welcomed(nil)
	c.Deliver(token(77, 0, 'x', engine.FinishNone))
	c.Deliver(token(78, 0, 'x', engine.FinishLength))
	c.Deliver(&wire.Result{Job: 79, Err: engine.Errorf(engine.CodeInternal, "x")})
	c.Deliver(&wire.Cancel{})
	if _, cancels := s.Seen(); len(cancels) != 1 || cancels[0] != 77 {
		t.Errorf("cancelled %v; only an unknown job that goes on is withdrawn", cancels)
	}
}

// TestLostResult holds that a job whose Result was lost is run again under another id, and not for
// ever.
func TestLostResult(t *testing.T) {
	for _, losses := range []int{1, maxGaps, maxGaps + 1} {
		runs := 0
		c, s := welcomed(func(s *wire.Submit) []*wire.Result {
			runs++
			all := []*wire.Result{token(s.ID, 0, 'x', engine.FinishNone), token(s.ID, 1, 'y', engine.FinishNone), token(s.ID, 2, 'z', engine.FinishLength)}
			if runs <= losses {
				return all[1:2]
			}
			return all
		})
		_, results := submit(t, c, 'a')
		got, err := texts(t, results, 1)
		if losses <= maxGaps && (err != nil || got[0] != "xyz") || losses > maxGaps && (err == nil || err.Code != engine.CodeInternal || got[0] != "") {
			t.Errorf("%d losses: got %q, %v", losses, got, err)
		}
		submits, cancels := s.Seen()
		if len(cancels) != min(losses, maxGaps) || len(submits) != len(cancels)+1 || openJobs(c) != 0 {
			t.Errorf("%d losses: submitted %d times, cancelled %v, %d open", losses, len(submits), cancels, openJobs(c))
		}
		for i, id := range cancels {
			if id != submits[i].ID || submits[i+1].ID == id {
				t.Errorf("%d losses: cancelled %v of %+v", losses, cancels, submits)
			}
		}
	}
}

// TestBrokenConnection holds that the same scheduler gets open jobs again after the connection
// broke, with a Hello before them.
func TestBrokenConnection(t *testing.T) {
	c, s := welcomed(nil)
	submit(t, c, 'a')
	c.Deliver(&wire.Lost{})
	submit(t, c, 'b')
	if submits, _ := s.Seen(); len(submits) != 1 {
		t.Fatalf("submitted into a broken connection: %+v", submits)
	}
	c.Deliver(welcome(1))
	submits, _ := s.Seen()
	if hellos := s.Hellos(); len(submits) != 3 || submits[1].ID != submits[0].ID || tokens(submits[2]).IDs[0] != 'b' || len(hellos) != 2 {
		t.Fatalf("submits %+v, hellos %+v", submits, hellos)
	}
	for _, m := range submits[1:] {
		c.Deliver(token(m.ID, 0, 'x', engine.FinishLength))
	}
	if open := openJobs(c); open != 0 {
		t.Errorf("%d jobs are still open", open)
	}
}

// TestCancel holds that only open jobs are withdrawn, and that nothing comes of them any more.
func TestCancel(t *testing.T) {
	c, s := welcomed(nil)
	jobs, results := submit(t, c, 'a', 'b')
	submits, _ := s.Seen()
	c.Deliver(token(submits[0].ID, 0, 'x', engine.FinishLength))
	c.Cancel(jobs...)
	c.Cancel(jobs...)
	c.Deliver(token(submits[1].ID, 0, 'y', engine.FinishLength))
	if _, cancels := s.Seen(); len(cancels) != 1 || cancels[0] != submits[1].ID {
		t.Errorf("cancelled %v of %+v", cancels, submits)
	}
	if got, err := texts(t, results, 2); err != nil || got[0] != "x" || got[1] != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestJobLimit holds that jobs which would pass the limit are refused together, and counted.
func TestJobLimit(t *testing.T) {
	c, s := welcomed(nil)
	submit(t, c, 'a')
	results := NewResults()
	one, refusal := c.NewJob(asking('b'), time.Now(), results, 0)
	if refusal != nil {
		t.Fatal(refusal)
	}
	err := c.Submit("", []*Job{one, c.Like(one, asking('c').Work.(*engine.Tokens), 1)})
	if err == nil || err.Code != engine.CodeOverloaded || !strings.Contains(err.Message, "jobs are open: your requests hold 1 of the 2 that they may beside 0 of others, and 2 more are asked for") {
		t.Errorf("refused with %v", err)
	}
	if open, refused := c.Jobs(); open != 1 || refused != 2 {
		t.Errorf("%d open, %d refused", open, refused)
	}
	if submits, _ := s.Seen(); len(submits) != 1 {
		t.Errorf("submitted %+v", submits)
	}
}

// TestNext holds that a reader waits for Results, takes all that have come, and ends with its context.
func TestNext(t *testing.T) {
	c, s := welcomed(nil)
	_, results := submit(t, c, 'a', 'b')
	submits, _ := s.Seen()
	c.Deliver(token(submits[1].ID, 0, 'y', engine.FinishLength))
	c.Deliver(token(submits[0].ID, 0, 'x', engine.FinishNone))
	got, err := results.Next(t.Context(), nil)
	if err != nil || len(got) != 2 || got[0].Index != 1 || got[1].Index != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	c.Deliver(token(submits[0].ID, 1, 'z', engine.FinishLength))
	got, err = results.Next(t.Context(), got)
	if err != nil || len(got) != 1 || got[0].Result.Output.(*engine.TokenOutput).Index != 1 {
		t.Errorf("then got %+v, %v", got, err)
	}
	left := errors.New("the client left")
	ctx, leave := context.WithCancelCause(t.Context())
	leave(left)
	if more, err := results.Next(ctx, got); more != nil || !errors.Is(err, left) {
		t.Errorf("got %+v, %v", more, err)
	}
}

// TestAbandon ends the open jobs of one model, once each, and no others.
func TestAbandon(t *testing.T) {
	c, s := welcomed(nil)
	_, results := submit(t, c, 'a', 'b')
	c.Abandon("another", engine.Errorf(engine.CodeUnavailable, "not this one"))
	c.Abandon("demo", engine.Errorf(engine.CodeUnavailable, "it is gone"))
	sent, _ := s.Seen()
	c.Deliver(token(sent[0].ID, 0, 'x', engine.FinishLength))
	ended := results.takeDeliveries(nil)
	if len(ended) != 2 || openJobs(c) != 0 || c.JobsOf("demo") != 0 {
		t.Fatalf("%d Results came, %d jobs are open", len(ended), openJobs(c))
	}
	for i, d := range ended {
		if d.Index != i || d.Result.Job != sent[i].ID || d.Result.Err == nil || d.Result.Err.Message != "it is gone" {
			t.Errorf("job %d: %+v", i, d.Result)
		}
	}
}
