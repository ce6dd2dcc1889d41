package stages

import (
	"math"
	"math/bits"
	"time"
)

// halfLife is after how many stages of a kind and size an older one counts half.
const halfLife = 50

// weight is what one stage counts.
var weight = 1 - math.Exp2(-1./halfLife)

// longest is more than any stage is believed to take. What askers say is not to be trusted, and sums of it must not overflow.
const longest = 24 * time.Hour

func bound(duration float64) float64 { return min(max(0, duration), float64(longest)) }

// outlier is how many times what is expected a stage counts as at most: a process that was stopped for a minute says nothing of the next.
const outlier = 10

// tail is how many standard deviations above the mean nine of ten lie.
const tail = 1.28

// profile is what stages took of what was said that they take, by kind and size. Kinds are the caller's, and few.
type profile map[class]*ratio

type class struct {
	kind string
	size int // of Takes: the power of two of its microseconds
}

// ratio is the mean and variance of what was taken over what was said, each decaying.
type ratio struct {
	mean, variance float64
	trust          float64 // 1, and less with each stage since the last that ran that was dropped because of the mean: a wrong one does not bar all
	running        int     // stages that have a slot
}

// of is the ratio for a stage of which the asker says what it takes.
func (p profile) of(kind string, takes time.Duration) *ratio {
	of := class{kind, bits.Len64(uint64(takes.Microseconds()))}
	r := p[of]
	if r == nil {
		r = &ratio{mean: 1, trust: 1}
		p[of] = r
	}
	return r
}

// predictTime says what a stage takes, of which the asker says so: on average, and nine times of ten.
func (r *ratio) predictTime(takes time.Duration) (mean, most time.Duration) {
	t := bound(float64(takes))
	return time.Duration(bound(t * r.mean)), time.Duration(bound(t * (r.mean + tail*math.Sqrt(r.variance))))
}

// recordTime counts a stage that has ended.
func (r *ratio) recordTime(takes, took time.Duration) {
	r.trust = 1
	if takes <= 0 {
		return
	}
	d := min(bound(float64(took))/bound(float64(takes)), outlier*max(1, r.mean)) - r.mean
	r.mean += weight * d
	r.variance = (1 - weight) * (r.variance + weight*d*d)
}

// doubtBelief counts a stage that did not begin for what it was believed to take. While another runs, that will tell.
func (r *ratio) doubtBelief() {
	if r.running == 0 {
		r.trust *= 1 - weight
	}
}
