package executor_test

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPassesArePrepared: what passes need is made beside the device, one after the other, while others go on there; a
// pass that is aborted meanwhile is closed once that has ended, and another one that is in the way.
func TestPassesArePrepared(t *testing.T) {
	play(t, `
		0 begin 1
		0 -> 1 prepares
		0 prepare 1
		2 begin 2
		2 -> 2 prepares
		3 begin 3
		7 step 3.1
		7 begin 4
		7 -> 4 prepares
		7 begin 5
		7 -> 5 prepares
		11 step 3.2
		11 close 3
		11 -> done 3 in 8ms
		20 -> paused 1 at 0.00
		20 close 2
		20 close 4
		20 prepare 5
		20 close 5
		20 -> done 5 in 0s: executor cpu-0: panic: while it is prepared
		24 step 1.1
		28 step 1.2
		28 close 1
		28 -> done 1 in 8ms
	`, func(s *stage) {
		s.runner.preparing = map[wire.PassID]time.Duration{1: 20 * time.Millisecond, 2: time.Hour, 4: 0, 5: 0}
		s.at(0, of(1, "c", 1))
		s.at(2, of(2, "c", 1))
		s.at(3, of(3, "c", 1))
		s.at(4, nested(4, "c", 1), nested(5, "c", 1))
		s.at(10, &wire.Abort{Pass: 2}, &wire.Abort{Pass: 4})
		s.at(20, &wire.Resume{Pass: 1})
	})
}

// TestPreparedIsDropped: a new scheduler does not hear of passes that an old one had prepared, and none is left open.
func TestPreparedIsDropped(t *testing.T) {
	play(t, `
		0 begin 1
		0 -> 1 prepares
		0 prepare 1
		1 begin 2
		1 -> 2 prepares
		20 close 1
		20 close 2
		30 begin 3
		30 -> 3 prepares
		30 prepare 3
		1080 close 3
	`, func(s *stage) {
		s.runner.preparing = map[wire.PassID]time.Duration{1: 20 * time.Millisecond, 2: time.Hour, 3: 1050 * time.Millisecond}
		s.at(0, of(1, "c", 1))
		s.at(1, of(2, "c", 1))
		s.at(5, &wire.Welcome{Epoch: 2})
		s.at(6, &wire.Welcome{Epoch: 2}, &wire.Welcome{Epoch: 2})
		s.at(30, of(3, "c", 1))
		s.at(40, &wire.Lost{})
		time.Sleep(100 * time.Millisecond)
	})
}
