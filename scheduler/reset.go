package scheduler

import "github.com/prefillonly/prefillonly/engine/wire"

// reset empties the prefix caches of all that no job holds, for a frontend.
func (c *Core) reset(from PeerID, serial uint64) {
	if p := c.peers[from]; p == nil || p.frontend == nil {
		return
	}
	done := &wire.ResetDone{Serial: serial}
	for _, e := range c.executors {
		cleared := e.index.Clear()
		e.queue.evicted(cleared.Device, cleared.Lost)
		c.noteRemoved(e, mediumHost, cleared.Host)
		c.noteRemoved(e, mediumDevice, cleared.Device)
		c.stats.Evictions += uint64(len(cleared.Device))
		done.Dropped += len(cleared.Device) + len(cleared.Host)
		done.Held += cleared.Held
	}
	c.send(from, done)
}
