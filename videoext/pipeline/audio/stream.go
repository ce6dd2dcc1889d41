package audio

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Scenes of a stream, each over some noise.
const (
	talk    = iota // a speaker says one or two digits a second
	quiet          // nothing
	clatter        // loud noises that fade
	music          // notes
	foreign        // speech of no language: recordings backwards
)

// Draw makes a stream of so many seconds of 8 kHz: scenes of 8 to 25 s, of which four in nine are talk. A recording lies within a second.
func Draw(recordings []Recording, seconds int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 8))
	sound := make([]float32, 0, seconds*rate)
	for len(sound) < seconds*rate {
		kind := [...]int{talk, talk, talk, talk, quiet, quiet, clatter, music, foreign}[r.IntN(9)]
		said := speakerRecordings(recordings, r)
		loud, faint, colour := math.Pow(10, -0.1-r.Float64()), math.Pow(10, -3.8+2.2*r.Float64()), r.Float64()
		for range 8 + r.IntN(18) {
			second := makeNoise(r, faint, colour)
			switch kind {
			case talk:
				addRecordings(second, said, loud, r)
			case clatter:
				addBursts(second, loud, r)
			case music:
				addNotes(second, loud, r)
			case foreign:
				slices.Reverse(second)
				addRecordings(second, said, loud, r)
				slices.Reverse(second)
			}
			sound = append(sound, second...)
		}
	}
	return sound[:seconds*rate]
}

// speakerRecordings are the recordings of one speaker.
func speakerRecordings(recordings []Recording, r *rand.Rand) (own []Recording) {
	name := recordings[r.IntN(len(recordings))].Speaker
	for _, one := range recordings {
		if one.Speaker == name {
			own = append(own, one)
		}
	}
	return own
}

// addRecordings adds one recording to a second, or two if there is place.
func addRecordings(second []float32, recordings []Recording, loud float64, r *rand.Rand) {
	const pause = rate / 20
	for at, left := 0, 1+r.IntN(2); left > 0; left-- {
		one := recordings[r.IntN(len(recordings))].Samples
		one = one[:min(len(one), rate)]
		if at+len(one) > rate {
			return
		}
		start := at + r.IntN((rate-at-len(one))/left+1)
		for i, v := range one {
			second[start+i] += float32(loud) * v
		}
		at = start + len(one) + pause
	}
}

// addBursts adds noise that fades, at several times.
func addBursts(second []float32, loud float64, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		start, fade := r.IntN(rate*3/4), math.Exp(-1/(rate*(0.02+0.1*r.Float64())))
		level, last, colour := 0.5*loud, 0.0, 0.8*r.Float64()
		for i := start; i < rate; i++ {
			last = colour*last + (1-colour)*r.NormFloat64()
			second[i] += float32(level * last)
			level *= fade
		}
	}
}

// addNotes adds notes with harmonics.
func addNotes(second []float32, loud float64, r *rand.Rand) {
	for start := 0; start < rate; start += rate/6 + r.IntN(rate/3) {
		for range 1 + r.IntN(3) {
			note, fade := 100+600*r.Float64(), 2+6*r.Float64()
			for h := 1.0; h < 8 && h*note < rate/2; h++ {
				level := 0.3 * loud * r.Float64() / h
				for i := start; i < rate; i++ {
					t := float64(i-start) / rate
					second[i] += float32(level * math.Exp(-t*fade) * math.Sin(2*math.Pi*h*note*t))
				}
			}
		}
	}
}

// makeNoise is a second of noise; the higher its colour, the lower its frequencies.
func makeNoise(r *rand.Rand, level, colour float64) []float32 {
	second, last := make([]float32, rate), 0.0
	keep := 0.9 * colour
	scale := level * math.Sqrt(1-keep*keep)
	for i := range second {
		last = keep*last + r.NormFloat64()
		second[i] = float32(scale * last)
	}
	return second
}
