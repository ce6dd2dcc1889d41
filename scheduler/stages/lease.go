package stages

import (
	"slices"
	"time"
)

// A slot of a client ends when the client has had it for ten times what its stage takes, and for a second at least: its thread, if it
// still runs, is then one too many.
const (
	leaseTimes = 10
	leaseLeast = time.Second
)

// expireLeases gives other stages the slots of clients that have had them for too long. What such a stage does next is ignored.
func (c *Core) expireLeases(now time.Time) {
	if s := c.apart; s != nil && s.hasExpired(now) {
		c.expireLease(now, s)
	}
	for i := len(c.runs) - 1; i >= 0; i-- {
		if c.runs[i].hasExpired(now) {
			c.expireLease(now, c.runs[i])
		}
	}
}

func (s *stage) hasExpired(now time.Time) bool {
	return s.Client != "" && now.Sub(s.began) > max(leaseLeast, leaseTimes*s.most)
}

// expireLease ends a lease. The stage took so long at least, or the next of its kind would have no longer one.
func (c *Core) expireLease(now time.Time, s *stage) {
	s.ratio.recordTime(s.Takes, now.Sub(s.began))
	c.withdrawStage(now, s)
	c.actions = append(c.actions, Action{ID: s.ID, Verdict: Expired})
}

// endClient ends what a client waits for and what it has.
func (c *Core) endClient(now time.Time, client string) {
	var list []*stage
	for _, s := range c.stages {
		if client != "" && s.Client == client {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *stage) int { return int(a.order) - int(b.order) })
	for _, s := range list {
		c.withdrawStage(now, s)
	}
}
