package executors

import "github.com/prefillonly/prefillonly/kvcache"

// ScoreReader is a prompt whose positions' scores are asked for, with those that are known of its leading blocks.
type ScoreReader struct {
	Of    *Job          // whose it is
	Known []*ScoreBlock // never written to

	model string
	chain []kvcache.Hash
	top   int
	next  scoreKey // the block that it awaits
	place int      // among those that await it, counted from 1; 0: it awaits none
}

// FindScores gives a reader what is known of a chain's leading blocks, whose positions are to have so many of the likeliest tokens,
// or more. It keeps what it has of the chain; anew says that it may have read another one.
func (c *ScoreCache) FindScores(r *ScoreReader, model string, chain []kvcache.Hash, top int, anew bool) {
	if anew || r.model != model {
		r.Known = nil
	}
	r.model, r.chain, r.top = model, chain, top
	for len(r.Known) < len(chain) {
		found := c.blocks[scoreKey{model, chain[len(r.Known)]}]
		if found == nil || found.Value.(*scoreEntry).top < top {
			return
		}
		c.recent.MoveToFront(found)
		r.Known = append(r.Known, found.Value.(*scoreEntry).ScoreBlock)
	}
}

// AwaitScores has Add tell of the reader when its first block that is not known becomes so.
func (c *ScoreCache) AwaitScores(r *ScoreReader) {
	if c.StopAwaiting(r); len(r.Known) == len(r.chain) {
		return
	}
	r.next = scoreKey{r.model, r.chain[len(r.Known)]}
	c.awaited[r.next] = append(c.awaited[r.next], r)
	r.place = len(c.awaited[r.next])
}

// IsAwaiting says that a reader awaits the first block that is not known to it, and that the cache has none for it.
func (c *ScoreCache) IsAwaiting(r *ScoreReader) bool {
	if len(r.Known) == len(r.chain) {
		return r.place == 0
	}
	k := scoreKey{r.model, r.chain[len(r.Known)]}
	found := c.blocks[k]
	return r.place > 0 && c.awaited[k][r.place-1] == r && (found == nil || found.Value.(*scoreEntry).top < r.top)
}

// StopAwaiting ends Await.
func (c *ScoreCache) StopAwaiting(r *ScoreReader) {
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

// FindCompanion is the chain of one of those that wait, of the last that came and are such, which awaits the first block that is
// not known to another one, and no more of the likeliest. It is nil if there is none.
func (c *ScoreCache) FindCompanion(r *ScoreReader, such func(*Job) bool) []kvcache.Hash {
	if len(r.Known) == len(r.chain) {
		return nil
	}
	list := c.awaited[scoreKey{r.model, r.chain[len(r.Known)]}]
	for i := len(list) - 1; i >= max(0, len(list)-companions); i-- {
		if o := list[i]; o != r && o.top <= r.top && such(o.Of) {
			return o.chain
		}
	}
	return nil
}

// companions is how many readers are looked at to find one.
const companions = 8
