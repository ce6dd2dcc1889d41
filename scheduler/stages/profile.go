package stages

import (
	"math"
	"math/bits"
	"time"
)

// halfLife is after how many stages of a kind and size an older one counts half.
const halfLife = 50

// tail is how many standard deviations above the mean nine of ten lie.
const tail = 1.28

// profile is what stages took of what was said that they take, by kind and size. Kinds are the caller's, and few.
type profile map[class]*ratio

type class struct {
	kind string
	size int // of Takes: the power of two of its microseconds
}

// ratio is the mean and variance of what was taken over what was said, each decaying.
type ratio struct{ mean, variance float64 }

func classOf(kind string, takes time.Duration) class {
	return class{kind, bits.Len64(uint64(takes.Microseconds()))}
}

// predict says what a stage takes, of which the asker says so: on average, and nine times of ten.
func (p profile) predict(kind string, takes time.Duration) (mean, most time.Duration) {
	r := p[classOf(kind, takes)]
	if r == nil {
		return takes, takes
	}
	t := float64(takes)
	return time.Duration(t * r.mean), time.Duration(t * (r.mean + tail*math.Sqrt(r.variance)))
}

// note counts a stage that has ended.
func (p profile) note(kind string, takes, took time.Duration) {
	if takes <= 0 {
		return
	}
	of := classOf(kind, takes)
	r := p[of]
	if r == nil {
		r = &ratio{mean: 1}
		p[of] = r
	}
	weight := 1 - math.Exp2(-1./halfLife)
	d := float64(took)/float64(takes) - r.mean
	r.mean += weight * d
	r.variance = (1 - weight) * (r.variance + weight*d*d)
}
