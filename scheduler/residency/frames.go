package residency

import "math"

// Frames is the work of a stream whose frames die at a deadline. Its key is the seconds that a frame costs, which count
// the less the fewer of its frames have been served lately, less what each second without one is worth.
type Frames struct {
	Run    float64 // seconds of a pass of so many frames
	Frames int     // of a full pass: as many as can be in time together
	Share  float64 // of the stream's frames that were served lately; see Stream
	Idle   float64 // seconds since one was served
}

// sharePower is the power of the share in a key. Alone, share^p keeps cost * share^p the same for all streams: 0 is most
// frames, 1 proportional fairness, large ones give the least served stream most.
const sharePower = 1.5

// freshness is the seconds of a frame's cost that a second without one is worth. Without it gaps grow to seconds; with
// ten times as much demands take turns.
const freshness = 0.03

// Key implements Work. What others lose is in their shares before long, and does not count.
func (f Frames) Key(load, _ float64) float64 {
	return (f.Run+load)/float64(max(f.Frames, 1))*math.Pow(f.Share, sharePower) - freshness*f.Idle
}

// Stream counts what becomes of a stream's frames.
type Stream struct {
	served, all float64 // frames of lately
	at          float64 // when those were counted
	last        float64 // when one was served
}

// NewStream is a stream that begins now: until a frame is served it is idle since then, and none of its frames counts as served.
func NewStream(now float64) Stream { return Stream{at: now, last: now} }

// halfLife is the seconds in which what happened to a frame comes to count half as much.
const halfLife = 1.0

// Count says that frames have been served, and others died, by now.
func (s *Stream) Count(now float64, served, died int) {
	fade := math.Exp2((s.at - now) / halfLife)
	s.served = s.served*fade + float64(served)
	s.all = s.all*fade + float64(served+died)
	s.at = now
	if served > 0 {
		s.last = now
	}
}

// Work is the stream's work now, as a pass of so many frames that takes run seconds.
func (s *Stream) Work(now, run float64, frames int) Frames {
	share := 0.0
	if s.all > 0 {
		share = s.served / s.all
	}
	return Frames{Run: run, Frames: frames, Share: share, Idle: now - s.last}
}
