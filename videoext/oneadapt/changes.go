package oneadapt

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// ofRGB is by how much red, green and blue change with luma, whose range is 219 (BT.601).
const ofRGB = 255.0 / 219

// Changes are by how much the utility of what a network finds in frames changes when it is shown them as they are in one way instead of another one. Frames of both
// ways have one size, and are of the same times; what differs is the mean over them. There is one change for each part of the map if parts is set, else one in all.
func Changes(m *Map, against, frames []*media.Frame, parts bool) ([]float64, error) {
	if len(frames) != len(against) || len(frames) == 0 {
		return nil, fmt.Errorf("%d frames are compared with %d", len(frames), len(against))
	}
	squares := make([]float64, len(m.Values))
	for i, f := range frames {
		if f.Width != against[i].Width || f.Height != against[i].Height {
			return nil, fmt.Errorf("frame %d has %d x %d pixels, and is compared with one of %d x %d", i, f.Width, f.Height, against[i].Width, against[i].Height)
		}
		if f != against[i] {
			m.addSquaredChanges(squares, against[i], f)
		}
	}
	for i := range squares {
		squares[i] *= ofRGB * ofRGB / float64(len(frames))
	}
	return Sizes(squares, parts), nil
}

// Sizes are the size of a sum of many terms whose signs are as likely either way, by the squares of terms in each part: the root of the sum of squares. Products of a gradient with what an
// encoder changes are such terms: their sizes add up to a hundred times what their sum is. Of parts, each has its share in the size of the whole.
func Sizes(squares []float64, parts bool) []float64 {
	sum := 0.0
	for _, s := range squares {
		sum += s
	}
	root := math.Sqrt(sum)
	if !parts {
		return []float64{root}
	}
	sizes := make([]float64, len(squares))
	for i, s := range squares {
		if s > 0 {
			sizes[i] = s / root
		}
	}
	return sizes
}

// addSquaredChanges adds the squares of the changes between two frames.
func (m *Map) addSquaredChanges(squares []float64, a, b *media.Frame) {
	for row := range m.Height {
		from, to := partStart(row, m.Height, a.Height), partStart(row+1, m.Height, a.Height)
		for column := range m.Width {
			part := row*m.Width + column
			if m.Values[part] == 0 {
				continue
			}
			left, right := partStart(column, m.Width, a.Width), partStart(column+1, m.Width, a.Width)
			sum := 0
			for y := from; y < to; y++ {
				sum += squaredDistance(a.Y[y*a.YStride+left:y*a.YStride+right], b.Y[y*b.YStride+left:])
			}
			squares[part] += float64(m.Values[part]) * float64(m.Values[part]) * float64(sum) / float64(max((to-from)*(right-left), 1))
		}
	}
}

// partStart is where one of n parts begins on a side of so many pixels: if they are as many as the macroblocks, where that does.
func partStart(part, n, pixels int) int {
	if (pixels+media.MacroblockSize-1)/media.MacroblockSize == n {
		return min(part*media.MacroblockSize, pixels)
	}
	return part * pixels / n
}

// squaredDistance is the sum of the squares of differences.
func squaredDistance(a, b []byte) (sum int) {
	b = b[:len(a)]
	for i, v := range a {
		d := int(v) - int(b[i])
		sum += d * d
	}
	return sum
}

// Shown are all n frames of an interval in the size of whole, as a network's findings stand for them: of those that were sent, whose numbers are these, as they came out, and in
// place of others the last before.
func Shown(sent []*media.Frame, numbers []int, n int, whole *media.Frame, scale func(f *media.Frame, width, height int) (*media.Frame, error)) ([]*media.Frame, error) {
	if len(sent) != len(numbers) || len(sent) == 0 {
		return nil, fmt.Errorf("%d frames came out of %d", len(sent), len(numbers))
	}
	shown, next := make([]*media.Frame, n), 0
	for i := range shown {
		if next < len(numbers) && (numbers[next] <= i || i == 0) {
			f := sent[next]
			if f.Width != whole.Width || f.Height != whole.Height {
				var err error
				if f, err = scale(f, whole.Width, whole.Height); err != nil {
					return nil, err
				}
			}
			shown[i] = f
			next++
			continue
		}
		shown[i] = shown[i-1]
	}
	return shown, nil
}
