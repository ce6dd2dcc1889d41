// Package events tells what prefix caches store and remove, for routers that keep indexes of their own.
package events

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
)

// Change says what an Event tells of.
type Change uint8

// The changes.
const (
	Stored  Change = iota // blocks became matchable
	Removed               // blocks were evicted
	Cleared               // nothing is left of what was there
)

// Event is a change of the prefix cache of one model on one executor. What it holds is read only.
type Event struct {
	Change Change
	Model  string
	Rank   int            // the cache's number: the smallest that no other one had when it came
	Medium string         // of the cache: CPU or GPU
	Hashes []kvcache.Hash // stored: in the order of their prompt, but in host memory leaves first, as removed

	// Of stored blocks, of those in host memory the last alone:
	Parent      kvcache.Hash     // of the first one; kvcache.RootHash if that begins its prompt
	Tokens      []engine.TokenID // of all of them, BlockTokens each
	BlockTokens int
	Salt        string // of the prompt, where the first one begins it
}

// vLLM's names of memory. Every executor's own memory is mediumDevice, the processor's too, as in
// vLLM: consumers take anything else for blocks that must be loaded before they are of use.
const (
	mediumDevice = "GPU"
	mediumHost   = "CPU"
)

// Log keeps Events, once it is told to. An index built from those of a rank is equal to that cache's.
type Log struct {
	On     bool    // else nothing is kept
	Events []Event // since whoever reads them emptied it last
}

// Cache is one cache as its events name it.
type Cache struct {
	Model       string
	Rank        int
	BlockTokens int
}

// Stored tells that blocks of a prompt became matchable.
func (l *Log) Stored(c Cache, prompt []engine.TokenID, salt string, s kvcache.Stored) {
	if !l.On || len(s.Hashes) == 0 {
		return
	}
	from, size := s.First*c.BlockTokens, len(s.Hashes)*c.BlockTokens
	event := Event{
		Change: Stored, Model: c.Model, Rank: c.Rank, Medium: mediumDevice, Hashes: s.Hashes,
		Parent: s.Parent, Tokens: prompt[from : from+size], BlockTokens: c.BlockTokens,
	}
	if s.First == 0 {
		event.Salt = salt
	}
	l.Events = append(l.Events, event)
}

// Moved tells what an Acquire has moved: what comes to host memory before it leaves the device, so
// that nobody takes it for lost.
func (l *Log) Moved(c Cache, m *kvcache.Moves) {
	if !l.On {
		return
	}
	var stored, removed []kvcache.Hash
	told := map[kvcache.Hash]bool{}
	for _, s := range m.Saves {
		if told[s.Block] || told[s.Replaced] { // it came and goes, or the other way round
			l.addHostEvents(c, stored, removed)
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
	l.addHostEvents(c, stored, removed)
	l.addRemoved(c, mediumDevice, m.Evicted)
}

// Emptied tells that blocks were dropped from host memory and from the device.
func (l *Log) Emptied(c Cache, host, device []kvcache.Hash) {
	l.addRemoved(c, mediumHost, host)
	l.addRemoved(c, mediumDevice, device)
}

// Cleared tells that a cache came or went: even when it comes, others may know of blocks that
// a scheduler before this one had announced.
func (l *Log) Cleared(c Cache) {
	if l.On {
		l.Events = append(l.Events, Event{Change: Cleared, Model: c.Model, Rank: c.Rank, Medium: mediumDevice})
	}
}

// addHostEvents tells of blocks that came to host memory and others that left it, as vLLM's offloading
// connector does: with neither parents nor tokens, which were told when the device stored them.
func (l *Log) addHostEvents(c Cache, stored, removed []kvcache.Hash) {
	l.addRemoved(c, mediumHost, removed)
	if len(stored) > 0 {
		l.Events = append(l.Events, Event{
			Change: Stored, Model: c.Model, Rank: c.Rank, Medium: mediumHost, Hashes: stored,
			Parent: kvcache.RootHash, BlockTokens: c.BlockTokens,
		})
	}
}

func (l *Log) addRemoved(c Cache, medium string, hashes []kvcache.Hash) {
	if l.On && len(hashes) > 0 {
		l.Events = append(l.Events, Event{Change: Removed, Model: c.Model, Rank: c.Rank, Medium: medium, Hashes: hashes})
	}
}
