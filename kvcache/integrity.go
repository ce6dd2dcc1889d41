package kvcache

import (
	"fmt"
	"slices"
)

// CheckIntegrity returns the first broken invariant of the index and of the leases given, which
// must be all that are open; nil when there is none. It takes time in the order of all pages.
func (x *Index) CheckIntegrity(open []*Lease) error {
	pins, owners := make([]int32, len(x.pages)), make([]int, len(x.pages))
	hostPins := make([]int32, x.cfg.HostBlocks)
	for _, l := range open {
		if l.closed || l.epoch != x.epoch {
			return fmt.Errorf("a lease given as open is closed or of epoch %d, the index is at %d", l.epoch, x.epoch)
		}
		for _, p := range l.pinned {
			pins[p]++
		}
		for _, p := range l.hosts {
			hostPins[p]++
		}
		for _, p := range l.Pages {
			if x.pages[p].state == pagePrivate {
				owners[p]++
			}
		}
	}
	listed, err := x.checkLists()
	if err != nil {
		return err
	}
	if err := x.checkFree(); err != nil {
		return err
	}
	children := make([]int32, len(x.pages))
	resident, unpinned := 0, 0
	for i := range x.pages {
		p := Page(i)
		if err := x.checkPage(p, pins[p], owners[p], listed[p]); err != nil {
			return err
		}
		if x.pages[p].state != pageResident {
			continue
		}
		resident++
		if x.pages[p].pins == 0 {
			unpinned++
		}
		if parent := x.pages[p].parent; parent != none {
			children[parent]++
		}
	}
	for i := range x.pages {
		if x.pages[i].state == pageResident && x.pages[i].children != children[i] {
			return fmt.Errorf("page %d counts %d children, has %d", i, x.pages[i].children, children[i])
		}
	}
	if resident != x.byHash.count+x.partial || unpinned != x.unpinned {
		return fmt.Errorf("%d resident pages for %d hashes and %d partial blocks; %d unpinned, counted %d", resident, x.byHash.count, x.partial, unpinned, x.unpinned)
	}
	if err := x.checkFamilies(); err != nil {
		return err
	}
	if x.host != nil {
		return x.host.check(hostPins, x.isResident)
	}
	return nil
}

// checkPage compares one page with what the leases and lists say of it.
func (x *Index) checkPage(p Page, pins int32, owners int, position int) error {
	pg := &x.pages[p]
	switch {
	case pg.state == pagePrivate && owners != 1:
		return fmt.Errorf("private page %d has %d owners", p, owners)
	case pg.state != pagePrivate && owners != 0:
		return fmt.Errorf("page %d in state %d has %d owners", p, pg.state, owners)
	case pg.state != pageResident:
		if pins != 0 || position != 0 {
			return fmt.Errorf("page %d is not resident but has %d pins, list position %d", p, pins, position)
		}
		return nil
	case !pg.partial && x.findPage(&pg.hash) != p:
		return fmt.Errorf("page %d holds %v, which is found at page %d", p, pg.hash, x.findPage(&pg.hash))
	case pg.pins != pins:
		return fmt.Errorf("page %d counts %d pins, leases hold %d", p, pg.pins, pins)
	case (pg.pins == 0) != (position != 0):
		return fmt.Errorf("page %d has %d pins and list position %d", p, pg.pins, position)
	}
	return x.checkParent(p)
}

// checkParent holds a resident page to the order that makes eviction leaf first and cheap: the
// parent is resident, pinned if the page is, in no lower segment, and newer in the same one.
func (x *Index) checkParent(p Page) error {
	pg := &x.pages[p]
	if pg.parent == none {
		return nil
	}
	parent := &x.pages[pg.parent]
	switch {
	case parent.state != pageResident:
		return fmt.Errorf("page %d outlived its parent %d", p, pg.parent)
	case pg.pins > 0 && parent.pins == 0:
		return fmt.Errorf("page %d is pinned, its parent %d is not", p, pg.parent)
	case parent.segment < pg.segment:
		return fmt.Errorf("page %d is in segment %d, its parent %d in %d", p, pg.segment, pg.parent, parent.segment)
	}
	return nil
}

// checkLists walks the recency lists and returns each listed page's position, from 1 at the tail.
func (x *Index) checkLists() ([]int, error) {
	position := make([]int, len(x.pages))
	counts := [numSegments]int{}
	for i := range x.pages {
		if x.pages[i].state == pageResident {
			counts[x.pages[i].segment]++
		}
	}
	if counts != x.segments.count {
		return nil, fmt.Errorf("segments hold %v pages, counted %v", counts, x.segments.count)
	}
	for s := range x.segments.tail {
		for p, n := x.segments.tail[s], 1; p != none; p, n = x.pages[p].prev, n+1 {
			if position[p] != 0 || int(x.pages[p].segment) != s {
				return nil, fmt.Errorf("page %d of segment %d is listed in segment %d, or twice", p, x.pages[p].segment, s)
			}
			position[p] = n
			if parent := x.pages[p].parent; parent != none && position[parent] != 0 && x.pages[parent].segment == x.pages[p].segment {
				return nil, fmt.Errorf("page %d is newer than its parent %d", p, parent)
			}
		}
	}
	return position, nil
}

// checkFamilies holds families to the pages that say they belong to them, in order and without twins.
func (x *Index) checkFamilies() error {
	members := x.families.singles.count
	for before, family := range x.families.others {
		if only, _ := x.findFamilyOfOne(&before); only != none || len(family) < 2 {
			return fmt.Errorf("the family of %v has %d pages, and beside them page %d alone", before, len(family), only)
		}
		for i, p := range family {
			pg := &x.pages[p]
			if pg.state != pageResident || pg.before != before || i > 0 && slices.Compare(x.pages[family[i-1]].tokens, pg.tokens) >= 0 {
				return fmt.Errorf("page %d of %d tokens is out of place in the family of %v", p, len(pg.tokens), before)
			}
		}
		members += len(family)
	}
	for i := range x.pages {
		pg := &x.pages[i]
		if len(pg.tokens) == 0 {
			continue
		}
		members--
		if only, _ := x.findFamilyOfOne(&pg.before); pg.state != pageResident || only != Page(i) && !slices.Contains(x.families.others[pg.before], Page(i)) {
			return fmt.Errorf("page %d of %d tokens is not in the family of %v", i, len(pg.tokens), pg.before)
		}
	}
	if members != 0 {
		return fmt.Errorf("families list %d pages more than have tokens", members)
	}
	return nil
}

func (x *Index) checkFree() error {
	seen := make(map[Page]bool)
	for _, p := range x.free {
		if seen[p] || x.pages[p].state != pageFree {
			return fmt.Errorf("page %d on the free list is there twice or in state %d", p, x.pages[p].state)
		}
		seen[p] = true
	}
	for i := range x.pages {
		if x.pages[i].state == pageFree && !seen[Page(i)] {
			return fmt.Errorf("free page %d is not on the free list", i)
		}
	}
	return nil
}
