package camera

import "time"

// ending says how long results are waited for once no more frames are taken. Who asks for the end does not wait long. A source that has ended by
// itself is worth more: a server that is started again, and has to load its networks, still gives the results of the last segments.
type ending struct {
	begun    bool
	at       time.Duration // when it began
	asked    bool          // it was asked for, and did not come by itself
	progress time.Duration // when a session began or a segment was done, the last time
}

const (
	patienceAsked = 10 * time.Second // from when the end was asked for
	patience      = 2 * time.Minute  // from the last progress on
	farewell      = 5 * time.Second  // after Ended
)

// beginEnding says whether it is the first that is heard of the end.
func (e *ending) beginEnding(now time.Duration, asked bool) bool {
	first := !e.begun
	if first || asked && !e.asked {
		e.begun, e.at, e.asked = true, now, asked
	}
	return first
}

// hasTimedOut says whether results have been waited for long enough, and that for longer by some time.
func (e *ending) hasTimedOut(now, longer time.Duration) bool {
	if e.asked {
		return now-e.at > patienceAsked+longer
	}
	return now-max(e.at, e.progress) > patience+longer
}
