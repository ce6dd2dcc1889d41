package stages

import (
	"math"
	"testing"
	"time"
)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func expectVerdicts(t *testing.T, got []Action, want ...Action) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// TestSlotOfAHungClientGoesToAnother, after ten times what its stage takes, and what the client says of it later is ignored.
func TestSlotOfAHungClientGoesToAnother(t *testing.T) {
	c := New(ours(1))
	takes := 200 * time.Millisecond
	expectVerdicts(t, c.Step(at(0), Ask{ID: 1, Client: "far", Takes: takes}), Action{ID: 1, Verdict: Granted})
	expectVerdicts(t, c.Step(at(0), Ask{ID: 2, Takes: takes}))
	expectVerdicts(t, c.Step(at(1.9), Tick{}))
	expectVerdicts(t, c.Step(at(2.1), Tick{}), Action{ID: 1, Verdict: Expired}, Action{ID: 2, Verdict: Granted})
	expectVerdicts(t, c.Step(at(2.2), Done{ID: 1, Took: takes}))
	expectVerdicts(t, c.Step(at(60), Tick{})) // 2 is of no client
	if c.Running() != 1 || c.Waiting() != 0 {
		t.Errorf("%d run and %d wait, want 1 and 0", c.Running(), c.Waiting())
	}
}

func TestClientThatIsGoneHoldsNothing(t *testing.T) {
	c := New(ours(1))
	c.Step(at(0), Ask{ID: 1, Client: "far", Takes: time.Second})
	c.Step(at(0), Ask{ID: 2, Client: "far", Takes: time.Second})
	c.Step(at(0), Ask{ID: 3, Client: "farther", Takes: time.Second})
	expectVerdicts(t, c.Step(at(0), Gone{Client: "far"}), Action{ID: 3, Verdict: Granted})
	if c.Waiting() != 0 {
		t.Errorf("%d wait, want 0", c.Waiting())
	}
}

// TestWhatCannotBeInTimeIsRefusedFirst: before anything is done for it, and with the time after which the like can be. One is let
// wait, as it may be in time when others take less than was thought.
func TestWhatCannotBeInTimeIsRefusedFirst(t *testing.T) {
	c := New(ours(1))
	c.Step(at(0), Ask{ID: 1, Takes: time.Second})
	ask := Ask{ID: 2, Takes: time.Second, Due: at(3), Rest: 1500 * time.Millisecond, First: true}
	expectVerdicts(t, c.Step(at(0), ask))
	ask.ID = 3
	expectVerdicts(t, c.Step(at(.1), ask), Action{ID: 3, Verdict: Refused, RetryAfter: 500 * time.Millisecond})
	ask.ID, ask.Due = 4, at(3.7)
	expectVerdicts(t, c.Step(at(.1), ask))
	ask.ID, ask.Due = 5, at(2.4)
	expectVerdicts(t, c.Step(at(.1), ask), Action{ID: 5, Verdict: Refused}) // not even alone
	expectVerdicts(t, c.Step(at(1), Done{ID: 1, Took: time.Second}), Action{ID: 2, Verdict: Dropped}, Action{ID: 4, Verdict: Granted})
}

// TestStageIsDroppedWhenItCanBeginTooLate, not only when its time has passed.
func TestStageIsDroppedWhenItCanBeginTooLate(t *testing.T) {
	c := New(ours(1))
	c.Step(at(0), Ask{ID: 1, Takes: time.Second})
	c.Step(at(0), Ask{ID: 2, Takes: time.Second, Due: at(3.5), Rest: time.Second})
	expectVerdicts(t, c.Step(at(1.4), Tick{}))
	expectVerdicts(t, c.Step(at(1.6), Tick{}), Action{ID: 2, Verdict: Dropped})
}

// TestWrongProfileDoesNotBarForEver: a kind that once took very long is tried again.
func TestWrongProfileDoesNotBarForEver(t *testing.T) {
	c := New(ours(1))
	takes := 10 * time.Millisecond
	for id := range uint64(100) {
		c.Step(start, Ask{ID: id, Takes: takes})
		c.Step(start, Done{ID: id, Took: 100 * takes})
	}
	for id := uint64(1000); id < 2000; id++ {
		got := c.Step(start, Ask{ID: id, Takes: takes, Due: start.Add(5 * takes), First: true})
		if len(got) == 1 && got[0].Verdict == Granted {
			return
		}
	}
	t.Error("it never begins")
}

// TestPauseOfTheMachineIsSoonForgotten: a frame that once took a minute does not make the next ones late beforehand.
func TestPauseOfTheMachineIsSoonForgotten(t *testing.T) {
	c := New(ours(2))
	frame := Ask{Kind: "frame", Takes: 6 * time.Millisecond, Due: at(100), First: true}
	c.Step(at(0), frame)
	c.Step(at(60), Done{Took: time.Minute})
	frame.ID, frame.Due = 1, at(60.1)
	expectVerdicts(t, c.Step(at(60), frame), Action{ID: 1, Verdict: Granted})
}

// TestUrgentLongStagesMayHaveAllSlots: what has time waits behind another long one.
func TestUrgentLongStagesMayHaveAllSlots(t *testing.T) {
	c := New(ours(2))
	c.Step(at(0), Ask{ID: 1, Takes: 3 * time.Second, Due: at(6)})
	expectVerdicts(t, c.Step(at(0), Ask{ID: 2, Takes: 3 * time.Second, Due: at(15.5)}))
	expectVerdicts(t, c.Step(at(0), Ask{ID: 3, Takes: 3 * time.Second, Due: at(14.5)}), Action{ID: 3, Verdict: Granted})
}

// TestShortStageIsNotRefusedBehindLongOnes, as it has a slot beside theirs.
func TestShortStageIsNotRefusedBehindLongOnes(t *testing.T) {
	c := New(ours(1))
	for id := range uint64(5) {
		c.Step(at(0), Ask{ID: id, Takes: 200 * time.Millisecond, Due: at(5)})
	}
	expectVerdicts(t, c.Step(at(0), Ask{ID: 10, Takes: 6 * time.Millisecond, Due: at(.1), First: true}), Action{ID: 10, Verdict: Granted})
}

// TestAbsurdFiguresAreBounded: what is said to take for ever, or less than nothing, is no short stage for it.
func TestAbsurdFiguresAreBounded(t *testing.T) {
	for _, takes := range []time.Duration{math.MaxInt64 - 1, math.MinInt64} {
		c := New(ours(2))
		for id := range uint64(300) {
			c.Step(start, Ask{ID: id, Takes: takes, Yields: true})
			c.Step(start, Done{ID: id, Took: math.MaxInt64})
			c.Step(start, Ask{ID: id, Takes: time.Second, Yields: true})
			c.Step(start, Done{ID: id, Took: math.MaxInt64})
		}
		for id := range uint64(10) {
			c.Step(start, Ask{ID: id, Takes: max(time.Second, takes), Yields: true, Due: start.Add(math.MaxInt64)})
		}
		if c.Running() > 2 {
			t.Errorf("of stages of %v %d run in 2 slots", takes, c.Running())
		}
	}
}
