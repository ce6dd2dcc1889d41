package model

import (
	"math/rand/v2"
	"testing"
)

// TestStreams takes and gives back memory for residual streams at random, beside a map of bytes.
func TestStreams(t *testing.T) {
	const resident, all = 100, 160
	random := rand.New(rand.NewPCG(3, 4))
	s := streamMemory{resident: resident, free: []extent{{0, resident}, {resident, all}}}
	var owner [all]int
	lent := map[int64]int64{}
	for i := 1; i < 100000; i++ {
		if size := 1 + random.Int64N(30); random.IntN(2) == 0 {
			at, ok := s.lendBytes(size)
			if !ok {
				continue
			}
			if at < resident && at+size > resident {
				t.Fatalf("%d bytes at %d are on the device in part", size, at)
			}
			for b := at; b < at+size; b++ {
				if owner[b] != 0 {
					t.Fatalf("byte %d is lent twice", b)
				}
				owner[b] = i
			}
			lent[at] = size
		} else {
			for at, size := range lent {
				s.returnBytes(at, size)
				clear(owner[at : at+size])
				delete(lent, at)
				break
			}
		}
		var free int64
		for k, e := range s.free {
			free += e.to - e.from
			if e.from >= e.to || k > 0 && s.free[k-1].to >= e.from && e.from != resident {
				t.Fatalf("free are %v", s.free)
			}
		}
		for _, o := range owner {
			if o != 0 {
				free++
			}
		}
		if free != all {
			t.Fatalf("%d of %d bytes are free or lent: %v", free, all, s.free)
		}
	}
}
