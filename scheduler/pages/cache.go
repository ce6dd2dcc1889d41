// Package pages keeps the prefix cache of a model on an executor: it gives jobs the pages that they read and fill, counts
// what they find there, and tells those who follow the cache, queues and routers, what comes and goes.
package pages

import (
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/events"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// Cache is the prefix cache of a model on an executor.
type Cache struct {
	Name  events.Cache   // as events name it
	Index *kvcache.Index // without pages where the model has no prefix cache

	limits wire.TokenLimits
	log    *events.Log
	stats  *wire.ModelStats // of the model on all executors
	queues []*queue.Queue   // that follow it
	saves  []wire.Copy      // that go with the next pass
}

// New makes an empty cache of a model's limits. Its changes go to a log, what is found there is counted.
func New(model string, limits wire.TokenLimits, eviction kvcache.Eviction, log *events.Log, stats *wire.ModelStats) (*Cache, error) {
	index, err := kvcache.New(kvcache.Config{
		BlockTokens: limits.BlockTokens, NumBlocks: limits.NumBlocks, HostBlocks: limits.HostBlocks, Eviction: eviction,
	})
	if err != nil {
		return nil, err
	}
	name := events.Cache{Model: model, BlockTokens: limits.BlockTokens}
	return &Cache{Name: name, Index: index, limits: limits, log: log, stats: stats}, nil
}

// Follow has queues hear of what comes and goes, instead of those before.
func (c *Cache) Follow(queues ...*queue.Queue) { c.queues = queues }

// Chain computes a job's block chain for the cache's block size, or of the one that it has what is missing; it says whether
// it was made with another size before.
func (c *Cache) Chain(h *kvcache.Hasher, j *queue.Job, salt string, caching bool) (anew bool) {
	j.Parts = c.limits.CopiesParts
	keys := kvcache.Keys{Salt: salt}
	if j.ChainOf == c.limits.BlockTokens {
		if j.Root != (kvcache.Hash{}) {
			j.Chain = h.Extend(j.Chain, j.Prompt, j.ChainOf, keys)
		}
		return false
	}
	j.ChainOf = c.limits.BlockTokens
	j.Chain, j.Root = nil, kvcache.Hash{}
	if caching && c.limits.NumBlocks > 0 {
		j.Chain, j.Root = h.Chain(j.Prompt, j.ChainOf, keys), h.Root(keys)
	}
	return true
}

// Lease gets a job so many pages of its own, and those that it reads and fills for others, who are known to want so many
// of its leading blocks; those waiting may say which blocks they want. It returns how many tokens the job finds; ok is false if there are too few pages.
func (c *Cache) Lease(j *queue.Job, own, shared int, lowest bool, q *queue.Queue) (found int, ok bool) {
	r := kvcache.Request{
		Chain: j.Chain, Reuse: j.Usable(), Load: j.Loads > 0, Fill: len(j.Chain), Pages: own,
		Shared: shared, Wanted: q.Wanted, Sequence: j.Compared(), Lowest: lowest,
	}
	if lowest {
		r.Wanted = c.wanted
	}
	lease, moves := c.Index.Acquire(r)
	if lease == nil {
		return 0, false
	}
	c.stats.Evictions += uint64(len(moves.Evicted))
	c.evicted(moves.Evicted, moves.Lost)
	for _, s := range moves.Saves {
		c.saves = append(c.saves, wire.Copy{Device: wire.BlockID(s.Device), Host: wire.BlockID(s.Host)})
	}
	c.log.Moved(c.Name, &moves)
	j.Lease, j.Filled = lease, false
	j.Cached, j.Loads, j.Part = lease.Cached(), len(lease.Loads), lease.Part.Tokens
	return c.count(j), true
}

// wanted says whether a waiting job would read a block and none after it.
func (c *Cache) wanted(h kvcache.Hash) bool {
	for _, q := range c.queues {
		if q.Wanted(h) {
			return true
		}
	}
	return false
}

// count counts what a job's lease has found in the cache, in tokens.
func (c *Cache) count(j *queue.Job) int {
	found, loaded := j.Lease.Reused*j.ChainOf+j.Lease.Part.Tokens, len(j.Lease.Loads)*j.ChainOf
	if !j.AsksWhole() {
		c.stats.PrefixQueries += uint64(j.Len())
		c.stats.PrefixHits += uint64(found)
		if c.limits.HostBlocks > 0 {
			c.stats.HostQueries += uint64(j.Len() - found)
			c.stats.HostHits += uint64(loaded)
		}
	}
	return found + loaded
}

// evicted has the queues follow blocks that left the device.
func (c *Cache) evicted(hashes, lost []kvcache.Hash) {
	for _, q := range c.queues {
		q.Evicted(hashes, lost)
	}
}

// Commit makes the blocks that a job's pass has filled matchable.
func (c *Cache) Commit(j *queue.Job, salt string) {
	stored := c.Index.Commit(j.Lease)
	for _, q := range c.queues {
		q.Stored(stored.Hashes)
	}
	c.log.Stored(c.Name, j.Prompt, salt, stored)
}

// Release gives a job's pages back, if it has some.
func (c *Cache) Release(j *queue.Job) {
	if j.Lease != nil {
		c.Index.Release(j.Lease)
		j.Lease = nil
	}
}

// Clear drops what the cache holds, but for what jobs hold of it.
func (c *Cache) Clear() (dropped, held int) {
	cleared := c.Index.Clear()
	c.evicted(cleared.Device, cleared.Lost)
	c.log.Emptied(c.Name, cleared.Host, cleared.Device)
	c.stats.Evictions += uint64(len(cleared.Device))
	return len(cleared.Device) + len(cleared.Host), cleared.Held
}
