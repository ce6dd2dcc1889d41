package images

import "math"

// Pool adds up the squares of derivatives with respect to an input of a shape, of one picture of height x width, over blocks of block x block of the picture's
// pixels, row by row, and gives the roots of the sums: how much what was differentiated changes with the pixels there, whose values are from 0 to 255. What
// is beyond the picture, as of a letterbox, is left out.
func (to *Target) Pool(derivatives []float32, shape []int, height, width, block int) (sizes []float32, rows, columns int) {
	rows, columns = (height+block-1)/block, (width+block-1)/block
	sizes = make([]float32, rows*columns)
	h, w, value, channel := shape[1], shape[2], 3, 1
	if to.ChannelsFirst {
		h, w, value, channel = shape[2], shape[3], 1, shape[2]*shape[3]
	}
	inner, across := to.Inner(h, w, height, width)
	for y := range inner {
		row := sizes[blockOf(y, inner, height, block)*columns:]
		for x := range across {
			sum := float32(0)
			for c := range 3 {
				d := derivatives[(y*w+x)*value+c*channel] / to.scale[c]
				sum += d * d
			}
			row[blockOf(x, across, width, block)] += sum
		}
	}
	for i, s := range sizes {
		sizes[i] = float32(math.Sqrt(float64(s)))
	}
	return sizes, rows, columns
}

// blockOf is the block of a picture of so many pixels in which the middle of one of n values lies.
func blockOf(i, n, pixels, block int) int { return (2*i + 1) * pixels / (2 * n) / block }
