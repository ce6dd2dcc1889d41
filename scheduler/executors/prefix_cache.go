package executors

import (
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/events"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// PrefixCache is the prefix cache of a model on an executor.
type PrefixCache struct {
	Name  events.Cache   // as events name it
	Index *kvcache.Index // without pages where the model has no prefix cache

	limits wire.TokenLimits
	log    *events.Log
	stats  *wire.ModelStats // of the model on all executors
	queues []*queue.Queue   // that follow it
	saves  []wire.Copy      // that go with the next pass
}

// NewPrefixCache makes an empty cache of a model's limits. Its changes go to a log, what is found there is counted.
func NewPrefixCache(model string, limits wire.TokenLimits, eviction kvcache.Eviction, log *events.Log, stats *wire.ModelStats) (*PrefixCache, error) {
	index, err := kvcache.New(kvcache.Config{
		BlockTokens: limits.BlockTokens, NumBlocks: limits.NumBlocks, HostBlocks: limits.HostBlocks, Eviction: eviction,
	})
	if err != nil {
		return nil, err
	}
	name := events.Cache{Model: model, BlockTokens: limits.BlockTokens}
	return &PrefixCache{Name: name, Index: index, limits: limits, log: log, stats: stats}, nil
}

// SetFollowers has queues hear of what comes and goes, instead of those before.
func (c *PrefixCache) SetFollowers(queues ...*queue.Queue) { c.queues = queues }

// ChainPrompt computes a job's block chain for the cache's block size, or of the one that it has what is missing; it says whether
// it was made with another size before.
func (c *PrefixCache) ChainPrompt(h *kvcache.Hasher, j *queue.Job, salt string, caching bool) (anew bool) {
	j.Parts = c.limits.CopiesParts
	if j.ChainOf == c.limits.BlockTokens {
		if j.Root != (kvcache.Hash{}) {
			j.Chain = h.Extend(j.Chain, j.Prompt, j.ChainOf, salt)
		}
		return false
	}
	j.ChainOf = c.limits.BlockTokens
	j.Chain, j.Root = nil, kvcache.Hash{}
	if caching && c.limits.NumBlocks > 0 {
		j.Chain, j.Root = h.Chain(j.Prompt, j.ChainOf, salt), h.Root(salt)
	}
	return true
}

// LeasePages gets a job so many pages of its own, and those that it reads and fills for others, who are known to want so many
// of its leading blocks; those waiting may say which blocks they want. It returns how many tokens the job finds; ok is false if there are too few pages.
func (c *PrefixCache) LeasePages(j *queue.Job, own, shared int, lowest bool, q *queue.Queue) (found int, ok bool) {
	r := kvcache.Request{
		Chain: j.Chain, Reuse: j.Usable(), Load: j.Loads > 0, Fill: len(j.Chain), Pages: own,
		Shared: shared, Wanted: q.Wanted, Sequence: j.Compared(), Lowest: lowest,
	}
	if lowest {
		r.Wanted = c.isWanted
	}
	lease, moves := c.Index.Acquire(r)
	if lease == nil {
		return 0, false
	}
	c.stats.Evictions += uint64(len(moves.Evicted))
	c.tellEvicted(moves.Evicted, moves.Lost)
	for _, s := range moves.Saves {
		c.saves = append(c.saves, wire.Copy{Device: wire.BlockID(s.Device), Host: wire.BlockID(s.Host)})
	}
	c.log.Moved(c.Name, &moves)
	j.Lease, j.Filled = lease, false
	j.Cached, j.Loads, j.Part = lease.Cached(), len(lease.Loads), lease.Part.Tokens
	return c.countFound(j), true
}

// isWanted says whether a waiting job would read a block and none after it.
func (c *PrefixCache) isWanted(h kvcache.Hash) bool {
	for _, q := range c.queues {
		if q.Wanted(h) {
			return true
		}
	}
	return false
}

// countFound counts what a job's lease has found in the cache, in tokens.
func (c *PrefixCache) countFound(j *queue.Job) int {
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

// tellEvicted has the queues follow blocks that left the device.
func (c *PrefixCache) tellEvicted(hashes, lost []kvcache.Hash) {
	for _, q := range c.queues {
		q.Evicted(hashes, lost)
	}
}

// CommitPages makes the blocks that a job's pass has filled matchable.
func (c *PrefixCache) CommitPages(j *queue.Job, salt string) {
	stored := c.Index.Commit(j.Lease)
	for _, q := range c.queues {
		q.Stored(stored.Hashes)
	}
	c.log.Stored(c.Name, j.Prompt, salt, stored)
}

// ReleasePages gives a job's pages back, if it has some.
func (c *PrefixCache) ReleasePages(j *queue.Job) {
	if j.Lease != nil {
		c.Index.Release(j.Lease)
		j.Lease = nil
	}
}

// ClearPages drops what the cache holds, but for what jobs hold of it.
func (c *PrefixCache) ClearPages() (dropped, held int) {
	cleared := c.Index.Clear()
	c.tellEvicted(cleared.Device, cleared.Lost)
	c.log.Emptied(c.Name, cleared.Host, cleared.Device)
	c.stats.Evictions += uint64(len(cleared.Device))
	return len(cleared.Device) + len(cleared.Host), cleared.Held
}

// TakeSaves takes the copies to host memory that go with the next pass.
func (c *PrefixCache) TakeSaves() (saves []wire.Copy) {
	saves, c.saves = c.saves, nil
	return saves
}

// appendLoads adds the copies from host memory that a job's pass begins with.
func appendLoads(to []wire.Copy, j *queue.Job) []wire.Copy {
	for _, c := range j.Lease.Loads {
		to = append(to, wire.Copy{Device: wire.BlockID(c.Device), Host: wire.BlockID(c.Host)})
	}
	return to
}

// leasedPages are a job's pages in the form that travels.
func leasedPages(j *queue.Job) []wire.BlockID {
	ids := make([]wire.BlockID, len(j.Lease.Pages))
	for i, p := range j.Lease.Pages {
		ids[i] = wire.BlockID(p)
	}
	return ids
}

// leasedPart is what a job's pass is to copy from a block of another one.
func leasedPart(j *queue.Job) wire.Part {
	if j.Continues() || j.Lease.Part.Tokens == 0 {
		return wire.Part{}
	}
	return wire.Part{Block: wire.BlockID(j.Lease.Part.Page), Tokens: j.Lease.Part.Tokens}
}
