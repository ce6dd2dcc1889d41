package stages

import (
	"maps"
	"slices"
	"time"
)

// mostIdle is how many tenants that have no stage are remembered while others wait, and fewIdle how many records stay to be used again when
// nobody waits.
const (
	mostIdle = 1024
	fewIdle  = 16
)

// tenant is one whose stages wait or have slots. Slot time that is not for deadlines is shared out by start-time fair queueing: the one
// that had the least goes first, and one that had nothing to do saves nothing up (P. Goyal, H. Vin, H. Cheng, "Start-time
// fair queueing", 1996).
type tenant struct {
	used    time.Duration // slot time of its stages, of those that run as much as is expected of them
	open    int           // of its stages, those that wait and those that have a slot
	left    uint64        // step in which open fell to 0 last
	outside int           // of those that wait, for other programs
	round   uint64        // of markLate
	looked  int           // at so many of its stages in that
	kept    time.Duration // work of longest, in markLate
	longest []*stage      // a heap of its stages that are not late, in markLate
}

// tenantOf is the tenant of a stage that comes.
func (c *Core) tenantOf(name string) *tenant {
	t := c.tenants[name]
	if t == nil {
		t = new(tenant)
		c.tenants[name] = t
	}
	if t.open == 0 {
		if t.left <= c.quiet {
			t.used = 0
		}
		t.used = max(t.used, c.turn)
	}
	return t
}

// forgetIdle forgets what tenants had that have no stage when nobody waits, or they are many.
func (c *Core) forgetIdle() {
	most := mostIdle
	if len(c.byAge) == 0 {
		c.quiet, most = c.steps, fewIdle
	}
	if len(c.tenants) > len(c.stages)+most {
		maps.DeleteFunc(c.tenants, func(_ string, t *tenant) bool { return t.open == 0 })
	}
}

// chargeTenant counts what a stage that begins is expected to take.
func (c *Core) chargeTenant(s *stage) {
	c.turn = max(c.turn, s.tenant.used)
	s.tenant.used += s.takes
}

// settleUse counts what it took instead.
func (s *stage) settleUse(now time.Time) {
	s.tenant.used += min(max(0, now.Sub(s.began)), longest) - s.takes
}

// hasTurn says that no tenant has had less slot time whose stages for other programs wait, too.
func (c *Core) hasTurn(s *stage) bool {
	for _, t := range c.tenants {
		if t.outside > 0 && t.used < s.tenant.used {
			return false
		}
	}
	return true
}

// keepNone begins a round of markLate.
func (c *Core) keepNone() {
	c.round++
	for _, t := range c.keepers {
		t.kept, t.longest = 0, t.longest[:0]
	}
	c.keepers = c.keepers[:0]
}

// looksAt says whether one more of a tenant's stages is looked at in markLate.
func (c *Core) looksAt(t *tenant) bool {
	if t.round != c.round {
		t.round, t.looked = c.round, 0
	}
	t.looked++
	return t.looked <= mostOrdered
}

// keepStage counts a stage that can be on time so far.
func (c *Core) keepStage(s *stage) {
	t := s.tenant
	if len(t.longest) == 0 {
		c.keepers = append(c.keepers, t)
	}
	t.kept += s.takes
	t.longest = pushLongest(t.longest, s)
}

// slotTime is the slot time that a tenant has had, and has with those that are kept.
func (t *tenant) slotTime() time.Duration { return t.used + t.kept }

// leaveOut is the longest stage of the tenant that has the largest share, which is kept no more.
func (c *Core) leaveOut() *stage {
	at := 0
	for i, t := range c.keepers {
		if most := c.keepers[at]; t.slotTime() > most.slotTime() || t.slotTime() == most.slotTime() && t.longest[0].takes > most.longest[0].takes {
			at = i
		}
	}
	t := c.keepers[at]
	s := t.longest[0]
	t.kept -= s.takes
	if t.longest = popLongest(t.longest); len(t.longest) == 0 {
		c.keepers = slices.Delete(c.keepers, at, at+1)
	}
	return s
}
