package live

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestPaceHoldsToItsRate: of segments that come whenever they like no more are taken in any time than the rate and what a camera keeps; of a camera that captures by its rate,
// and sends when its link lets it, none waits.
func TestPaceHoldsToItsRate(t *testing.T) {
	const rate, of, most = 20.0, 10.0, 170.0
	for seed := range uint64(50) {
		pick := rand.New(rand.NewPCG(seed, 1))
		hasty, honest := pace{rate: rate, most: most}, pace{rate: rate, most: most}
		var took []time.Duration // of each segment that was taken
		kept, captured := 0, time.Duration(0)
		for now := time.Millisecond; now < 5*time.Minute; now += time.Duration(pick.IntN(2000)) * time.Millisecond {
			for range pick.IntN(8) {
				if hasty.waitForFrame(now, of) == 0 {
					hasty.takeFrame(of)
					took = append(took, now)
				}
			}
			for ; captured+time.Second/2 <= now; captured += time.Second / 2 {
				kept = min(kept+1, most/of-1) // beside the segment that it captures
			}
			if pick.IntN(10) > 0 {
				continue // its link carries nothing
			}
			for ; kept > 0; kept-- {
				if w := honest.waitForFrame(now, of); w > 0 {
					t.Fatalf("seed %d: at %v a segment waits for %v", seed, now, w)
				}
				honest.takeFrame(of)
			}
		}
		for i := range took {
			for k := i; k < len(took); k++ {
				if frames := float64(k-i+1) * of; frames > most+rate*slack*(took[k]-took[i]).Seconds()+1e-6 {
					t.Fatalf("seed %d: %v frames from %v to %v", seed, frames, took[i], took[k])
				}
			}
		}
		if due := hasty.waitForFrame(10*time.Minute, 1e9); due != 0 {
			t.Errorf("a segment of any size waits for %v", due)
		}
	}
}
