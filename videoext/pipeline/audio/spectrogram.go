package audio

import "math"

// Of the network's input, as tools/train/audio/train.py has it.
const (
	rate   = 8000 // Hz
	hop    = 80
	window = 256
	bands  = 32
	frames = rate / hop
	floor  = 1e-5
)

// spectra makes the network's input of sound.
type spectra struct {
	hann      [window]float64
	cos, sin  [window]float64
	triangles [bands][]float64 // over the bins of a window
}

func newSpectra() *spectra {
	s := &spectra{}
	for i := range window {
		angle := 2 * math.Pi * float64(i) / window
		s.hann[i], s.cos[i], s.sin[i] = 0.5-0.5*math.Cos(angle), math.Cos(angle), math.Sin(angle)
	}
	low, high := hertzToMel(60), hertzToMel(4000)
	step := (high - low) / (bands + 1)
	for b := range bands {
		edge := low + step*float64(b)
		for bin := range window/2 + 1 {
			at := hertzToMel(float64(bin) * rate / window)
			s.triangles[b] = append(s.triangles[b], max(0, min((at-edge)/step, (edge+2*step-at)/step)))
		}
	}
	return s
}

func hertzToMel(frequency float64) float64 { return 2595 * math.Log10(1+frequency/700) }

// logSpectrogram is the logarithm of the power in each band, [bands][frames], from 0, nothing, up, of a second.
func (s *spectra) logSpectrogram(sound []float32) []float32 {
	out := make([]float32, bands*frames)
	power := make([]float64, window/2+1)
	var part [window]float64
	for f := range frames {
		for i := range part {
			part[i] = 0
			if at := f*hop + hop/2 - window/2 + i; at >= 0 && at < len(sound) {
				part[i] = s.hann[i] * float64(sound[at])
			}
		}
		for bin := range power {
			var re, im float64
			for i, v := range part {
				re, im = re+v*s.cos[bin*i%window], im+v*s.sin[bin*i%window]
			}
			power[bin] = (re*re + im*im) / (window / 4 * window / 4)
		}
		for b, triangle := range s.triangles {
			sum := floor
			for bin, weight := range triangle {
				sum += weight * power[bin]
			}
			out[b*frames+f] = float32(math.Log(sum/floor) / 4)
		}
	}
	return out
}
