package main

import (
	"fmt"
	"math/bits"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
)

// Frames have their number in the upper row of blocks, as bits in black and white with a sum behind them, so that what is found in a frame tells
// which frame it was.
const (
	block         = 16
	width, height = 20 * block, 8 * block
	numberBits    = 14
	sumBits       = 6
	numbers       = 1 << numberBits
)

func sumOf(number int) int { return (number*37 + 11 + 7*bits.OnesCount(uint(number))) % (1 << sumBits) }

// renderFrame is a frame with its number, above a texture that moves.
func renderFrame(number int) *media.Frame {
	f := media.NewFrame(width, height)
	f.Index = number
	for i := range f.Cb {
		f.Cb[i], f.Cr[i] = 128, 128
	}
	coded := number%numbers<<sumBits | sumOf(number%numbers)
	for y := range height {
		row := f.Y[y*f.YStride:][:width]
		for x := range row {
			row[x] = byte(60 + (x+3*number)*(y+7)%64)
			if y < block {
				row[x] = byte(16 + 219*(coded>>(x/block)&1))
			}
		}
	}
	return f
}

// readNumber is the number in a frame of any size; false if there is none.
func readNumber(f *media.Frame) (int, bool) {
	coded := 0
	for i := range numberBits + sumBits {
		x, y := (2*i+1)*block*f.Width/(2*width), block*f.Height/(2*height)
		if f.Y[y*f.YStride+x] > 125 {
			coded |= 1 << i
		}
	}
	number := coded >> sumBits
	return number, coded&(1<<sumBits-1) == sumOf(number)
}

// detectNumber is the network: what it finds is of the class of the frame's number. It proposes what it is not sure of, too.
func detectNumber(f *media.Frame) (videoext.Findings, error) {
	number, ok := readNumber(f)
	if !ok {
		return videoext.Findings{}, fmt.Errorf("a frame of %d x %d pixels has no number", f.Width, f.Height)
	}
	return videoext.Findings{
		Detections: []videoext.Detection{{Region: videoext.Region{X0: 0.1, Y0: 0.5, X1: 0.2, Y1: 0.6}, Class: number, Score: 0.95}},
		Proposals:  []videoext.Proposal{{Region: videoext.Region{X0: 0.6, Y0: 0.5, X1: 0.7, Y1: 0.7}, Objectness: 0.9}},
	}, nil
}
