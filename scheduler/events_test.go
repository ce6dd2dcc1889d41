package scheduler

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/events"
)

// prefix is what a router knows a block by: all tokens up to its end, and the salt of its prompt.
type prefix struct {
	tokens []engine.TokenID
	salt   string
}

// router rebuilds the indexes from encoded batches, as a router that knows no more does.
type router struct {
	t      testing.TB
	blocks map[int]map[uint64]prefix // by rank
	memory map[int]map[uint64]bool   // those in the host memory of a rank
	hasher kvcache.Hasher
}

func (r *router) take(batch []byte) {
	top, err := msgpack.NewDecoder(bytes.NewReader(batch)).DecodeSlice()
	if err != nil || len(top) != 3 {
		r.t.Fatalf("a batch reads as %v, %v", top, err)
	}
	rank := integer(top[2])
	for _, e := range top[1].([]any) {
		fields := e.([]any)
		switch fields[0] {
		case "BlockStored":
			r.stored(rank, fields)
		case "BlockRemoved":
			if fields[2] == "CPU" && r.memory != nil {
				r.forgotten(rank, hashesOf(fields[1]))
				continue
			}
			for _, h := range hashesOf(fields[1]) {
				if _, ok := r.blocks[rank][h]; !ok {
					r.t.Fatalf("rank %d removes %v, which it does not hold", rank, h)
				}
				delete(r.blocks[rank], h)
			}
		case "AllBlocksCleared":
			r.blocks[rank] = map[uint64]prefix{}
			if r.memory != nil {
				r.memory[rank] = map[uint64]bool{}
			}
		default:
			r.t.Fatalf("event %v", fields)
		}
	}
}

// stored takes blocks in, and computes their hashes anew from the tokens.
func (r *router) stored(rank int, fields []any) {
	if fields[6] == "CPU" && r.memory != nil {
		r.remembered(rank, hashesOf(fields[1]))
		return
	}
	var before prefix
	if fields[2] != nil {
		var ok bool
		if before, ok = r.blocks[rank][fields[2].(uint64)]; !ok {
			r.t.Fatalf("rank %d stores blocks below one that it does not hold", rank)
		}
	} else if len(fields) > 8 {
		before.salt = fields[8].([]any)[0].([]any)[0].(string)
	}
	all := slices.Clone(before.tokens)
	for _, id := range fields[3].([]any) {
		all = append(all, engine.TokenID(integer(id)))
	}
	hashes, size := hashesOf(fields[1]), integer(fields[4])
	chain := shortHashes(r.hasher.Chain(all, size, before.salt))
	if first := len(before.tokens) / size; !slices.Equal(chain[first:], hashes) {
		r.t.Fatalf("blocks %v, their tokens make %v", hashes, chain[first:])
	}
	for i, h := range chain {
		if _, held := r.blocks[rank][h]; held != (i*size < len(before.tokens)) {
			r.t.Fatalf("rank %d stores block %d of a prompt, held before: %v", rank, i, held)
		}
		r.blocks[rank][h] = prefix{all[:(i+1)*size], before.salt}
	}
}

// remembered takes blocks in that came to host memory: they are on the device still.
func (r *router) remembered(rank int, hashes []uint64) {
	for _, h := range hashes {
		if _, ok := r.blocks[rank][h]; !ok || r.memory[rank][h] {
			r.t.Fatalf("rank %d stores %v in host memory; on its device: %v, stored before: %v", rank, h, ok, r.memory[rank][h])
		}
		r.memory[rank][h] = true
	}
}

func (r *router) forgotten(rank int, hashes []uint64) {
	for _, h := range hashes {
		if !r.memory[rank][h] {
			r.t.Fatalf("rank %d removes %v from its host memory, which does not hold it", rank, h)
		}
		delete(r.memory[rank], h)
	}
}

func integer(field any) int {
	if v := reflect.ValueOf(field); v.CanUint() {
		return int(v.Uint())
	}
	return int(reflect.ValueOf(field).Int())
}

func hashesOf(field any) (hashes []uint64) {
	for _, h := range field.([]any) {
		hashes = append(hashes, h.(uint64))
	}
	return hashes
}

func shortHash(h *kvcache.Hash) uint64 { return binary.BigEndian.Uint64(h[len(h)-8:]) }

func shortHashes(chain []kvcache.Hash) (hashes []uint64) {
	for i := range chain {
		hashes = append(hashes, shortHash(&chain[i]))
	}
	return hashes
}

// TestEventsRebuildTheIndexes: what a router knows from the events is what the Core knows, after
// every step of random histories.
func TestEventsRebuildTheIndexes(t *testing.T) {
	stored, removed, tiered := 0, 0, 0
	for seed := range 150 {
		rng := rand.New(rand.NewPCG(uint64(seed), 54))
		cfg := DefaultConfig()
		cfg.Policy = Policies()[rng.IntN(len(Policies()))]
		cfg.Eviction = []kvcache.Eviction{kvcache.EvictReuse, kvcache.EvictLRU}[rng.IntN(2)]
		h := newHistory(t, rng, cfg, nil)
		h.core.RecordCacheEvents()
		r := &router{t: t, blocks: map[int]map[uint64]prefix{}}
		if h.info.HostBlocks > 0 {
			r.memory = map[int]map[uint64]bool{}
			tiered++
		}
		var prompts [][]kvcache.Hash
		h.follow = func(m wire.Message) {
			if s, ok := m.(*wire.Submit); ok {
				prompts = append(prompts, r.hasher.Chain(s.Work.(*engine.Tokens).IDs, h.info.BlockTokens, s.Salt))
			}
			for _, e := range h.core.CacheEvents() {
				r.take(events.Encode(0, []events.Event{e}))
				switch e.Change {
				case events.Stored:
					stored += len(e.Hashes)
				case events.Removed:
					removed += len(e.Hashes)
				}
			}
			r.compare(h.core, prompts)
		}
		for range 100 {
			h.move()
		}
		h.drain()
	}
	if stored < 1000 || removed < 1000 || tiered < 50 {
		t.Errorf("the histories stored %d blocks and removed %d, %d of them with host memory: too few to tell", stored, removed, tiered)
	}
}

// compare holds each executor's index to the router's.
func (r *router) compare(c *Core, prompts [][]kvcache.Hash) {
	living := map[int]bool{}
	for _, e := range c.fleet.Executors {
		if living[e.Instances[0].Cache.Name.Rank] {
			r.t.Fatalf("two executors have rank %d", e.Instances[0].Cache.Name.Rank)
		}
		living[e.Instances[0].Cache.Name.Rank] = true
		for _, chain := range prompts {
			known := 0
			for known < len(chain) && r.blocks[e.Instances[0].Cache.Name.Rank][shortHash(&chain[known])].tokens != nil {
				known++
			}
			all := known
			for all < len(chain) && r.memory[e.Instances[0].Cache.Name.Rank][shortHash(&chain[all])] {
				all++
			}
			if resident, reach := e.Instances[0].Cache.Index.Reach(chain); resident != known || reach != all {
				r.t.Fatalf("%d blocks of a prompt are resident at rank %d, with host memory %d; the router knows %d and %d", resident, e.Instances[0].Cache.Name.Rank, reach, known, all)
			}
		}
	}
	for rank, blocks := range r.blocks {
		if !living[rank] && len(blocks) > 0 {
			r.t.Fatalf("the router knows %d blocks of rank %d, which is gone", len(blocks), rank)
		}
	}
}

// TestNoEventsUnlessAskedFor: nobody pays for what nobody reads.
func TestNoEventsUnlessAskedFor(t *testing.T) {
	w := basic(t, nil)
	run := runs(w.submit("web", &submission{Job: 1, Tokens: tokens(1, 10), MaxTokens: 1}))[0]
	w.step("cpu", answer(run, 1))
	if events := w.core.CacheEvents(); len(events) != 0 || w.core.fleet.Executors[0].Instances[0].Cache.Index.Match(new(kvcache.Hasher).Chain(tokens(1, 8), 4, "")) != 2 {
		t.Errorf("events %+v without a listener, want none for two blocks stored", events)
	}
}
