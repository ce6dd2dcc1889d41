package pipelines

import (
	"cmp"
	"math"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Findings is what a study's gradients do.
type Findings struct {
	Pipeline string
	// Cosine is between AccGrad and OutputGrad, the mean over random configurations and intervals where both are (OneAdapt, figure 4.3). Of a single knob it says
	// nothing: it is 1.
	Cosine float64
	// Pooled is the cosine of the gradients of all these configurations taken as one vector: it says as well how far intervals are told apart in which accuracy
	// is at stake.
	Pooled float64
	Sample int // configurations
	// Intervals until streams that began with the cheapest and with the dearest configuration agree, to a setting a knob; mean and worst of several beginnings.
	Converged      float64
	ConvergedWorst int
	Never          int // beginnings of which they never did
	Beginnings     int
	// The same until they do equally well, whatever their settings: a knob that changes neither accuracy nor resource stays where it began.
	Even      float64
	EvenWorst int
	EvenNever int
}

const (
	sample     = 200 // configurations of which the cosine is taken, if a study does not say
	beginnings = 10  // at most
	patience   = 15  // intervals after which there is no convergence, if a study does not say
)

// Find looks at a study's gradients.
func Find(s *Study, lab *pipeline.Lab) (f Findings, err error) {
	f.Pipeline = s.Name()
	if err := f.compareGradients(s, lab); err != nil {
		return f, err
	}
	return f, f.measureConvergence(s, lab)
}

// compareGradients takes gradients at random configurations.
func (f *Findings) compareGradients(s *Study, lab *pipeline.Lab) error {
	r := rand.New(rand.NewPCG(1, 1))
	var allAccuracies, allOutputs []float64
	sum, n := 0.0, 0
	for range cmp.Or(s.Sample, sample) {
		c := make(oneadapt.Config, len(s.Knobs()))
		for _, group := range lab.Groups() {
			setting := r.IntN(len(s.Knobs()[group[0]].Places))
			for _, i := range group {
				c[i] = setting
			}
		}
		accuracies, outputs, err := lab.Gradients(r.IntN(s.Intervals()), c)
		if err != nil {
			return err
		}
		allAccuracies, allOutputs = append(allAccuracies, accuracies...), append(allOutputs, outputs...)
		if cosine := pipeline.Cosine(accuracies, outputs); !math.IsNaN(cosine) {
			sum, n = sum+cosine, n+1
		}
	}
	f.Cosine, f.Pooled, f.Sample = sum/float64(n), pipeline.Cosine(allAccuracies, allOutputs), n
	return nil
}

// measureConvergence runs from both ends of all knobs, from several intervals on.
func (f *Findings) measureConvergence(s *Study, lab *pipeline.Lab) error {
	trade := s.Trades[len(s.Trades)/2]
	patience := cmp.Or(s.Patience, patience)
	for _, from := range startIntervals(s.Intervals(), patience) {
		to := min(from+patience, s.Intervals())
		up, err := lab.Part(s.adaptiveWay(s.usualVariant(), trade, oneadapt.Cheapest(s.Knobs())), from, to)
		if err != nil {
			return err
		}
		down, err := lab.Part(s.adaptiveWay(s.usualVariant(), trade, oneadapt.Dearest(s.Knobs())), from, to)
		if err != nil {
			return err
		}
		f.Beginnings++
		countConvergence(meetInterval(s.Knobs(), up, down), &f.Converged, &f.ConvergedWorst, &f.Never)
		countConvergence(evenInterval(trade, up, down), &f.Even, &f.EvenWorst, &f.EvenNever)
	}
	f.Converged /= float64(f.Beginnings - f.Never)
	f.Even /= float64(f.Beginnings - f.EvenNever)
	return nil
}

// countConvergence adds up how long something took; below 0: it never came.
func countConvergence(n int, sum *float64, worst, never *int) {
	if n < 0 {
		*never++
		return
	}
	*sum += float64(n)
	*worst = max(*worst, n)
}

// startIntervals are the intervals that beginnings are in: as many as are wanted, or as there are with as much behind each as patience has. A stream that is too short for
// two has one.
func startIntervals(intervals, patience int) (all []int) {
	last := max(intervals-patience, 0)
	n := min(beginnings, last+1)
	for i := range n {
		all = append(all, i*last/max(n-1, 1))
	}
	return all
}

// meetInterval is the first interval in which two runs agree, to a setting a knob in the mean; -1: none.
func meetInterval(knobs []oneadapt.Knob, a, b []pipeline.Step) int {
	for t := range a {
		apart := 0
		for i := range knobs {
			apart += max(a[t].Config[i]-b[t].Config[i], b[t].Config[i]-a[t].Config[i])
		}
		if apart <= len(knobs) {
			return t
		}
	}
	return -1
}

const (
	near = 0.05 // of accuracy
	stay = 3    // intervals
)

// evenInterval is the first interval of some in which two runs are about equally good, by accuracy less trade x cost; -1: none.
func evenInterval(trade float64, a, b []pipeline.Step) int {
	good := func(s *pipeline.Step) float64 { return s.Accuracy - trade*s.Cost }
	for t, held := 0, 0; t < len(a); t++ {
		if held++; math.Abs(good(&a[t])-good(&b[t])) > near {
			held = 0
		}
		if held == stay {
			return t - stay + 1
		}
	}
	return -1
}
