package scheduler

import (
	"slices"
	"strings"

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
	Hashes []kvcache.Hash // stored: in the order of their prompt; removed: leaves first

	// Of stored blocks:
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
		Change: CacheStored, Rank: e.rank, Medium: e.medium(), Hashes: s.Hashes,
		Parent: s.Parent, Tokens: j.submit.Tokens[from : from+size], BlockTokens: j.chainOf,
	}
	if s.First == 0 {
		event.Salt = j.submit.Salt
	}
	c.events = append(c.events, event)
}

func (c *Core) noteRemoved(e *executor, hashes []kvcache.Hash) {
	if c.recording && len(hashes) > 0 {
		c.events = append(c.events, CacheEvent{Change: CacheRemoved, Rank: e.rank, Medium: e.medium(), Hashes: hashes})
	}
}

// noteCleared tells that an executor came or went: even when it comes, others may know of blocks that
// a scheduler before this one had announced.
func (c *Core) noteCleared(e *executor) {
	if c.recording {
		c.events = append(c.events, CacheEvent{Change: CacheCleared, Rank: e.rank, Medium: e.medium()})
	}
}

// medium names the kind of memory that an executor's cache is in, as vLLM does.
func (e *executor) medium() string {
	if strings.HasPrefix(e.info.Device, "cuda") {
		return "GPU"
	}
	return "CPU"
}

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
