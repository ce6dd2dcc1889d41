package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// CacheChange says what a CacheEvent tells of.
type CacheChange uint8

// The changes.
const (
	CacheStored  CacheChange = iota // blocks became matchable
	CacheRemoved                    // blocks were evicted
	CacheCleared                    // nothing is left of what was there
)

// CacheEvent is a change of one executor's prefix cache. What it holds is read only.
type CacheEvent struct {
	Change CacheChange
	Rank   int            // the executor's number: the smallest that no other one had when it came
	Medium string         // of the cache: CPU or GPU
	Hashes []kvcache.Hash // stored: in the order of their prompt, but in host memory leaves first, as removed

	// Of stored blocks, of those in host memory the last alone:
	Parent      kvcache.Hash     // of the first one; kvcache.RootHash if that begins its prompt
	Tokens      []engine.TokenID // of all of them, BlockTokens each
	BlockTokens int
	Salt        string // of the prompt, where the first one begins it
}

// RecordCacheEvents makes the Core keep CacheEvents from now on.
func (c *Core) RecordCacheEvents() { c.recording = true }

// CacheEvents returns the changes of the last Step, in their order; the slice is valid until the next
// one. An index built from the events of a rank is equal to that executor's.
func (c *Core) CacheEvents() []CacheEvent { return c.events }

func (c *Core) noteStored(e *executor, j *job, s kvcache.Stored) {
	if !c.recording || len(s.Hashes) == 0 {
		return
	}
	from, size := s.First*j.chainOf, len(s.Hashes)*j.chainOf
	event := CacheEvent{
		Change: CacheStored, Rank: e.rank, Medium: mediumDevice, Hashes: s.Hashes,
		Parent: s.Parent, Tokens: j.submit.Tokens[from : from+size], BlockTokens: j.chainOf,
	}
	if s.First == 0 {
		event.Salt = j.submit.Salt
	}
	c.events = append(c.events, event)
}

// noteMoves tells what an Acquire has moved: what comes to host memory before it leaves the device, so
// that nobody takes it for lost.
func (c *Core) noteMoves(e *executor, m *kvcache.Moves) {
	if !c.recording {
		return
	}
	var stored, removed []kvcache.Hash
	told := map[kvcache.Hash]bool{}
	for _, s := range m.Saves {
		if told[s.Block] || told[s.Replaced] { // it came and goes, or the other way round
			c.noteHost(e, stored, removed)
			stored, removed = nil, nil
			clear(told)
		}
		stored = append(stored, s.Block)
		told[s.Block] = true
		if s.Replaced != (kvcache.Hash{}) {
			removed = append(removed, s.Replaced)
			told[s.Replaced] = true
		}
	}
	c.noteHost(e, stored, removed)
	c.noteRemoved(e, mediumDevice, m.Evicted)
}

// noteHost tells of blocks that came to host memory and others that left it, as vLLM's offloading
// connector does: with neither parents nor tokens, which were told when the device stored them.
func (c *Core) noteHost(e *executor, stored, removed []kvcache.Hash) {
	c.noteRemoved(e, mediumHost, removed)
	if len(stored) > 0 {
		c.events = append(c.events, CacheEvent{
			Change: CacheStored, Rank: e.rank, Medium: mediumHost, Hashes: stored,
			Parent: kvcache.RootHash, BlockTokens: e.info.BlockTokens,
		})
	}
}

func (c *Core) noteRemoved(e *executor, medium string, hashes []kvcache.Hash) {
	if len(hashes) > 0 {
		c.events = append(c.events, CacheEvent{Change: CacheRemoved, Rank: e.rank, Medium: medium, Hashes: hashes})
	}
}

// noteCleared tells that an executor came or went: even when it comes, others may know of blocks that
// a scheduler before this one had announced.
func (c *Core) noteCleared(e *executor) {
	if c.recording {
		c.events = append(c.events, CacheEvent{Change: CacheCleared, Rank: e.rank, Medium: mediumDevice})
	}
}

// vLLM's names of memory. Every executor's own memory is mediumDevice, the processor's too, as in
// vLLM: consumers take anything else for blocks that must be loaded before they are of use.
const (
	mediumDevice = "GPU"
	mediumHost   = "CPU"
)

// freeRank is the smallest number that no executor has.
func (c *Core) freeRank() int {
	taken := make([]bool, len(c.executors)+1)
	for _, e := range c.executors {
		if e.rank < len(taken) {
			taken[e.rank] = true
		}
	}
	return slices.Index(taken, false)
}
