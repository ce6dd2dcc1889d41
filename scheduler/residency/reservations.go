package residency

import (
	"fmt"
	"slices"
)

// Reservation is what a stream asks of each frame. Times are in seconds.
type Reservation struct {
	Model    string
	Cost     float64 // an upper estimate of the device's seconds
	Deadline float64 // from arrival
	Priority int     // lower first: promises to streams of a higher number stand back
}

// MostUse is the share of a device that frames may be promised.
const MostReserved = 0.7

// Spare is the share of the shortest deadline that is left when a stream is admitted, beside all that is known to be needed:
// for messages on their way, for the few steps that are longer than the bound on them, and for a machine that stands
// still. Streams that are admitted may use it up as costs and bounds are measured anew.
const SpareDeadline = 0.1

const (
	// gaps is how many of a stream's last gaps between frames its rate is the mean of, and settledGaps how
	// many tell it. Until then a stream is taken to send a frame a deadline.
	gaps, settledGaps = 20, 5
	// slack is by how much a stream whose rate is known, and was admitted, may exceed what it was admitted for, as
	// rates and costs are measured; tolerance forgives rounding.
	slack, tolerance = 1.05, 1e-9
	// A stream is over when no frame has come for so many periods, and for quietest seconds.
	quietPeriods, quietest = 10, 1.0
)

// ReservationRefusal says why a frame's deadline is not promised.
type ReservationRefusal struct {
	Use   float64 // share of the device that the streams before it and it would take
	Peak  float64 // the same while all of them have a frame to compute, as they may: of the time until the deadlines
	Block float64 // share of the shortest deadline for which a frame may wait for a step of other work
}

func (r *ReservationRefusal) Error() string {
	if r.Use > MostReserved {
		return fmt.Sprintf("streams with promised deadlines would take %.0f %% of the device, the limit is %.0f %%", 100*r.Use, 100*MostReserved)
	}
	return fmt.Sprintf("streams with promised deadlines would take up to %.0f %% of the time until these, and waiting for a step of other work %.0f %%: more than the %.0f %% that are promised",
		100*r.Peak, 100*r.Block, 100*(1-SpareDeadline))
}

// stream is one whose frames have asked for a promise.
type stream struct {
	name string
	Reservation
	admitted bool
	last     float64   // when a frame came
	gaps     []float64 // between the last ones
}

// framePeriod is the seconds between frames.
func (s *stream) framePeriod() float64 {
	if len(s.gaps) < settledGaps {
		return s.Deadline
	}
	sum := 0.0
	for _, g := range s.gaps {
		sum += g
	}
	return sum / float64(len(s.gaps))
}

func (s *stream) deviceUse() float64 { return s.Cost / max(s.framePeriod(), 1e-9) }

// peakUse is the use while there is a frame to compute: each frame has until its deadline, even if the next one comes later.
func (s *stream) peakUse() float64 {
	return s.Cost / max(min(s.framePeriod(), s.Deadline), 1e-9)
}

// Reservations is the streams of one device. The zero value is one without any.
type Reservations struct {
	streams []*stream // by priority, and of one those admitted in the order of admission
}

// Admit takes in a frame that comes now, if this and all frames of streams before it can be in time. Before it are those of lower numbers of
// priority, and of its own those admitted earlier: what is promised to others it does not heed, and these are held against it when they send
// their next frame. Block is the longest time for which the device, once a frame is to run, may go on with other work. A stream that is
// refused is out: its next frame asks anew, behind all others of its priority.
//
// The test is that of Liu and Layland for the earliest deadline first, with Block for work that is not pre-empted, which frames of later
// deadlines are, too, and the shorter of period and deadline for the period (Liu, Real-Time Systems, theorem 6.2): block / (shortest deadline) + sum of
// cost / min(period, deadline) is at most 1 - Spare, or 1 for a stream that was admitted before; and the sum of
// cost / period is at most MostUse, as costs vary.
func (l *Reservations) Admit(now float64, name string, f Reservation, block float64) *ReservationRefusal {
	l.pruneStreams(now)
	s := l.recordFrame(now, name, f)
	r := ReservationRefusal{}
	shortest := f.Deadline
	before := l.before(s)
	for _, t := range before {
		r.Use += t.deviceUse()
		r.Peak += t.peakUse()
		shortest = min(shortest, t.Deadline)
	}
	for _, t := range before {
		if t.Deadline > shortest {
			block = max(block, t.Cost)
		}
	}
	r.Block = block / shortest
	most, whole := MostReserved+tolerance, 1-SpareDeadline+tolerance
	if s.admitted {
		whole = 1
		if len(s.gaps) > settledGaps {
			most = MostReserved * slack
		}
	}
	s.admitted = r.Use <= most && r.Block+r.Peak <= whole
	if s.admitted {
		return nil
	}
	return &r
}

// before lists the admitted streams up to one, and that.
func (l *Reservations) before(s *stream) (list []*stream) {
	for _, t := range l.streams {
		if t == s {
			break
		}
		if t.admitted {
			list = append(list, t)
		}
	}
	return append(list, s)
}

// recordFrame notes that a stream has sent a frame. One that is not admitted goes behind all others of its priority.
func (l *Reservations) recordFrame(now float64, name string, f Reservation) *stream {
	s := &stream{name: name, Reservation: f, last: now}
	if i := l.findStream(name); i >= 0 {
		s = l.streams[i]
		s.gaps = append(s.gaps, now-s.last)
		s.gaps = s.gaps[max(0, len(s.gaps)-gaps):]
		s.last = now
		stays := s.admitted && s.Priority == f.Priority
		if s.Reservation = f; stays {
			return s
		}
		l.streams = slices.Delete(l.streams, i, i+1)
	}
	at := slices.IndexFunc(l.streams, func(t *stream) bool { return t.Priority > f.Priority })
	if at < 0 {
		at = len(l.streams)
	}
	l.streams = slices.Insert(l.streams, at, s)
	return s
}

// Holds says whether a stream is admitted.
func (l *Reservations) Holds(name string) bool {
	i := l.findStream(name)
	return i >= 0 && l.streams[i].admitted
}

// Needs says whether an admitted stream is for a model.
func (l *Reservations) Needs(now float64, model string) bool {
	l.pruneStreams(now)
	return slices.ContainsFunc(l.streams, func(s *stream) bool { return s.admitted && s.Model == model })
}

// Models lists the models of admitted streams.
func (l *Reservations) Models(now float64) (names []string) {
	l.pruneStreams(now)
	for _, s := range l.streams {
		if s.admitted && !slices.Contains(names, s.Model) {
			names = append(names, s.Model)
		}
	}
	return names
}

// Forget drops the streams for a model. Their next frames ask anew.
func (l *Reservations) Forget(model string) {
	l.streams = slices.DeleteFunc(l.streams, func(s *stream) bool { return s.Model == model })
}

// Use is the share of the device that is promised.
func (l *Reservations) Use(now float64) float64 {
	l.pruneStreams(now)
	sum := 0.0
	for _, s := range l.streams {
		if s.admitted {
			sum += s.deviceUse()
		}
	}
	return sum
}

func (l *Reservations) findStream(name string) int {
	return slices.IndexFunc(l.streams, func(s *stream) bool { return s.name == name })
}

// pruneStreams forgets streams that are over.
func (l *Reservations) pruneStreams(now float64) {
	l.streams = slices.DeleteFunc(l.streams, func(s *stream) bool {
		return now-s.last > max(quietest, quietPeriods*s.framePeriod())
	})
}
