// Package motion says how frames of video differ, and where things of one frame are in later ones, by their luma.
package motion

import (
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Constants of the published code of Reducto (github.com/reducto-sigcomm-2020/reducto).
const (
	changed  = 21  // of 255, for a pixel to differ
	gradient = 101 // of Sobel's operator, for a pixel to be on an edge
)

// Differ is how much a frame differs from one before of the same size, from 0 to 1 (Li and others, "Reducto", SIGCOMM 2020, section 4).
// Areas and edges are looked for in frames of half the width and height, which takes the place of the blur.
func Differ(feature method.Feature, before, frame *media.Frame) float64 {
	if feature == method.Pixel {
		return differingShare(lumaOf(before), lumaOf(frame))
	}
	a, b := halveFrame(before), halveFrame(frame)
	if feature == method.Area {
		return largestAreaShare(a, b)
	}
	return differingEdgeShare(a, b)
}

// luma is a picture of one plane.
type luma struct {
	width, height, stride int
	at                    []byte
}

func lumaOf(f *media.Frame) luma { return luma{f.Width, f.Height, f.YStride, f.Y} }

func (l luma) row(y int) []byte { return l.at[y*l.stride : y*l.stride+l.width] }

// halveFrame is a frame in which each pixel is the mean of four.
func halveFrame(f *media.Frame) luma {
	from, w, h := lumaOf(f), f.Width/2, f.Height/2
	to := luma{w, h, w, make([]byte, w*h)}
	for y := range h {
		up, down, out := from.row(2*y), from.row(2*y+1), to.row(y)
		for x := range out {
			out[x] = byte((int(up[2*x]) + int(up[2*x+1]) + int(down[2*x]) + int(down[2*x+1]) + 2) / 4)
		}
	}
	return to
}

func isChangedPixel(a, b byte) bool {
	d := int(a) - int(b)
	return d > changed || d < -changed
}

// differingShare is the part of pixels that differ.
func differingShare(a, b luma) float64 {
	n := 0
	for y := range a.height {
		p, q := a.row(y), b.row(y)
		for x, v := range p {
			if isChangedPixel(v, q[x]) {
				n++
			}
		}
	}
	return float64(n) / float64(a.width*a.height)
}

// largestAreaShare is the part of the frame that the largest connected area of pixels has that differ.
func largestAreaShare(a, b luma) float64 {
	if a.width*a.height == 0 {
		return 0
	}
	open := make([]bool, a.width*a.height)
	for y := range a.height {
		p, q := a.row(y), b.row(y)
		for x, v := range p {
			open[y*a.width+x] = isChangedPixel(v, q[x])
		}
	}
	most := 0
	var stack []int
	for i, is := range open {
		if !is {
			continue
		}
		n := 0
		for stack = append(stack[:0], i); len(stack) > 0; n++ {
			k := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			open[k] = false
			x := k % a.width
			for _, to := range [...]struct {
				at int
				in bool
			}{{k - 1, x > 0}, {k + 1, x < a.width-1}, {k - a.width, k >= a.width}, {k + a.width, k < len(open)-a.width}} {
				if to.in && open[to.at] {
					open[to.at] = false
					stack = append(stack, to.at)
				}
			}
		}
		most = max(most, n)
	}
	return float64(most) / float64(len(open))
}

// differingEdgeShare is the part of pixels that are on an edge in one frame alone.
func differingEdgeShare(a, b luma) float64 {
	if a.width < 3 || a.height < 3 {
		return 0
	}
	n := 0
	for y := 1; y < a.height-1; y++ {
		for x := 1; x < a.width-1; x++ {
			if onEdge(a, x, y) != onEdge(b, x, y) {
				n++
			}
		}
	}
	return float64(n) / float64(a.width*a.height)
}

// onEdge says whether Sobel's operator finds an edge at a pixel that is not at the border.
func onEdge(l luma, x, y int) bool {
	up, at, down := l.row(y - 1)[x-1:x+2], l.row(y)[x-1:x+2], l.row(y + 1)[x-1:x+2]
	gx := int(up[2]) + 2*int(at[2]) + int(down[2]) - int(up[0]) - 2*int(at[0]) - int(down[0])
	gy := int(down[0]) + 2*int(down[1]) + int(down[2]) - int(up[0]) - 2*int(up[1]) - int(up[2])
	return max(gx, -gx)+max(gy, -gy) > gradient
}
