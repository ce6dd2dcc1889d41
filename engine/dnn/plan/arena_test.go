package plan

import (
	"math/rand/v2"
	"testing"
)

// TestPack: storages that are needed at a time share no bytes, and the arena ends where the last one does.
func TestPack(t *testing.T) {
	for name, pack := range map[string]func([]*storage) int64{"fit": packLargestFirst, "sweep": packInOrder} {
		t.Run(name, func(t *testing.T) { testPack(t, pack) })
	}
}

func testPack(t *testing.T, pack func([]*storage) int64) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var list []*storage
		for range 1 + random.IntN(60) {
			first := random.IntN(40)
			list = append(list, &storage{elements: 1 + random.IntN(300), weight: -1, first: first, last: first + random.IntN(8)})
		}
		bytes, end, most := pack(list), int64(0), int64(0)
		for at := range 50 {
			sum := int64(0)
			for _, s := range list {
				if s.first <= at && at <= s.last {
					sum += s.sizeBytes()
				}
			}
			most = max(most, sum)
		}
		for i, a := range list {
			if a.off < 0 || a.off%alignment != 0 {
				t.Fatalf("a storage at %d", a.off)
			}
			end = max(end, a.off+a.sizeBytes())
			for _, b := range list[:i] {
				if a.first <= b.last && b.first <= a.last && a.off < b.off+b.sizeBytes() && b.off < a.off+a.sizeBytes() {
					t.Fatalf("%+v overlaps %+v", *a, *b)
				}
			}
		}
		if bytes != end {
			t.Fatalf("%d bytes, used up to %d", bytes, end)
		}
		if bytes > 2*most {
			t.Fatalf("%d bytes, where %d are needed at a time", bytes, most)
		}
	}
}
