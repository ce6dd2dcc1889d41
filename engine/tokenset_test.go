package engine

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestTokenSet compares sets of both forms, and those between, with a map.
func TestTokenSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	forms := map[bool]int{}
	for range 3000 {
		spread, most := 1+random.IntN(400), random.IntN(60)
		has := map[TokenID]bool{}
		var ids []TokenID
		for range most {
			id := TokenID(random.IntN(spread))
			ids, has[id] = append(ids, id), true
		}
		given := slices.Clone(ids)
		s := NewTokenSet(ids...)
		if !slices.Equal(ids, given) {
			t.Fatal("the ids given are changed")
		}
		forms[s.Bits() != nil]++
		same(t, s, has, spread)

		words := make([]uint32, spread/32+3)
		for id := range has {
			words[id/32] |= 1 << (id % 32)
		}
		if twin := TokenSetOfBits(words); !reflect.DeepEqual(twin, s) {
			t.Fatalf("of bits %+v, of ids %+v", twin, s)
		}
		n := random.IntN(spread + 40)
		below := map[TokenID]bool{}
		for id := range has {
			if int(id) < n {
				below[id] = true
			}
		}
		same(t, s.Below(n), below, spread)
		same(t, s, has, spread)

		var more []TokenID
		for range random.IntN(4) {
			id := TokenID(random.IntN(3 * spread))
			more, has[id] = append(more, id), true
		}
		same(t, s.With(more...), has, 3*spread)
	}
	if forms[true] < 100 || forms[false] < 100 {
		t.Errorf("%d sets are bits, %d ids", forms[true], forms[false])
	}
}

// same holds a set to a map, and its form to be the smaller one.
func same(t *testing.T, s TokenSet, has map[TokenID]bool, spread int) {
	t.Helper()
	ids := s.IDs()
	if len(ids) != len(has) || s.Len() != len(has) || s.Empty() != (len(has) == 0) || !slices.IsSorted(ids) {
		t.Fatalf("%v has %d tokens, want those of %v", ids, s.Len(), has)
	}
	for i, id := range ids {
		if !has[id] || s.Nth(i) != id {
			t.Fatalf("token %d of %v is %d, want those of %v", i, ids, s.Nth(i), has)
		}
	}
	for id := range TokenID(spread + 70) {
		if s.Has(id) != has[id] {
			t.Fatalf("Has(%d) of %v", id, ids)
		}
	}
	if len(ids) > 0 && s.Last() != ids[len(ids)-1] {
		t.Fatalf("the last of %v is %d", ids, s.Last())
	}
	if len(ids) > 0 && (s.Bits() != nil) != (int(s.Last()/32)+1 < len(ids)) {
		t.Fatalf("%v is in the larger form", ids)
	}
}

// TestTokenSetFarApart holds that ids however great take no more memory than they are.
func TestTokenSetFarApart(t *testing.T) {
	s := NewTokenSet(1<<32-1, 3)
	if s.Bits() != nil || s.Last() != 1<<32-1 || !s.Has(3) {
		t.Errorf("%+v", s)
	}
	wide := make([]TokenID, 1000)
	for i := range wide {
		wide[i] = TokenID(i)
	}
	if all := NewTokenSet(wide...).With(1<<32 - 1); all.Bits() != nil || all.Len() != 1001 {
		t.Errorf("%d tokens, bits %v", all.Len(), all.Bits() != nil)
	}
}
