package queue

import (
	"math"

	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// hrrn runs the job with the highest response ratio, 1 + waited / service time (Brinch Hansen,
// 1971), with the service time that is left after what the cache holds. Service times are rounded
// to classes about 2 % apart, so that a choice looks at one job a class, its oldest, and not at all.
//
// A waiting job's ratio grows without bound and that of a job just come is 1, so no job starves as
// long as the executor keeps up with the jobs that arrive.
//
// A prefix that comes into the cache changes each ratio by another factor, so a change of the cache
// costs time for each waiting job that it concerns: 0.6 us a job.
type hrrn struct{}

const hrrnClassesPerOctave = 32

func (hrrn) Key(j *Job, _ *cost.Model) float64 { return j.Aged }

func (hrrn) Class(j *Job, m *cost.Model) int {
	return int(math.Round(math.Log2(max(j.Cost(m), 1)) * hrrnClassesPerOctave))
}

func (hrrn) Score(class int, arrival, now float64) float64 {
	return -(now - arrival) / classServiceTime(class)
}

func (hrrn) Weigh(j *Job, _ float64, s Scale) float64 {
	return -(s.Now - j.Aged) / (s.Rate*classServiceTime(j.class) + s.Load)
}

// classServiceTime is the service time of a class, in units.
func classServiceTime(class int) float64 { return math.Exp2(float64(class) / hrrnClassesPerOctave) }
