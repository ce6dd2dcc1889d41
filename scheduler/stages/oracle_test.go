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
	Parameters
	ratios profile
	list   []*entry // in the order of asking
	credit time.Duration
	grants int
	used   map[string]time.Duration // slot time by tenant
	turn   time.Duration
}

type entry struct {
	Ask
	began       time.Time
	due         time.Time
	takes, most time.Duration
	running     bool
	grant       int // among all
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

func (r *rescan) ratio(e *entry) *ratio { return r.ratios.of(e.Kind, e.Ask.Takes) }

// least is how long e takes as far as that is trusted: nine times of ten if it is a first one beside others.
func (r *rescan) least(e *entry) time.Duration {
	takes := e.takes
	others := r.count(func(o *entry) bool { return o != e && !o.Due.IsZero() && !(o.running && o.Apart) })
	if e.First && others > 0 {
		takes = e.most
	}
	return time.Duration(float64(takes) * r.ratio(e).trust)
}

// doubt trusts what is known of e's kind and size less, unless the like of it runs.
func (r *rescan) doubt(e *entry) {
	if r.count(func(o *entry) bool { return o.running && r.ratio(o) == r.ratio(e) }) == 0 {
		r.ratio(e).doubtBelief()
	}
}

func isRunning(e *entry) bool { return e.running }
func isWaiting(e *entry) bool { return !e.running }

func (r *rescan) step(now time.Time, event any) (actions []Action) {
	switch e := event.(type) {
	case Ask:
		if r.find(e.ID, true) == nil && r.find(e.ID, false) == nil {
			actions = r.ask(now, e)
		}
	case Yield:
		if s := r.find(e.ID, true); s != nil {
			r.settle(now, s)
			s.running, s.First = false, false
			s.takes, s.most = r.ratio(s).predictTime(e.Left)
		}
	case Done:
		if s := r.find(e.ID, true); s != nil {
			r.ratio(s).recordTime(s.Takes, e.Took)
			r.settle(now, s)
			r.remove(s)
		}
	case Withdraw:
		r.remove(r.find(e.ID, false))
		if s := r.find(e.ID, true); s != nil {
			r.settle(now, s)
			r.remove(s)
		}
	case Gone:
		for _, s := range slices.Clone(r.list) {
			if s.Client == e.Client {
				r.settle(now, s)
				r.remove(s)
			}
		}
	}
	actions = append(actions, r.expire(now)...)
	for _, s := range r.deadlines() {
		if r.isLost(now, s) {
			r.doubt(s)
			r.remove(s)
			actions = append(actions, Action{ID: s.ID, Verdict: Dropped})
		}
	}
	for {
		s, onTime := r.choose(now)
		if s == nil {
			r.forgetIdle()
			return actions
		}
		if !onTime {
			r.credit = max(0, r.credit-s.takes)
		} else if r.count(func(e *entry) bool { return !e.running && e.Due.IsZero() }) > 0 {
			r.credit += s.takes / (share - 1)
		}
		r.grants++
		r.turn = max(r.turn, r.used[s.Tenant])
		r.used[s.Tenant] += s.takes
		s.running, s.began, s.grant = true, now, r.grants
		actions = append(actions, Action{ID: s.ID, Verdict: Granted})
	}
}

func (r *rescan) ask(now time.Time, a Ask) []Action {
	n := &entry{Ask: a, due: a.Due.Add(-a.Rest)}
	if n.Came.IsZero() {
		n.Came = now
	}
	n.takes, n.most = r.ratio(n).predictTime(a.Takes)
	if a.Outside && r.Outside == 0 {
		return []Action{{ID: a.ID, Verdict: Refused}}
	}
	if r.count(func(e *entry) bool { return e.Tenant == a.Tenant }) == 0 {
		r.used[a.Tenant] = max(r.used[a.Tenant], r.turn)
	}
	if a.Spare && (r.count(isWaiting) > 0 || !r.fits(n)) {
		return []Action{{ID: a.ID, Verdict: Dropped}}
	}
	r.list = append(r.list, n)
	if !a.First || a.Due.IsZero() || r.Policy != OnTime {
		return nil
	}
	refused := Action{ID: a.ID, Verdict: Refused}
	if r.isLost(now, n) {
		r.doubt(n)
		r.remove(n)
		return []Action{refused}
	}
	kept := r.onTime(now)
	before := slices.ContainsFunc(r.deadlines(), func(e *entry) bool {
		return e != n && !slices.Contains(kept, e) && e.takes <= n.takes && r.shareOf(kept, e.Tenant) <= r.shareOf(kept, n.Tenant)
	})
	if !before || slices.Contains(kept, n) {
		return nil
	}
	work := r.runningWork(now) + n.takes
	for _, k := range kept {
		if !k.Apart {
			work += k.takes
		}
	}
	refused.RetryAfter = max(time.Millisecond, work/time.Duration(r.Slots)-n.due.Sub(now))
	r.remove(n)
	return []Action{refused}
}

// expire ends the slots of clients that have had them for too long: that beside the slots first, then the last that began.
func (r *rescan) expire(now time.Time) (actions []Action) {
	running := slices.DeleteFunc(slices.Clone(r.list), isWaiting)
	slices.SortStableFunc(running, func(a, b *entry) int {
		if a.Apart != b.Apart {
			return map[bool]int{true: -1, false: 1}[a.Apart]
		}
		return b.grant - a.grant
	})
	for _, e := range running {
		if e.Client != "" && now.Sub(e.began) > max(time.Second, 10*e.most) {
			r.ratio(e).recordTime(e.Takes, now.Sub(e.began))
			r.settle(now, e)
			r.remove(e)
			actions = append(actions, Action{ID: e.ID, Verdict: Expired})
		}
	}
	return actions
}

func (r *rescan) isLost(now time.Time, e *entry) bool {
	switch r.Policy {
	case OnTime:
		return now.Add(r.least(e)).After(e.due)
	case SLO:
		return now.After(e.due.Add(r.LostCause))
	}
	return false
}

// deadlines are those that wait and have one, by it; the order of asking decides between equals.
func (r *rescan) deadlines() (list []*entry) {
	for _, e := range r.list {
		if !e.running && !e.Due.IsZero() {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b *entry) int { return a.due.Compare(b.due) })
	return list
}

func (r *rescan) runningWork(now time.Time) (work time.Duration) {
	for _, e := range r.list {
		if e.running && !e.Apart {
			work += max(0, e.takes-now.Sub(e.began))
		}
	}
	return work
}

func (r *rescan) isShort(e *entry) bool { return r.Express && e.most < short }

// shareOf is the slot time that a tenant has had, and has with those that are kept.
func (r *rescan) shareOf(kept []*entry, tenant string) time.Duration {
	sum := r.used[tenant]
	for _, k := range kept {
		if k.Tenant == tenant && !k.Apart && !r.isShort(k) {
			sum += k.takes
		}
	}
	return sum
}

// settle counts for the tenant of a stage that runs what it took.
func (r *rescan) settle(now time.Time, e *entry) {
	if e.running {
		r.used[e.Tenant] += now.Sub(e.began) - e.takes
	}
}

// forgetIdle forgets what tenants had that have no stage, if nobody waits.
func (r *rescan) forgetIdle() {
	for tenant := range r.used {
		if r.count(isWaiting) == 0 && r.count(func(e *entry) bool { return e.Tenant == tenant }) == 0 {
			delete(r.used, tenant)
		}
	}
}

// hasTurn says that of those whose outside stages wait none had less slot time than e's tenant.
func (r *rescan) hasTurn(e *entry) bool {
	return r.count(func(o *entry) bool { return !o.running && o.Outside && r.used[o.Tenant] < r.used[e.Tenant] }) == 0
}

// onTime are those of the deadlines that are not left out, by Moore and Hodgson.
func (r *rescan) onTime(now time.Time) (kept []*entry) {
	work := func(of func(*entry) bool) (sum time.Duration) {
		for _, k := range kept {
			if !k.Apart && of(k) {
				sum += k.takes
			}
		}
		return sum
	}
	late := func(work time.Duration, e *entry) bool {
		return now.Add((work-e.takes)/time.Duration(r.Slots) + e.takes).After(e.due)
	}
	isShort := r.isShort
	all := func(*entry) bool { return true }
	for _, e := range r.deadlines() {
		kept = append(kept, e)
		if e.Apart || r.Policy != OnTime {
			continue
		}
		if isShort(e) {
			if late(work(isShort), e) {
				kept = kept[:len(kept)-1]
			}
			continue
		}
		if late(r.runningWork(now)+e.takes, e) {
			kept = kept[:len(kept)-1]
			continue
		}
		for slices.Contains(kept, e) && late(r.runningWork(now)+work(all), e) {
			longest := -1
			for i, k := range kept {
				if k.Apart || isShort(k) {
					continue
				}
				if longest < 0 || r.shareOf(kept, k.Tenant) > r.shareOf(kept, kept[longest].Tenant) || k.Tenant == kept[longest].Tenant && k.takes > kept[longest].takes {
					longest = i
				}
			}
			kept = slices.Delete(kept, longest, longest+1)
		}
	}
	return kept
}

func (r *rescan) fits(e *entry) bool {
	inSlots := func(e *entry) bool { return e.running && !e.Apart }
	isLong := func(e *entry) bool { return e.most > long && !e.Yields }
	running := r.count(inSlots)
	switch {
	case e.Apart:
		return running == r.count(isRunning)
	case e.Outside && r.count(func(e *entry) bool { return inSlots(e) && e.Outside }) >= r.Outside, e.Outside && !r.hasTurn(e):
		return false
	case e.most < short && r.Express:
		return running < r.Slots+1
	case running >= r.Slots:
		return false
	}
	return r.Policy != OnTime || !isLong(e) || r.count(func(e *entry) bool { return inSlots(e) && isLong(e) }) < max(1, r.Slots/2) ||
		!e.Due.IsZero() && r.count(func(o *entry) bool {
			return inSlots(o) && isLong(o) && !o.began.Add(o.takes).After(e.due.Add(-4*e.takes))
		}) == 0
}

func (r *rescan) choose(now time.Time) (*entry, bool) {
	kept := r.onTime(now)
	if r.Policy == FIFO {
		kept = nil
	}
	var first, other *entry
	for _, e := range kept {
		if r.fits(e) {
			first = e
			break
		}
	}
	age := func(e *entry) time.Time {
		if r.Policy == FIFO {
			return e.Came
		}
		return e.Came.Add(e.takes)
	}
	for _, e := range r.list {
		if e.running || slices.Contains(kept, e) || !r.fits(e) {
			continue
		}
		least := func(used func(*entry) time.Duration) bool {
			return used(e) < used(other) || used(e) == used(other) && age(e).Before(age(other))
		}
		if other == nil || least(func(e *entry) time.Duration {
			if r.Policy == FIFO {
				return 0
			}
			return r.used[e.Tenant]
		}) {
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
	verdicts := map[Verdict]int{}
	for seed := range uint64(*histories) {
		if err := playHistory(seed, verdicts); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, v := range []Verdict{Granted, Dropped, Refused, Expired} {
		if verdicts[v] < *histories/50 {
			t.Errorf("verdict %d is given %d times in %d histories, which shows little", v, verdicts[v], *histories)
		}
	}
}

func playHistory(seed uint64, verdicts map[Verdict]int) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := Parameters{
		Slots: 1 + rng.IntN(4), Policy: Policies()[seed%4], LostCause: time.Duration(rng.IntN(200)) * time.Millisecond, Express: rng.IntN(3) > 0,
	}
	p.Outside = rng.IntN(p.Slots + 1)
	slots := p.Slots
	c, r := New(p), &rescan{Parameters: p, ratios: profile{}, used: map[string]time.Duration{}}
	now := time.Unix(1000, 0)
	for step := range 120 {
		now = now.Add(time.Duration(rng.IntN(int(40 * time.Millisecond))))
		event := drawEvent(rng, r, now, uint64(step))
		got, want := c.Step(now, event), r.step(now, event)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%+v, step %d, %+v: got %v, want %v", p, step, event, got, want)
		}
		for _, a := range got {
			verdicts[a.Verdict]++
		}
		if waits := r.count(isWaiting); c.Waiting() != waits || c.Running() != r.count(isRunning) || c.Running() > slots+2 {
			return fmt.Errorf("step %d: %d wait and %d run, want %d and %d", step, c.Waiting(), c.Running(), waits, r.count(isRunning))
		}
	}
	return nil
}

func drawEvent(rng *rand.Rand, r *rescan, now time.Time, id uint64) any {
	takes := time.Duration(1 + rng.ExpFloat64()*float64(90*time.Millisecond))
	var one *entry
	if len(r.list) > 0 {
		one = r.list[rng.IntN(len(r.list))]
	}
	switch k := rng.IntN(10); {
	case k < 5 || one == nil:
		a := Ask{
			ID: id, Client: drawClient(rng), Tenant: []string{"", "one", "other"}[rng.IntN(3)], Kind: []string{"a", "b"}[rng.IntN(2)], Takes: takes,
			First: rng.IntN(3) == 0, Yields: rng.IntN(3) == 0, Spare: rng.IntN(12) == 0, Apart: rng.IntN(10) == 0, Outside: rng.IntN(4) == 0,
		}
		if rng.IntN(2) == 0 {
			a.Due = now.Add(time.Duration(rng.IntN(int(400 * time.Millisecond))))
			a.Rest = time.Duration(rng.IntN(int(50 * time.Millisecond)))
		}
		if rng.IntN(4) == 0 {
			a.Came = now.Add(-time.Duration(rng.IntN(int(time.Second))))
		}
		return a
	case k < 8:
		return Done{ID: one.ID, Took: takes}
	case k < 9:
		return []any{Yield{ID: one.ID, Left: takes}, Tick{}, Gone{Client: "far"}}[min(2, rng.IntN(30)/12)]
	}
	return Withdraw{ID: one.ID}
}

// drawClient is that of an external client for one in four.
func drawClient(rng *rand.Rand) string {
	if rng.IntN(4) == 0 {
		return "far"
	}
	return ""
}
