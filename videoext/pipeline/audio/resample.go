package audio

import "math"

// taps is how many crossings of zero a filter has on each side.
const taps = 12

// resample changes the rate of samples, by a windowed sinc of a phase for each output in turn (polyphase), whose cutoff is below half of the lower rate. What is outside is silence.
func resample(samples []float32, from, to int) []float32 {
	if from == to {
		return samples
	}
	divisor := gcd(from, to)
	up, down := to/divisor, from/divisor
	cutoff := 0.92 * min(1, float64(to)/float64(from)) // as a part of half of the rate of samples
	half := int(math.Ceil(taps / cutoff))
	phases := make([][]float32, up)
	for p := range phases {
		phases[p] = phaseFilter(float64(p)/float64(up), cutoff, half)
	}
	out := make([]float32, len(samples)*up/down)
	for i := range out {
		at, filter := i*down/up, phases[i*down%up]
		sum := float32(0)
		for j, f := range filter {
			if k := at + j - half; k >= 0 && k < len(samples) {
				sum += f * samples[k]
			}
		}
		out[i] = sum
	}
	return out
}

// phaseFilter is the filter for an output that lies a part of a sample after one. Its sum is 1.
func phaseFilter(after, cutoff float64, half int) []float32 {
	filter, sum := make([]float64, 2*half+1), 0.0
	for j := range filter {
		t := float64(j-half) - after
		window := 0.0
		if w := math.Abs(t) / float64(half+1); w < 1 {
			window = 0.5 + 0.5*math.Cos(math.Pi*w)
		}
		filter[j] = sinc(cutoff*t) * window
		sum += filter[j]
	}
	scaled := make([]float32, len(filter))
	for j, f := range filter {
		scaled[j] = float32(f / sum)
	}
	return scaled
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
