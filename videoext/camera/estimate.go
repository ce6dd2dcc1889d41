package camera

import (
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
)

// estimate says how the link is, by how what was given to it is acknowledged.
//
// Only while something waits does the link show what it carries. From the first acknowledgement after a pause on, bytes and times are
// summed up: what was before it is the time of the way. A link that is faster than can be summed up shows at least how much it has
// carried when nothing waits any more.
type estimate struct {
	at          time.Duration
	delivered   int           // then
	outstanding int           // then
	progress    time.Duration // when something was acknowledged, or nothing waited

	began   time.Duration // when something began to wait
	carried int           // since then
	train   bool          // something has been acknowledged since then

	bytes int // summed up
	took  time.Duration
	rate  float64 // bytes a second; 0: unknown
}

const (
	enough  = 200 * time.Millisecond // after which what was summed up goes into the estimate
	newest  = 0.3                    // its weight there
	quiet   = time.Second            // without an acknowledgement, after which the link is said to carry nothing
	nothing = 1.0                    // bytes a second, of such a link: 0 would be one that is unknown
)

// observeDelivery takes in how many bytes were acknowledged in all, and how many are not yet.
func (e *estimate) observeDelivery(now time.Duration, delivered, outstanding int) {
	came, took, waited := delivered-e.delivered, now-e.at, e.outstanding > 0
	e.at, e.delivered, e.outstanding = now, delivered, outstanding
	switch {
	case came > 0 || !waited:
		e.progress = now
		if e.rate == nothing && waited { // it carries again
			e.rate, e.train = 0, false
		}
	case now-e.progress >= quiet:
		e.rate, e.bytes, e.took = nothing, 0, 0
	}
	if !waited {
		e.began, e.carried, e.train = now, 0, false
		return
	}
	e.carried += came
	if e.train && outstanding > 0 { // else nothing waited for a part of the time
		e.bytes, e.took = e.bytes+came, e.took+took
		e.sumUp()
	}
	e.train = e.train || came > 0
	if outstanding == 0 {
		e.endTransfer(now)
	}
}

func (e *estimate) sumUp() {
	if e.took < enough {
		return
	}
	rate := float64(e.bytes) / e.took.Seconds()
	if e.rate == 0 {
		e.rate = rate
	}
	e.rate += newest * (rate - e.rate)
	e.bytes, e.took = 0, 0
}

// endTransfer takes in that all has been carried.
func (e *estimate) endTransfer(now time.Duration) {
	least := float64(e.carried) / max(now-e.began, time.Millisecond).Seconds()
	if e.rate > 0 && least > e.rate {
		e.rate += newest * (least - e.rate)
	}
}

// methodLink is what methods are told. While nothing is known of the link, nothing is said to wait for it.
func (e *estimate) methodLink() method.Link {
	if e.rate == 0 {
		return method.Link{}
	}
	return method.Link{Bandwidth: e.rate, Backlog: e.outstanding}
}

// stalledFor is for how long something has waited and nothing was acknowledged.
func (e *estimate) stalledFor(now time.Duration) time.Duration {
	if e.outstanding == 0 {
		return 0
	}
	return now - e.progress
}
