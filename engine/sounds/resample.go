package sounds

import "math"

const (
	taps      = 12   // crossings of zero that a filter has on each side
	maxPhases = 1024 // between two samples that outputs may lie at: of rates that need more, outputs are off by half of one at most
)

// Resampler changes the rate of sound that comes piece by piece, by a windowed sinc of a phase for each output in turn (polyphase),
// whose cutoff is below half of the lower rate. What is outside is silence.
type Resampler struct {
	from, to int // by their greatest common divisor
	half     int // samples on each side of an output
	phases   [][]float32
	kept     []float32 // the sound from the first sample that is wanted still
	first    int       // where that is; less than 0 at the beginning
	came     int       // samples
	made     int       // outputs
}

// NewResampler makes a Resampler of rates that CheckFormat allows.
func NewResampler(from, to int) *Resampler {
	divisor := gcd(from, to)
	r := &Resampler{from: from / divisor, to: to / divisor}
	if from == to {
		return r
	}
	cutoff := 0.92 * min(1, float64(to)/float64(from)) // as a part of half of the rate of samples
	r.half = int(math.Ceil(taps / cutoff))
	r.phases = make([][]float32, min(r.to, maxPhases))
	for p := range r.phases {
		r.phases[p] = phaseFilter(float64(p)/float64(len(r.phases)), cutoff, r.half)
	}
	r.kept, r.first = make([]float32, r.half), -r.half
	return r
}

// Length is how many samples come of so many.
func (r *Resampler) Length(n int) int { return n/r.from*r.to + n%r.from*r.to/r.from }

// Append appends what can be made now that more of the sound has come.
func (r *Resampler) Append(out, more []float32) []float32 {
	r.came += len(more)
	if r.phases == nil {
		return append(out, more...)
	}
	r.kept = append(r.kept, more...)
	for {
		at, phase := r.place()
		if at-r.half-r.first+2*r.half+1 > len(r.kept) {
			break
		}
		out = append(out, dot(r.phases[phase], r.kept[at-r.half-r.first:]))
		r.made++
	}
	at, _ := r.place()
	done := min(max(at-r.half-r.first, 0), len(r.kept))
	r.kept, r.first = append(r.kept[:0], r.kept[done:]...), r.first+done
	return out
}

// place is before which sample the next output lies, and at which phase behind it.
func (r *Resampler) place() (at, phase int) {
	whole, part := r.made/r.to, r.made%r.to*r.from
	at, part = whole*r.from+part/r.to, part%r.to
	return at, part * len(r.phases) / r.to
}

// End appends the last samples.
func (r *Resampler) End(out []float32) []float32 {
	length := r.Length(r.came)
	if r.phases == nil {
		return out
	}
	for r.made < length {
		out = r.Append(out, make([]float32, r.half+1))
		r.came -= r.half + 1
	}
	return out[:len(out)-(r.made-length)]
}

// Resample changes the rate of a whole sound.
func Resample(sound []float32, from, to int) []float32 {
	r := NewResampler(from, to)
	return r.End(r.Append(make([]float32, 0, r.Length(len(sound))+r.half+2), sound))
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

// dot has four sums, as each waits for the one before it.
func dot(filter, sound []float32) float32 {
	var a, b, c, d float32
	sound = sound[:len(filter)]
	i := 0
	for ; i+4 <= len(filter); i += 4 {
		a += filter[i] * sound[i]
		b += filter[i+1] * sound[i+1]
		c += filter[i+2] * sound[i+2]
		d += filter[i+3] * sound[i+3]
	}
	for ; i < len(filter); i++ {
		a += filter[i] * sound[i]
	}
	return (a + b) + (c + d)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
