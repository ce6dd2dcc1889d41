package kvcache

// Cleared is what a Clear has dropped.
type Cleared struct {
	Device, Host []Hash // from each tier, leaves first
	Lost         []Hash // now in neither tier, in the order in which they went
	Held         int    // pages of the device that leases still hold
}

// Clear drops every block that no lease holds, in both tiers. Those that leases hold stay, and those
// before them in their chains.
func (x *Index) Clear() Cleared {
	var c Cleared
	for x.host != nil && len(x.host.leaves) > 0 {
		h := x.host.dropLeaf(x.host.leaves[0])
		c.Host = append(c.Host, h)
		if !x.isResident(h) {
			c.Lost = append(c.Lost, h)
		}
	}
	for p := range x.pages {
		for at := Page(p); at != none && x.pages[at].isEvictable(); {
			parent := x.pages[at].parent
			h, _, whole := x.removeLeaf(at)
			x.pages[at].state = pageFree
			x.free = append(x.free, at)
			if whole {
				c.Device = append(c.Device, h)
			}
			if whole && (x.host == nil || !x.host.hasBlock(h)) {
				c.Lost = append(c.Lost, h)
			}
			at = parent
		}
	}
	c.Held = x.Used()
	return c
}

// isEvictable says whether the page is a resident leaf that no lease holds.
func (pg *page) isEvictable() bool {
	return pg.state == pageResident && pg.pins == 0 && pg.children == 0
}
