package stages

import (
	"slices"
	"testing"
	"time"
)

var start = time.Unix(1000, 0)

func ours(slots int) Parameters { return Parameters{Slots: slots, Policy: OnTime, Express: true} }

func granted(actions []Action) (ids []uint64) {
	for _, a := range actions {
		if a.Verdict == Granted {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// play has stages wait behind one that fills the slots, and returns the order in which they run one after the other.
func play(t *testing.T, asks ...Ask) (order []uint64) {
	t.Helper()
	c := New(ours(1))
	c.Step(start, Ask{ID: 99, Takes: 100 * time.Millisecond})
	for _, a := range asks {
		if got := c.Step(start, a); len(got) != 0 {
			t.Fatalf("beside one that has the slot: %v", got)
		}
	}
	now, next := start.Add(100*time.Millisecond), Done{ID: 99, Took: 100 * time.Millisecond}
	for {
		got := granted(c.Step(now, next))
		if len(got) == 0 {
			return order
		}
		order = append(order, got[0])
		i := slices.IndexFunc(asks, func(a Ask) bool { return a.ID == got[0] })
		now, next = now.Add(asks[i].Takes), Done{ID: got[0], Took: asks[i].Takes}
	}
}

func TestOnTimeStagesGoByDeadlineAndLateOnesAfter(t *testing.T) {
	ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	got := play(t,
		Ask{ID: 1, Takes: 50 * time.Millisecond, Due: ms(300)},
		Ask{ID: 2, Takes: 240 * time.Millisecond, Due: ms(5000)},
		Ask{ID: 3, Takes: 60 * time.Millisecond, Due: ms(200)},
		Ask{ID: 4, Takes: 220 * time.Millisecond, Due: ms(310)}, // would make 1 late
	)
	if want := []uint64{3, 1, 2}; !slices.Equal(got, want) { // 4 is dropped, as its time passes
		t.Errorf("order %v, want %v", got, want)
	}
}

// TestFirstStagesAreSurelyInTime: beside others that have a deadline one begins only if it is nine times of ten in time, and the last
// of them if it is on average.
func TestFirstStagesAreSurelyInTime(t *testing.T) {
	c := New(ours(1))
	now, ask := start, Ask{ID: 1, Kind: "k", Takes: 100 * time.Millisecond}
	for i := range 200 { // they take 50 or 150 ms
		c.Step(now, ask)
		c.Step(now, Done{ID: 1, Took: time.Duration(50+i%2*100) * time.Millisecond})
	}
	c.Step(now, Ask{ID: 2, Takes: time.Millisecond})
	ask.First, ask.Due = true, now.Add(130*time.Millisecond)
	ask.ID = 3
	if got := c.Step(now, ask); len(got) != 0 {
		t.Errorf("alone: %v, want that it waits", got)
	}
	ask.ID = 4
	if got := c.Step(now, ask); len(got) != 1 || got[0].ID != 4 || got[0].Verdict != Refused {
		t.Errorf("beside another: %v, want a refusal", got)
	}
	if got := granted(c.Step(now, Done{ID: 2, Took: time.Millisecond})); !slices.Equal(got, []uint64{3}) {
		t.Errorf("then %v began, want 3", got)
	}
}

func TestShortStagesGoFirstAndNoneWaitsForEver(t *testing.T) {
	c := New(ours(1))
	c.Step(start, Ask{ID: 1, Takes: 100 * time.Millisecond})
	c.Step(start, Ask{ID: 2, Takes: 200 * time.Millisecond})
	now, running := start, uint64(1)
	for id := uint64(3); id < 20; id++ {
		c.Step(now, Ask{ID: id, Takes: 50 * time.Millisecond})
		now = now.Add(50 * time.Millisecond)
		got := granted(c.Step(now, Done{ID: running}))
		if len(got) != 1 {
			t.Fatalf("got %v, want one stage", got)
		}
		if running = got[0]; running == 2 {
			if id < 5 {
				t.Errorf("the long one went before %d that came at about its time", id)
			}
			return
		}
	}
	t.Error("the long one waits for all that are shorter")
}

func TestLongStagesLeaveASlot(t *testing.T) {
	c := New(ours(2))
	if got := granted(c.Step(start, Ask{ID: 1, Takes: time.Second})); len(got) != 1 {
		t.Fatal("the first does not begin")
	}
	if got := granted(c.Step(start, Ask{ID: 2, Takes: time.Second})); len(got) != 0 {
		t.Error("long stages have all slots")
	}
	if got := granted(c.Step(start, Ask{ID: 3, Takes: 100 * time.Millisecond})); !slices.Equal(got, []uint64{3}) {
		t.Error("one of medium length does not begin beside a long one")
	}
	if got := granted(c.Step(start, Ask{ID: 4, Takes: 100 * time.Millisecond})); len(got) != 0 {
		t.Error("three begin in two slots")
	}
	if got := granted(c.Step(start, Ask{ID: 5, Takes: 5 * time.Millisecond})); !slices.Equal(got, []uint64{5}) {
		t.Error("a short one waits though it may have a slot more")
	}
	if got := granted(c.Step(start, Ask{ID: 6, Takes: 5 * time.Millisecond})); len(got) != 0 {
		t.Error("short ones have two slots more")
	}
}

func TestThoseWithoutDeadlineHaveTheirShare(t *testing.T) {
	c := New(ours(1))
	c.Step(start, Ask{ID: 0, Takes: 30 * time.Millisecond})
	c.Step(start, Ask{ID: 1, Takes: 30 * time.Millisecond}) // has no deadline
	now, running := start, uint64(0)
	for id := uint64(2); id < 20; id++ {
		c.Step(now, Ask{ID: id, Takes: 30 * time.Millisecond, Due: now.Add(time.Second)})
		now = now.Add(30 * time.Millisecond)
		if running = granted(c.Step(now, Done{ID: running, Took: 30 * time.Millisecond}))[0]; running == 1 {
			return
		}
	}
	t.Error("with deadlines before it all the time it never begins")
}

func TestYieldLetsAnotherGoFirst(t *testing.T) {
	c := New(ours(1))
	c.Step(start, Ask{ID: 1, Takes: 10 * time.Second})
	if got := c.Step(start.Add(time.Second), Yield{ID: 1, Left: 9 * time.Second}); !slices.Equal(granted(got), []uint64{1}) {
		t.Fatalf("alone it does not go on: %v", got)
	}
	c.Step(start.Add(time.Second), Ask{ID: 2, Takes: 100 * time.Millisecond})
	if got := c.Step(start.Add(2*time.Second), Yield{ID: 1, Left: 8 * time.Second}); !slices.Equal(granted(got), []uint64{2}) {
		t.Fatalf("the shorter one does not go first: %v", got)
	}
	if got := c.Step(start.Add(3*time.Second), Done{ID: 2}); !slices.Equal(granted(got), []uint64{1}) {
		t.Errorf("it does not go on behind it: %v", got)
	}
}

// TestWhatStagesTakeIsLearnt: a kind that takes ten times what its askers say is long, in time.
func TestWhatStagesTakeIsLearnt(t *testing.T) {
	c := New(ours(2))
	for id := range uint64(1000) {
		c.Step(start, Ask{ID: id, Kind: "slow", Takes: 50 * time.Millisecond})
		c.Step(start, Done{ID: id, Took: 500 * time.Millisecond})
	}
	c.Step(start, Ask{ID: 2000, Kind: "slow", Takes: 50 * time.Millisecond})
	if got := granted(c.Step(start, Ask{ID: 2001, Kind: "slow", Takes: 50 * time.Millisecond})); len(got) != 0 {
		t.Error("two have all slots")
	}
}

func BenchmarkStep(b *testing.B) {
	b.Run("of one tenant", func(b *testing.B) { benchmarkStep(b, 1) })
	b.Run("of many", func(b *testing.B) { benchmarkStep(b, 16) })
}

func benchmarkStep(b *testing.B, tenants uint64) {
	const waiting = 300
	c := New(ours(2))
	ask := func(id uint64, now time.Time) Ask {
		return Ask{
			ID: id, Kind: "k", Tenant: string(rune('a' + id%tenants)), Takes: time.Duration(30+id%100) * time.Millisecond,
			Due: now.Add(time.Duration(1+id%20) * time.Second),
		}
	}
	now := start
	next := uint64(0)
	for ; next < waiting; next++ {
		c.Step(now, ask(next, now))
	}
	for b.Loop() {
		now = now.Add(time.Microsecond)
		c.Step(now, ask(next, now))
		next++
		for _, s := range c.runs { // one ends
			c.Step(now, Done{ID: s.ID, Took: 40 * time.Millisecond})
			break
		}
	}
}

// TestWhatCannotBeInterruptedGoesBesideTheSlots, one at a time.
func TestWhatCannotBeInterruptedGoesBesideTheSlots(t *testing.T) {
	c := New(ours(1))
	if got := granted(c.Step(start, Ask{ID: 1, Takes: 5 * time.Second, Apart: true})); len(got) != 1 {
		t.Fatal("it does not begin")
	}
	if got := granted(c.Step(start, Ask{ID: 2, Takes: time.Second})); len(got) != 1 {
		t.Error("the slot is not free beside it")
	}
	if got := granted(c.Step(start, Ask{ID: 3, Takes: 5 * time.Second, Apart: true})); len(got) != 0 {
		t.Error("two go beside the slots")
	}
	if got := granted(c.Step(start, Done{ID: 1})); !slices.Equal(got, []uint64{3}) {
		t.Errorf("when it ends %v begins, want the next such", got)
	}
}

// TestDeadlinesHoldUpNoOthers: whoever floods with stages that have deadlines gets half of the slots' time while others wait.
func TestDeadlinesHoldUpNoOthers(t *testing.T) {
	const takes = 50 * time.Millisecond
	c := New(ours(1))
	now, next, running := start, uint64(0), uint64(0)
	ask := func(due time.Time) uint64 {
		next++
		c.Step(now, Ask{ID: next, Takes: takes, Due: due})
		return next
	}
	running = ask(now.Add(time.Second))
	var hurried, others int
	plain := map[uint64]bool{}
	for range 200 {
		ask(now.Add(10 * time.Second))
		plain[ask(time.Time{})] = true
		now = now.Add(takes)
		running = granted(c.Step(now, Done{ID: running, Took: takes}))[0]
		if plain[running] {
			others++
		} else {
			hurried++
		}
	}
	if others < 95 || hurried < 95 {
		t.Errorf("%d with a deadline began and %d without, want about as many", hurried, others)
	}
}
