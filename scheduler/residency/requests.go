package residency

import "math"

// Requests is the work of a demand whose jobs wait until they are served. A load is the setup time of the family of jobs
// that wait for it: each pays its part of it, and of what it takes to load again what others lose.
//
// The key is that of the job that runs next, in the order of the demand's own policy: its seconds and its part of the
// loads, less what waiting is worth to it. A demand that is there and empty stands for the job that it expects.
//
// No job starves. Let c be its own seconds, those of its demand's whole load and of as much again for others. Its key is at most
// c - aging*waited, and that of any job that comes later than c/aging after it is greater, whatever it needs. So
// it is overtaken by jobs that come within c/aging alone: it waits for those and for what was there when it came, each
// with a load, and for one pass and one load that have begun. That is if its demand's policy does not overtake it for
// longer itself.
type Requests struct {
	Service float64 // seconds of the job that runs next; of a usual one, if none waits
	Waited  float64 // seconds that it has waited
	Jobs    int     // that wait
	Next    float64 // seconds until a job is expected, if none waits; see Arrivals
}

// Aging is the seconds of work that a second of waiting is worth. It is the same for all demands, or jobs of a demand that ages
// slowly could starve behind another's. With more of it the order is nearer to that of arrival, which loads more.
const Aging = 0.05

// Key implements Work.
func (r Requests) Key(load, back float64) float64 {
	if r.Jobs == 0 {
		return r.Service + load + back + r.Next
	}
	return r.Service + (load+back)/float64(r.Jobs) - Aging*r.Waited
}

// Arrivals expects when the next job of a demand comes. The zero value expects none.
type Arrivals struct {
	jobs int
	gap  float64 // mean seconds between jobs
	last float64 // when one came
}

// gapStep is the weight of the newest gap in the mean.
const gapStep = 0.1

// Add says that a job has come.
func (a *Arrivals) Add(now float64) {
	switch gap := now - a.last; {
	case a.jobs == 1:
		a.gap = gap
	case a.jobs > 1:
		a.gap += gapStep * (gap - a.gap)
	}
	a.jobs++
	a.last = now
}

// Next is the seconds until the next job: the mean gap, or as long as none has come if that is longer.
func (a *Arrivals) Next(now float64) float64 {
	if a.jobs < 2 {
		return math.Inf(1)
	}
	return max(a.gap, now-a.last)
}
