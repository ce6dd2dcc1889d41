package local

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/merging"
)

// picture is a frame in rows of red, green and blue, of the size that it has in a network's input.
type picture struct {
	height, width int
	rgb           []byte
}

// How far frames that are trained on are altered.
const (
	altered   = 0.6 // of the frames
	moved     = 0.5 // of those
	nearest   = 1.3 // and as much farther
	darkest   = 1. / 5
	brightest = 1.3
	mostNoise = 25 // standard deviation
)

// alterPicture draws how a frame that is trained on differs from the feed's: half of them are mirrored, most are of other light, some nearer or farther, noisy or blurred.
func alterPicture(p picture, random *rand.Rand) picture {
	out := picture{p.height, p.width, slices.Clone(p.rgb)}
	if random.IntN(2) == 0 {
		out.mirrorPicture()
	}
	if random.Float64() >= altered {
		return out
	}
	if random.Float64() < moved {
		out.zoomPicture(between(1/nearest, nearest, random), random.Float64(), random.Float64())
	}
	if random.IntN(4) == 0 {
		out.blurPicture()
	}
	if random.IntN(4) > 0 {
		out.changeLight(between(darkest, brightest, random))
	}
	if random.IntN(3) == 0 {
		out.addNoise(mostNoise*random.Float64(), random)
	}
	return out
}

// between draws a factor, each power of it as likely.
func between(least, most float64, random *rand.Rand) float64 {
	return least * math.Pow(most/least, random.Float64())
}

// view is a frame as those of a split are.
func view(p picture, split merging.Split, random *rand.Rand) picture {
	out := picture{p.height, p.width, slices.Clone(p.rgb)}
	switch split {
	case merging.HeldOutDark:
		out.changeLight(0.5)
	case merging.HeldOutMirrored:
		out.mirrorPicture()
	case merging.HeldOutNoisy:
		out.addNoise(20, random)
	}
	return out
}

func (p picture) changeLight(factor float64) {
	for i, v := range p.rgb {
		p.rgb[i] = byte(min(factor*float64(v)+0.5, 255))
	}
}

func (p picture) mirrorPicture() {
	for y := range p.height {
		row := p.rgb[3*p.width*y:][:3*p.width]
		for a, b := 0, 3*(p.width-1); a < b; a, b = a+3, b-3 {
			for c := range 3 {
				row[a+c], row[b+c] = row[b+c], row[a+c]
			}
		}
	}
}

func (p picture) addNoise(deviation float64, random *rand.Rand) {
	for i, v := range p.rgb {
		p.rgb[i] = byte(min(max(math.Round(float64(v)+deviation*random.NormFloat64()), 0), 255))
	}
}

// zoomPicture scales what is shown around a point, in parts of the width and height; at the edges the last pixel goes on.
func (p picture) zoomPicture(factor, x, y float64) {
	if min(p.height, p.width) < 2 {
		return
	}
	was := slices.Clone(p.rgb)
	columns := scaled(p.width, factor, x)
	for v, row := range scaled(p.height, factor, y) {
		above, below := was[3*p.width*row.at:][:3*p.width], was[3*p.width*(row.at+1):][:3*p.width]
		for u, column := range columns {
			for c := range 3 {
				l, r := 3*column.at+c, 3*column.at+3+c
				upper := float32(above[l]) + column.part*(float32(above[r])-float32(above[l]))
				lower := float32(below[l]) + column.part*(float32(below[r])-float32(below[l]))
				p.rgb[3*(v*p.width+u)+c] = byte(upper + row.part*(lower-upper) + 0.5)
			}
		}
	}
}

// place is between a pixel and the next one.
type place struct {
	at   int
	part float32 // of the way
}

// scaled is where each of a row's pixels is from, scaled around a point.
func scaled(size int, factor, around float64) []place {
	list, centre := make([]place, size), around*float64(size)
	for i := range list {
		from := min(max(centre+(float64(i)-centre)/factor, 0), float64(size-1))
		at := min(int(from), size-2)
		list[i] = place{at, float32(from - float64(at))}
	}
	return list
}

// blurPicture takes the mean of each pixel and those around it; at the edges, of what there is.
func (p picture) blurPicture() {
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
