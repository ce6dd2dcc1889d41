package presets

import "slices"

// FrameShares is what became of the frames of a workload.
type FrameShares struct {
	Shares   []float64 // of each model's frames, served in time
	Accuracy []float64 // of what each model has said last, over all of its frames
}

// Mean is the mean share of frames.
func (o *FrameShares) Mean() float64 { return meanOf(o.Shares) }

// Least is the share of the model that is served least.
func (o *FrameShares) Least() float64 { return slices.Min(o.Shares) }

// MeanAccuracy is the mean of the models' accuracy.
func (o *FrameShares) MeanAccuracy() float64 { return meanOf(o.Accuracy) }

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// add counts a model's frames, in their order.
func (o *FrameShares) add(served []bool, rate float64) {
	share, accuracy, last := 0, 0.0, -1
	for n, s := range served {
		if s {
			share, last = share+1, n
		}
		if last >= 0 {
			accuracy += agreement(float64(n-last) / rate)
		}
	}
	o.Shares = append(o.Shares, float64(share)/float64(len(served)))
	o.Accuracy = append(o.Accuracy, accuracy/float64(len(served)))
}

// measuredAgreement is the F1 of what YOLOX-nano finds in a frame against what it finds so many seconds later, the mean of three clips
// of standing cameras: tools/measure/agreement.py.
var measuredAgreement = []struct{ seconds, f1 float64 }{
	{0, 1}, {.1, .869}, {.2, .599}, {.3, .472}, {.4, .392}, {.5, .307}, {.8, .184}, {1, .183}, {1.5, .171}, {2, .166}, {3, .151}, {5, .143},
}

// agreement is how accurate it is to say of a frame what was found so many seconds before: frames that are not served have the
// answer of the last that was.
func agreement(seconds float64) float64 {
	last := measuredAgreement[0]
	for _, m := range measuredAgreement[1:] {
		if seconds < m.seconds {
			return last.f1 + (m.f1-last.f1)*(seconds-last.seconds)/(m.seconds-last.seconds)
		}
		last = m
	}
	return last.f1
}
