package scores

import "github.com/prefillonly/prefillonly/kvcache"

// Reader is a prompt whose positions' scores are asked for, with those that are known of its leading blocks.
type Reader struct {
	Of    any      // whose it is
	Known []*Block // never written to

	model string
	chain []kvcache.Hash
	top   int
	next  key // the block that it awaits
	place int // among those that await it, counted from 1; 0: it awaits none
}

// Find gives a reader what is known of a chain's leading blocks, whose positions are to have so many of the likeliest tokens,
// or more. It keeps what it has of the chain; anew says that it may have read another one.
func (c *Cache) Find(r *Reader, model string, chain []kvcache.Hash, top int, anew bool) {
	if anew || r.model != model {
		r.Known = nil
	}
	r.model, r.chain, r.top = model, chain, top
	for len(r.Known) < len(chain) {
		found := c.blocks[key{model, chain[len(r.Known)]}]
		if found == nil || found.Value.(*entry).top < top {
			return
		}
		c.recent.MoveToFront(found)
		r.Known = append(r.Known, found.Value.(*entry).Block)
	}
}

// Await has Add tell of the reader when its first block that is not known becomes so.
func (c *Cache) Await(r *Reader) {
	if c.Leave(r); len(r.Known) == len(r.chain) {
		return
	}
	r.next = key{r.model, r.chain[len(r.Known)]}
	c.awaited[r.next] = append(c.awaited[r.next], r)
	r.place = len(c.awaited[r.next])
}

// Awaits says that a reader awaits the first block that is not known to it, and that the cache has none for it.
func (c *Cache) Awaits(r *Reader) bool {
	if len(r.Known) == len(r.chain) {
		return r.place == 0
	}
	k := key{r.model, r.chain[len(r.Known)]}
	found := c.blocks[k]
	return r.place > 0 && c.awaited[k][r.place-1] == r && (found == nil || found.Value.(*entry).top < r.top)
}

// Leave ends Await.
func (c *Cache) Leave(r *Reader) {
	if r.place == 0 {
		return
	}
	list := c.awaited[r.next]
	last := list[len(list)-1]
	list[r.place-1], last.place = last, r.place
	list[len(list)-1] = nil
	if list = list[:len(list)-1]; len(list) == 0 {
		delete(c.awaited, r.next)
	} else {
		c.awaited[r.next] = list
	}
	r.place = 0
}

// Companion is the chain of one of those that wait, of the last that came and are such, which awaits the first block that is
// not known to another one, and no more of the likeliest. It is nil if there is none.
func (c *Cache) Companion(r *Reader, such func(of any) bool) []kvcache.Hash {
	if len(r.Known) == len(r.chain) {
		return nil
	}
	list := c.awaited[key{r.model, r.chain[len(r.Known)]}]
	for i := len(list) - 1; i >= max(0, len(list)-companions); i-- {
		if o := list[i]; o != r && o.top <= r.top && such(o.Of) {
			return o.chain
		}
	}
	return nil
}

// companions is how many readers are looked at to find one.
const companions = 8
