package kvcache

import (
	"reflect"
	"testing"
)

func newTiers(t *testing.T, blocks, host int) *Index {
	t.Helper()
	x, err := New(Config{BlockTokens: 4, NumBlocks: blocks, HostBlocks: host, Eviction: EvictLRU})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// through runs one sequence that may load, and returns its lease and moves.
func through(x *Index, chain []Hash) (*Lease, Moves) {
	l, m := x.Acquire(Request{Chain: chain, Reuse: len(chain), Fill: len(chain), Load: true})
	x.Commit(l)
	x.Release(l)
	return l, m
}

func blocksOf(saves []Save) (blocks, replaced []Hash) {
	for _, s := range saves {
		blocks = append(blocks, s.Block)
		if s.Replaced != (Hash{}) {
			replaced = append(replaced, s.Replaced)
		}
	}
	return blocks, replaced
}

func TestEvictedBlocksAreLoadedAgain(t *testing.T) {
	x := newTiers(t, 3, 8)
	a, b := testChain(1, 1, 1), testChain(2, 2, 2)
	through(x, a)
	_, m := through(x, b)
	if saved, _ := blocksOf(m.Saves); !reflect.DeepEqual(saved, []Hash{a[2], a[1], a[0]}) || len(m.Lost) > 0 {
		t.Errorf("saved %v, lost %v, want the chain before, leaf first, and none", saved, m.Lost)
	}
	if resident, all := x.Reach(a); resident != 0 || all != 3 {
		t.Errorf("%d blocks resident, %d in either tier, want 0 and 3", resident, all)
	}
	l, m := through(x, a)
	if l.Reused != 0 || len(l.Loads) != 3 || len(m.Saves) != 3 {
		t.Errorf("lease %+v, saves %v, want three loads and three saves", l, m.Saves)
	}
	if _, m = through(x, b); len(m.Evicted) != 3 || len(m.Saves) > 0 {
		t.Errorf("evicted %v, saves %v: host memory holds the blocks still", m.Evicted, m.Saves)
	}
}

func TestLoadsNeedLeave(t *testing.T) {
	x := newTiers(t, 3, 8)
	a := testChain(1, 1, 1)
	through(x, a)
	through(x, testChain(2, 2, 2))
	if l, _ := x.Acquire(Request{Chain: a, Reuse: 3, Fill: 3}); len(l.Loads) > 0 || l.Cached() > 0 || len(l.Pages) != 3 {
		t.Errorf("lease %+v of a sequence that is not to load", l)
	}
}

func TestHostMemoryForgetsTheOldestLeaf(t *testing.T) {
	x := newTiers(t, 2, 6)
	a, b, c, d := testChain(1, 1), testChain(2, 2), testChain(3, 3), testChain(4, 4)
	for _, chain := range [][]Hash{a, b, c, a, d} { // host memory: c, b, and a, which was used after both
		through(x, chain)
	}
	_, m := through(x, testChain(5, 5))
	if _, replaced := blocksOf(m.Saves); !reflect.DeepEqual(replaced, []Hash{b[1], b[0]}) || !reflect.DeepEqual(m.Lost, replaced) {
		t.Errorf("%v made room, lost %v, want the chain that was not used for longest, leaf first", replaced, m.Lost)
	}
}

func TestLoadingBlocksAreNotReplaced(t *testing.T) {
	x := newTiers(t, 3, 2)
	a := testChain(1, 1)
	through(x, a)
	through(x, testChain(2, 2, 2))
	l, m := x.Acquire(Request{Chain: a, Reuse: 2, Load: true})
	if len(l.Loads) != 2 || len(m.Saves) != 0 || len(m.Lost) != 2 {
		t.Errorf("lease %+v, moves %+v, want two loads for which what is evicted is lost", l, m)
	}
	if err := x.CheckIntegrity([]*Lease{l}); err != nil {
		t.Error(err)
	}
	x.Release(l)
	if _, m = through(x, testChain(3, 3, 3)); len(m.Saves) != 1 {
		t.Errorf("saves %v when the loads are done, want the one block that is still there", m.Saves)
	}
}
