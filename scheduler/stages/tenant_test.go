package stages

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// tenants play stages through slots.
type tenants struct {
	t            *testing.T
	c            *Core
	now          time.Time
	last         uint64
	asks         map[uint64]Ask
	ends         map[uint64]time.Time
	asked, began map[string]int
}

func newTenants(t *testing.T, p Parameters) *tenants {
	return &tenants{t: t, c: New(p), now: start, asks: map[uint64]Ask{}, ends: map[uint64]time.Time{}, asked: map[string]int{}, began: map[string]int{}}
}

// ask has a stage of a tenant come.
func (p *tenants) ask(a Ask) {
	p.last++
	a.ID, a.Kind = p.last, "k"
	p.asks[a.ID] = a
	p.asked[a.Tenant]++
	p.step(a)
}

func (p *tenants) step(event any) {
	for _, id := range granted(p.c.Step(p.now, event)) {
		p.began[p.asks[id].Tenant]++
		p.ends[id] = p.now.Add(p.asks[id].Takes)
	}
}

// pass lets 10 ms go by.
func (p *tenants) pass() {
	p.now = p.now.Add(10 * time.Millisecond)
	for _, id := range slices.Sorted(maps.Keys(p.ends)) {
		if !p.ends[id].After(p.now) {
			delete(p.ends, id)
			p.step(Done{ID: id, Took: p.asks[id].Takes})
		}
	}
	p.step(Tick{})
}

// TestFloodOfOneTenantMakesAnothersNotLate: one asks for seven times what the slots can do, another for a third, of which all must be in
// time though its stages take longer and are due as soon.
func TestFloodOfOneTenantMakesAnothersNotLate(t *testing.T) {
	p := newTenants(t, ours(2))
	for step := range 2000 {
		ask := func(tenant string, takes time.Duration) {
			p.ask(Ask{Tenant: tenant, Takes: takes, Due: p.now.Add(time.Second), First: true})
		}
		ask("flood", 80*time.Millisecond)
		ask("flood", 60*time.Millisecond)
		if step%20 == 7 && step < 1900 {
			ask("other", 120*time.Millisecond)
		}
		p.pass()
	}
	if p.began["other"] < p.asked["other"] || p.began["flood"] < 380 {
		t.Errorf("of %v began %v, want all of the other's and of the flood what is left: 380 at least", p.asked, p.began)
	}
}

// TestTenantsHaveSlotsByTurns: of stages without a deadline, and of other programs' in the few slots that these may have, those go first
// whose tenant had the least slot time.
func TestTenantsHaveSlotsByTurns(t *testing.T) {
	for _, outside := range []bool{false, true} {
		for slots := range 3 {
			p := newTenants(t, Parameters{Slots: slots + 1, Policy: OnTime, Outside: slots + 1})
			for step := range 1000 {
				for range 3 {
					p.ask(Ask{Tenant: "flood", Takes: 50 * time.Millisecond, Outside: outside})
				}
				if step > 200 && step%5 < 3 {
					p.ask(Ask{Tenant: "other", Takes: 50 * time.Millisecond, Outside: outside})
				}
				p.pass()
			}
			want := 80 * (slots + 1) // half of what begins in the last eight seconds
			if p.began["other"] < want-5 || p.began["other"]+p.began["flood"] < 200*(slots+1)-10 {
				t.Errorf("%d slots, outside %t: of %v began %v, want %d of the other's and all slots used", slots+1, outside, p.asked, p.began, want)
			}
		}
	}
}

// TestTenantsAreForgotten: what was of tenants that have nothing to do is not kept.
func TestTenantsAreForgotten(t *testing.T) {
	c := New(ours(1))
	c.Step(start, Ask{ID: 1, Tenant: "running", Takes: time.Second})
	c.Step(start, Ask{ID: 2, Tenant: "waiting", Takes: time.Second})
	for id := range uint64(5000) {
		c.Step(start, Ask{ID: 10 + id, Tenant: fmt.Sprint(id), Takes: time.Second})
		c.Step(start, Withdraw{ID: 10 + id})
	}
	if n := len(c.tenants); n > mostIdle+4 {
		t.Errorf("%d tenants are known beside two that have stages", n)
	}
	c.Step(start, Done{ID: 1, Took: time.Second})
	if n := len(c.tenants); n != 1 {
		t.Errorf("%d tenants are known when one has a stage and nobody waits", n)
	}
}

// TestProgramsBesideTheServerMayHaveNoSlots.
func TestProgramsBesideTheServerMayHaveNoSlots(t *testing.T) {
	for outside, want := range map[int]Verdict{0: Refused, 1: Granted, Half: Granted} {
		c := New(Parameters{Slots: 3, Policy: OnTime, Outside: outside})
		expectVerdicts(t, c.Step(start, Ask{ID: 1, Takes: time.Second, Outside: true}), Action{ID: 1, Verdict: want})
	}
}
