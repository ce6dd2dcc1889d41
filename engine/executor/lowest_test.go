package executor_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/wire"
)

func lowest(id wire.PassID, model string, layers int) *wire.Run {
	r := of(id, model, layers)
	r.Lowest = true
	return r
}

// TestLowestPassesStandStill: a pass of lowest jobs is stepped while there is no other, makes way for one at its next
// boundary and goes on by itself, and the next one of its kind comes after it.
func TestLowestPassesStandStill(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		8 step 1.2
		8 begin 3
		12 step 3.1
		16 step 3.2
		16 close 3
		16 -> done 3 in 8ms
		20 step 1.3
		24 step 1.4
		24 close 1
		24 -> done 1 in 16ms
		24 begin 2
		28 step 2.1
		32 step 2.2
		32 close 2
		32 -> done 2 in 8ms
	`, func(s *stage) {
		s.at(0, lowest(1, "c", 2), lowest(2, "c", 1))
		s.at(3, of(3, "c", 1))
	})
}

// TestLowestPassesWaitForLoads: a load has all of the time beside them, and what nests does not wait for a boundary.
func TestLowestPassesWaitForLoads(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		4 begin 2
		8 step 2.1
		12 step 2.2
		12 close 2
		12 -> done 2 in 8ms
		12 load 3 for b
		22 load 2 for b
		32 -> loaded 7: 2 in 20ms
		36 step 1.2
		36 close 1
		36 -> done 1 in 8ms
	`, func(s *stage) {
		s.at(0, lowest(1, "c", 1))
		s.at(2, nested(2, "c", 1), &wire.Load{Serial: 7, Model: "b", Weights: []uint32{3, 2}})
	})
}

// TestLowestPassesGiveUpTheirRoom: a pass that finds no room beside one that stands still takes its room; a pass of
// lowest jobs that finds none is refused.
func TestLowestPassesGiveUpTheirRoom(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		8 step 1.2
		8 close 1
		8 -> done 1 in 8ms: pass 2 took its room
		8 begin 2
		12 step 2.1
		16 step 2.2
		16 -> paused 2 at 0.50
		16 -> done 3 in 0s: no room
		21 step 2.3
		25 step 2.4
		25 close 2
		25 -> done 2 in 16ms
	`, func(s *stage) {
		s.runner.alone = map[wire.PassID]bool{2: true, 3: true}
		s.at(0, lowest(1, "c", 2))
		s.at(3, of(2, "c", 2))
		s.at(13, &wire.Pause{Pass: 2}, lowest(3, "c", 1))
		s.at(17, &wire.Resume{Pass: 2})
	})
}

// TestLowestPassesAreDropped: by an Abort, begun or not.
func TestLowestPassesAreDropped(t *testing.T) {
	play(t, `
		0 begin 1
		4 step 1.1
		4 close 1
	`, func(s *stage) {
		s.at(0, lowest(1, "c", 2), lowest(2, "c", 2))
		s.at(3, &wire.Abort{Pass: 2}, &wire.Abort{Pass: 1})
	})
}
