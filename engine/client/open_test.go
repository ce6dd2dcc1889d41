package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client/clienttest"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// goesOn is the work of an open job that has generated so many of ids, and may choose a token of allowed.
func goesOn(generated int, allowed engine.TokenID, ids ...engine.TokenID) *engine.Tokens {
	return &engine.Tokens{IDs: ids, Generated: generated, Max: 1, Open: true, Ask: engine.Ask{Allowed: engine.NewTokenSet(allowed)}}
}

// openJob submits a job that is open behind its first token, and has answered that.
func openJob(t *testing.T) (c *Client, s *clienttest.Scheduler, j *Job, results *Results) {
	t.Helper()
	c, s = welcomed(nil)
	results = NewResults()
	j, err := c.NewJob(engine.Job{Model: "demo", Deadline: time.Second, Work: goesOn(1, 'b', 'a', 'f')}, time.Now(), results, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Submit("", []*Job{j}); err != nil {
		t.Fatal(err)
	}
	submits, _ := s.Seen()
	c.Deliver(clienttest.Token(submits[0].ID, 1, 'b', engine.FinishNone))
	return c, s, j, results
}

// TestOpenJobSendsWhatIsNew holds that a job goes on under its id with the tokens that the scheduler has not, whatever
// else is open, and can be cancelled.
func TestOpenJobSendsWhatIsNew(t *testing.T) {
	c, s, j, results := openJob(t)
	submit(t, c, 'x') // as many as may be open
	c.Next(j, goesOn(4, 'd', 'a', 'f', 'b', 'g', 'h'))
	submits, _ := s.Seen()
	nexts := s.Nexts()
	if open, _ := c.Jobs(); open != 2 || len(submits) != 2 || len(nexts) != 1 {
		t.Fatalf("%d open, submitted %+v, then %+v", open, submits, nexts)
	}
	if m := nexts[0]; m.Job != submits[0].ID || m.Generated != 4 || string(rune(m.Tokens[0]))+string(rune(m.Tokens[1])) != "gh" || m.Allowed.Last() != 'd' || !m.Open {
		t.Errorf("it goes on with %+v", m)
	}
	c.Deliver(clienttest.Token(submits[0].ID, 4, 'd', engine.FinishNone))
	got, err := results.Next(t.Context(), nil)
	if err != nil || len(got) != 2 || got[1].Index != 3 || got[1].Result.Output.(*engine.TokenOutput).Index != 4 {
		t.Errorf("results %+v, %v", got, err)
	}
	c.Cancel(j)
	c.Next(j, goesOn(5, 'e', 'a', 'f', 'b', 'g', 'h', 'd'))
	if open, _ := c.Jobs(); open != 1 || len(s.Nexts()) != 1 {
		t.Errorf("%d open, it goes on: %+v", open, s.Nexts())
	}
}

// TestOpenJobIsSubmittedWhole holds that a scheduler that has lost the job, or to which it could not be told how it goes on,
// is sent all of it, without the deadline of the first token, and that what it repeats is dropped.
func TestOpenJobIsSubmittedWhole(t *testing.T) {
	for _, lost := range []struct {
		name string
		lose func(c *Client, s *clienttest.Scheduler, goOn func())
	}{
		{"scheduler", func(c *Client, _ *clienttest.Scheduler, goOn func()) { goOn(); c.Deliver(welcome(2)) }},
		{"connection", func(c *Client, _ *clienttest.Scheduler, goOn func()) {
			c.Deliver(&wire.Lost{})
			goOn()
			c.Deliver(welcome(1))
		}},
		{"message", func(c *Client, s *clienttest.Scheduler, goOn func()) {
			s.Fail(errors.New("the queue is full"))
			goOn()
			s.Fail(nil)
			c.Deliver(welcome(1))
		}},
		{"result", func(c *Client, s *clienttest.Scheduler, goOn func()) {
			goOn()
			submits, _ := s.Seen()
			c.Deliver(clienttest.Token(submits[0].ID, 4, 'z', engine.FinishNone)) // token 3 never came
		}},
	} {
		t.Run(lost.name, func(t *testing.T) {
			c, s, j, results := openJob(t)
			lost.lose(c, s, func() { c.Next(j, goesOn(3, 'd', 'a', 'f', 'b', 'g')) })
			submits, _ := s.Seen()
			last := submits[len(submits)-1]
			if work := tokens(last); len(submits) != 2 || !slices.Equal(work.IDs, []engine.TokenID{'a', 'f', 'b', 'g'}) || work.Generated != 3 || work.Ask.Allowed.Last() != 'd' || last.Deadline != 0 || last.Waited <= 0 {
				t.Fatalf("submitted %+v", submits)
			}
			c.Deliver(clienttest.Token(last.ID, 1, 'b', engine.FinishNone)) // what was on its way from the one before
			c.Deliver(clienttest.Token(last.ID, 3, 'd', engine.FinishLength))
			got, err := results.Next(t.Context(), nil)
			if err != nil || len(got) != 2 || got[1].Result.Output.(*engine.TokenOutput).Answer.Token != 'd' {
				t.Errorf("results %+v, %v", got, err)
			}
			if open, _ := c.Jobs(); open != 0 {
				t.Errorf("%d open", open)
			}
		})
	}
}
