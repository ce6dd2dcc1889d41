package link

import "time"

// Link sends messages one after the other. Its calls are in order of time.
type Link struct {
	trace  Trace
	burst  float64       // bytes that may go at once after a pause
	travel time.Duration // of each message, once it is through the bucket

	at       time.Duration // until when the trace is used up
	tokens   float64       // bytes that may go at once, then
	estimate float64
}

// New is a link with a trace's rate and half of a round trip's time to travel.
func New(trace Trace, burst int, rtt time.Duration) *Link {
	return &Link{trace: trace, burst: float64(burst), travel: rtt / 2}
}

// Send is when a message arrives whose bytes are there now; Never is possible.
func (l *Link) Send(now time.Duration, bytes int) time.Duration {
	if l.at == Never {
		return Never
	}
	start := max(now, l.at)
	if now > l.at {
		l.tokens = min(l.burst, l.tokens+l.trace.Bytes(l.at, now))
	}
	need := float64(bytes) - l.tokens
	l.at, l.tokens = start, max(-need, 0)
	if need > 0 {
		l.at = l.trace.When(start, need)
		if l.at == Never {
			return Never
		}
		l.updateEstimate(need, l.at-start)
	}
	return l.at + l.travel
}

// newest is the weight of the last message in the estimate.
const newest = 0.5

func (l *Link) updateEstimate(bytes float64, took time.Duration) {
	if took <= 0 {
		return
	}
	rate := bytes / took.Seconds()
	if l.estimate == 0 {
		l.estimate = rate
	}
	l.estimate += newest * (rate - l.estimate)
}

// Estimate is the rate that messages had of late, in bytes a second; 0 before the first one that had to wait.
func (l *Link) Estimate() float64 { return l.estimate }

// Backlog is how many bytes wait.
func (l *Link) Backlog(now time.Duration) int {
	if l.at <= now {
		return 0
	}
	return int(l.trace.Bytes(now, l.at))
}

// Travel is how long a message takes that has not to wait, one way.
func (l *Link) Travel() time.Duration { return l.travel }
