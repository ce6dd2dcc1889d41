package dispatch

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Ended notes that the pass has ended and, if it went well, that it took so long by its executor's clock; 0 if that does
// not tell. It returns how long it ran, by ours.
func (p *Pass) Ended(took time.Duration, well bool) (ran time.Duration) {
	l, now := p.Lane, p.Lane.shared.Now
	ran = p.Ran + now - p.Started
	p.count()
	if !well {
		return ran
	}
	if took <= 0 && p.class == Live {
		took = ran
	}
	if took > 0 {
		l.Group.Stats.PassTime += took
		l.Cost.Observe(p.Work, took)
		l.told = now
	}
	if p.class == Live { // nobody waits for others to end
		l.longest = max(took.Seconds(), fading*l.longest)
	}
	if l.Info.Cost.Unit <= 0 {
		l.Executor.SetAging()
	}
	return ran
}

// fading is what each pass leaves of the longest one's length.
const fading = 0.98

// doubting is what a refusal leaves of the longest pass's length: twenty leave an eighth.
const doubting = 0.9

// Doubt notes that a promise was refused in a lane in which no pass tells any more how long they are. One odd pass, during which
// the machine stood still, would otherwise have its streams refused for ever.
func (l *Lane) Doubt() {
	if l.shared.Now-l.told > time.Second {
		l.Cost.Doubt()
		l.longest *= doubting
	}
}

// count counts a pass that has ended.
func (p *Pass) count() {
	s := &p.Lane.Group.Stats
	if s.PassUnits == nil {
		s.PassUnits = make([]uint64, len(wire.PassUnitBounds)+1)
	}
	at, _ := slices.BinarySearch(wire.PassUnitBounds[:], p.Work.Units)
	s.PassUnits[at]++
	s.Passes++
	s.ComputedUnits += uint64(p.Work.Units)
}
