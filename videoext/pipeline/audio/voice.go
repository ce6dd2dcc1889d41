package audio

import (
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Voice raises the sampling rate of seconds in which there is a voice, as the sensor hears them.
type Voice struct {
	Pipeline  *Pipeline
	Low, High int // settings
}

// Serve implements pipeline.Way.
func (v *Voice) Serve(interval int, a *pipeline.Account) (pipeline.Result, error) {
	c := oneadapt.Config{v.Low}
	if hasVoice(v.Pipeline.intervalSound(interval)) {
		c[0] = v.High
	}
	return pipeline.Serve(interval, c, a)
}

// Of voices: frames of 32 ms, pitches of 70 to 400 Hz, how alike a frame is to itself a period later, and how many frames are a voice.
const (
	frame         = 256
	shortest      = rate / 400
	longest       = rate / 70
	alike         = 0.6
	loudest       = 1e-5 // least mean square
	leastOfFrames = 3
)

// hasVoice says that a second has a voice: some frames are periodic as vowels are.
func hasVoice(second []float32) bool {
	n := 0
	for at := 0; at+frame+longest <= len(second); at += frame / 2 {
		if isPeriodic(second[at : at+frame+longest]) {
			if n++; n == leastOfFrames {
				return true
			}
		}
	}
	return false
}

// isPeriodic says that a frame is like itself a period later, by the normalised correlation.
func isPeriodic(s []float32) bool {
	own := dot(s[:frame], s)
	if own < loudest*frame {
		return false
	}
	for lag := shortest; lag <= longest; lag++ {
		both, later := dot(s[:frame], s[lag:]), dot(s[lag:lag+frame], s[lag:])
		if both > 0 && both*both > alike*alike*own*later {
			return true
		}
	}
	return false
}

func dot(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
