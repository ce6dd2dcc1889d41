package local

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/merging/trainer"
)

// picture is a frame in rows of red, green and blue, of the size that it has in a network's input.
type picture struct {
	height, width int
	rgb           []byte
}

// How far frames that are trained on are altered.
const (
	altered   = 0.6 // of the frames
	darkest   = 1. / 5
	brightest = 1.3
	mostNoise = 25 // standard deviation
)

// alter draws how a frame that is trained on differs from the feed's: most in light, some mirrored, noisy or blurred.
func alter(p picture, random *rand.Rand) picture {
	if random.Float64() >= altered {
		return p
	}
	out := picture{p.height, p.width, slices.Clone(p.rgb)}
	if random.IntN(2) == 0 {
		out.mirror()
	}
	if random.IntN(4) == 0 {
		out.blur()
	}
	if random.IntN(4) > 0 {
		out.light(darkest * math.Pow(brightest/darkest, random.Float64()))
	}
	if random.IntN(3) == 0 {
		out.noise(mostNoise*random.Float64(), random)
	}
	return out
}

// view is a frame as those of a split are.
func view(p picture, split trainer.Split, random *rand.Rand) picture {
	out := picture{p.height, p.width, slices.Clone(p.rgb)}
	switch split {
	case trainer.HeldOutDark:
		out.light(0.5)
	case trainer.HeldOutMirrored:
		out.mirror()
	case trainer.HeldOutNoisy:
		out.noise(20, random)
	}
	return out
}

func (p picture) light(factor float64) {
	for i, v := range p.rgb {
		p.rgb[i] = byte(min(factor*float64(v)+0.5, 255))
	}
}

func (p picture) mirror() {
	for y := range p.height {
		row := p.rgb[3*p.width*y:][:3*p.width]
		for a, b := 0, 3*(p.width-1); a < b; a, b = a+3, b-3 {
			for c := range 3 {
				row[a+c], row[b+c] = row[b+c], row[a+c]
			}
		}
	}
}

func (p picture) noise(deviation float64, random *rand.Rand) {
	for i, v := range p.rgb {
		p.rgb[i] = byte(min(max(math.Round(float64(v)+deviation*random.NormFloat64()), 0), 255))
	}
}

// blur takes the mean of each pixel and those around it; at the edges, of what there is.
func (p picture) blur() {
	was := slices.Clone(p.rgb)
	for y := range p.height {
		for x := range p.width {
			var sum [3]int
			count := 0
			for v := max(y-1, 0); v <= min(y+1, p.height-1); v++ {
				for u := max(x-1, 0); u <= min(x+1, p.width-1); u++ {
					for c := range sum {
						sum[c] += int(was[3*(v*p.width+u)+c])
					}
					count++
				}
			}
			for c, s := range sum {
				p.rgb[3*(y*p.width+x)+c] = byte((s + count/2) / count)
			}
		}
	}
}
