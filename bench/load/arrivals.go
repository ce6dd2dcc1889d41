package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Arrivals says when requests come. With Sessions unset every request is one arrival of a Poisson
// process, in random order; at an infinite rate all come at time 0, users in turn. With Sessions
// set, users arrive as a Poisson process, as in the paper, or all at time 0 at an infinite rate, and
// each user's requests follow each other Gap apart. The users' number is known, so their arrivals are
// those of a Poisson process that has as many of them in the time that the rate gives: even and
// independent over it.
type Arrivals struct {
	Rate     float64 // mean requests a second; may be +Inf
	Sessions bool
	Gap      time.Duration // between the requests of one session
}

// Validate reports a rate that cannot be kept.
func (a Arrivals) Validate() error {
	if !(a.Rate > 0) {
		return fmt.Errorf("invalid request rate %v: want a number above 0, or inf", a.Rate)
	}
	if a.Rate > 1e6 && !math.IsInf(a.Rate, 1) {
		return fmt.Errorf("invalid request rate %v: want at most 1e6 requests per second, or inf to send all at once", a.Rate)
	}
	if a.Gap < 0 {
		return fmt.Errorf("invalid gap %v between requests of a session: want 0 or more", a.Gap)
	}
	return nil
}

// Poisson sets the times of requests, in their order, to a Poisson process of the given rate.
func Poisson(requests []Request, rate float64, rng *rand.Rand) {
	var at float64
	for i := range requests {
		if !math.IsInf(rate, 1) {
			at += rng.ExpFloat64() / rate
		}
		requests[i].At = time.Duration(math.Round(at * 1e9))
	}
}

func (a Arrivals) scheduleSessions(sessions [][]Request, rng *rand.Rand) []Request {
	if !a.Sessions && math.IsInf(a.Rate, 1) {
		return interleaveUsers(sessions)
	}
	var all []Request
	if !a.Sessions {
		for _, s := range sessions {
			all = append(all, s...)
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		Poisson(all, a.Rate, rng)
		return all
	}
	total := 0
	for _, s := range sessions {
		total += len(s)
	}
	starts := make([]float64, len(sessions))
	for i := range starts {
		starts[i] = rng.Float64() * float64(total) / a.Rate
	}
	sort.Float64s(starts)
	for i, s := range sessions {
		for k := range s {
			s[k].At = time.Duration(math.Round(starts[i]*1e9)) + time.Duration(k)*a.Gap
		}
		all = append(all, s...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].At < all[j].At })
	return all
}

// interleaveUsers takes one request of each session in turn.
func interleaveUsers(sessions [][]Request) []Request {
	var all []Request
	for i, found := 0, true; found; i++ {
		found = false
		for _, s := range sessions {
			if i < len(s) {
				all, found = append(all, s[i]), true
			}
		}
	}
	return all
}
