package architecture

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// TestSeenCountsPairs compares with counting them one by one.
func TestSeenCountsPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var segs []kernels.Segment
		rows, pairs, window := 0, 0, random.IntN(3)*random.IntN(50)
		for range random.IntN(4) {
			s := kernels.Segment{Rows: 1 + random.IntN(40), Pos: random.IntN(80)}
			for at := s.Pos; at < s.Pos+s.Rows; at++ {
				rows++
				if pairs += at + 1; window > 0 {
					pairs -= max(0, at+1-window)
				}
			}
			segs = append(segs, s)
		}
		if r, p := countSeenPairs(segs, window); r != float64(rows) || p != float64(pairs) {
			t.Fatalf("%+v with a window of %d: %v rows and %v pairs, counted %d and %d", segs, window, r, p, rows, pairs)
		}
	}
}
