package stages

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var histories = flag.Int("histories", 2000, "random histories of TestChoicesEqualFullRescan")

// rescan is a Core that keeps one list and looks through all of it for each decision.
type rescan struct {
	slots  int
	ratios profile
	list   []*entry // in the order of asking
	credit time.Duration
}

type entry struct {
	Ask
	asked, began time.Time
	takes, most  time.Duration
	running      bool
}

func (r *rescan) count(of func(*entry) bool) (n int) {
	for _, e := range r.list {
		if of(e) {
			n++
		}
	}
	return n
}

func (r *rescan) find(id uint64, running bool) *entry {
	for _, e := range r.list {
		if e.ID == id && e.running == running {
			return e
		}
	}
	return nil
}

func (r *rescan) remove(e *entry) {
	r.list = slices.DeleteFunc(r.list, func(o *entry) bool { return o == e })
}

func isRunning(e *entry) bool { return e.running }
func isWaiting(e *entry) bool { return !e.running }

func (r *rescan) step(now time.Time, event any) (actions []Action) {
	switch e := event.(type) {
	case Ask:
		if r.find(e.ID, true) != nil || r.find(e.ID, false) != nil {
			break
		}
		n := &entry{Ask: e, asked: now}
		n.takes, n.most = r.ratios.predict(e.Kind, e.Takes)
		if e.Spare && (r.count(isWaiting) > 0 || !r.fits(n)) {
			actions = append(actions, Action{ID: e.ID})
			break
		}
		r.list = append(r.list, n)
	case Yield:
		if s := r.find(e.ID, true); s != nil {
			s.running = false
			s.takes, s.most = r.ratios.predict(s.Kind, e.Left)
		}
	case Done:
		if s := r.find(e.ID, true); s != nil {
			r.ratios.note(s.Kind, s.Takes, e.Took)
			r.remove(s)
		}
	case Withdraw:
		r.remove(r.find(e.ID, false))
		r.remove(r.find(e.ID, true))
	}
	for _, s := range r.deadlines() {
		if !now.Before(s.Due) {
			r.remove(s)
			actions = append(actions, Action{ID: s.ID})
		}
	}
	for {
		s, onTime := r.choose(now)
		if s == nil {
			return actions
		}
		if !onTime {
			r.credit = max(0, r.credit-s.takes)
		} else if r.count(func(e *entry) bool { return !e.running && e.Due.IsZero() }) > 0 {
			r.credit += s.takes / (share - 1)
		}
		s.running, s.began = true, now
		actions = append(actions, Action{ID: s.ID, Grant: true})
	}
}

// deadlines are those that wait and have one, by it; the order of asking decides between equals.
func (r *rescan) deadlines() (list []*entry) {
	for _, e := range r.list {
		if !e.running && !e.Due.IsZero() {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b *entry) int { return a.Due.Compare(b.Due) })
	return list
}

// onTime are those of the deadlines that are not left out, by Moore and Hodgson.
func (r *rescan) onTime(now time.Time) (kept []*entry) {
	var running time.Duration
	for _, e := range r.list {
		if e.running && !e.Apart {
			running += max(0, e.takes-now.Sub(e.began))
		}
	}
	for _, e := range r.deadlines() {
		kept = append(kept, e)
		if e.Apart {
			continue
		}
		work := running
		for _, k := range kept {
			if !k.Apart {
				work += k.takes
			}
		}
		for work > running && now.Add(work/time.Duration(r.slots)).After(e.Due) {
			longest := -1
			for i := range kept {
				if !kept[i].Apart && (longest < 0 || kept[i].takes > kept[longest].takes) {
					longest = i
				}
			}
			work -= kept[longest].takes
			kept = slices.Delete(kept, longest, longest+1)
		}
	}
	return kept
}

func (r *rescan) fits(e *entry) bool {
	inSlots := func(e *entry) bool { return e.running && !e.Apart }
	running, longs := r.count(inSlots), r.count(func(e *entry) bool { return inSlots(e) && e.most > long })
	if e.Apart {
		return running == r.count(isRunning)
	}
	if e.most < short {
		return running < r.slots+1
	}
	return running < r.slots && (e.most <= long || longs < max(1, r.slots/2))
}

func (r *rescan) choose(now time.Time) (*entry, bool) {
	kept := r.onTime(now)
	var first, other *entry
	for _, e := range kept {
		if r.fits(e) {
			first = e
			break
		}
	}
	for _, e := range r.list {
		if e.running || slices.Contains(kept, e) || !r.fits(e) {
			continue
		}
		if other == nil || e.asked.Add(e.takes).Before(other.asked.Add(other.takes)) {
			other = e
		}
	}
	if first == nil || other != nil && r.credit >= other.takes {
		return other, false
	}
	return first, true
}

// TestChoicesEqualFullRescan plays random histories to a Core and to one that looks through everything. All times of a
// history differ, so that no two stages of equal length have to be told apart.
func TestChoicesEqualFullRescan(t *testing.T) {
	for seed := range uint64(*histories) {
		if err := playHistory(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func playHistory(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	slots := 1 + rng.IntN(4)
	c, r := New(slots), &rescan{slots: slots, ratios: profile{}}
	now := time.Unix(1000, 0)
	for step := range 120 {
		now = now.Add(time.Duration(rng.IntN(int(40 * time.Millisecond))))
		event := drawEvent(rng, r, now, uint64(step))
		got, want := c.Step(now, event), r.step(now, event)
		if !slices.Equal(got, want) {
			return fmt.Errorf("step %d, %+v: got %v, want %v", step, event, got, want)
		}
		if waits := r.count(isWaiting); c.Waiting() != waits || c.Running() != r.count(isRunning) || c.Running() > slots+2 {
			return fmt.Errorf("step %d: %d wait and %d run, want %d and %d", step, c.Waiting(), c.Running(), waits, r.count(isRunning))
		}
	}
	return nil
}

func drawEvent(rng *rand.Rand, r *rescan, now time.Time, id uint64) any {
	takes := time.Duration(1 + rng.ExpFloat64()*float64(60*time.Millisecond))
	var one *entry
	if len(r.list) > 0 {
		one = r.list[rng.IntN(len(r.list))]
	}
	switch k := rng.IntN(10); {
	case k < 5 || one == nil:
		a := Ask{ID: id, Kind: []string{"a", "b"}[rng.IntN(2)], Takes: takes, Spare: rng.IntN(12) == 0, Apart: rng.IntN(10) == 0}
		if rng.IntN(2) == 0 {
			a.Due = now.Add(time.Duration(rng.IntN(int(400 * time.Millisecond))))
		}
		return a
	case k < 8:
		return Done{ID: one.ID, Took: takes}
	case k < 9:
		return Yield{ID: one.ID, Left: takes}
	}
	return Withdraw{ID: one.ID}
}
