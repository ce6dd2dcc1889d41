package vision

import (
	"fmt"
	"math"
)

// decodeSegmentation takes the class of the greatest score for each pixel.
func decodeSegmentation(outputs []Output, o Options) (Result, error) {
	p, err := pixelsIn(outputs, o.Input)
	if err != nil {
		return Result{}, err
	}
	m := &Mask{Size: p.Size, Class: make([]uint8, p.Height*p.Width)}
	values := make([]float32, p.classes)
	if o.Margins {
		m.Margin = make([]uint8, len(m.Class))
	}
	for i := range m.Class {
		class, _ := bestClass(p.readPixel(i, values))
		m.Class[i] = uint8(class)
		if o.Margins {
			m.Margin[i] = uint8(255*classMargin(values) + 0.5)
		}
	}
	return Result{Mask: m}, nil
}

// pixels are values of classes for each pixel.
type pixels struct {
	Size
	classes      int
	pixel, class int // how far values of neighbours, and of classes, are apart
	data         []float32
}

// pixelsIn reads the only output. Its classes are the second or the last dimension: where the others are of the input's form, and of both the smaller one.
func pixelsIn(outputs []Output, in Size) (*pixels, error) {
	out, err := singleOutput(outputs, 4)
	if err != nil {
		return nil, err
	}
	first := &pixels{Size{out.Shape[2], out.Shape[3]}, out.Shape[1], 1, out.Shape[2] * out.Shape[3], out.Data}
	last := &pixels{Size{out.Shape[1], out.Shape[2]}, out.Shape[3], out.Shape[3], 1, out.Data}
	p, other := first, last
	if last.classes < first.classes {
		p, other = last, first
	}
	if !p.hasAspectOf(in) && other.hasAspectOf(in) {
		p = other
	}
	switch {
	case p.classes < 2 || p.classes > 256 || p.Height < 1 || p.Width < 1:
		return nil, fmt.Errorf("%v has %d classes; there are to be 2 to 256", out.Shape, p.classes)
	case !p.hasAspectOf(in):
		return nil, fmt.Errorf("%v is no map of an input of %d x %d (height x width)", out.Shape, in.Height, in.Width)
	}
	return p, nil
}

// ClassDimension is that in which the only output of a segmentation has its classes.
func ClassDimension(outputs []Output, in Size) (int, error) {
	p, err := pixelsIn(outputs, in)
	if err != nil {
		return 0, err
	}
	if p.pixel == 1 {
		return 1, nil
	}
	return 3, nil
}

// hasAspectOf says that a map is of the form of an input, up to rounding.
func (s Size) hasAspectOf(in Size) bool {
	if !in.isKnown() {
		return true
	}
	off := s.Height*in.Width - s.Width*in.Height
	return max(off, -off) <= 2*max(in.Height, in.Width)
}

// readPixel reads the values of a pixel into values, and returns them.
func (p *pixels) readPixel(i int, values []float32) []float32 {
	for c := range values {
		values[c] = p.data[i*p.pixel+c*p.class]
	}
	return values
}

// areProbabilities says that values are such, and not logarithms of them but for a common term.
func areProbabilities(values []float32) bool {
	sum, least := float32(0), float32(0)
	for _, v := range values {
		sum, least = sum+v, min(least, v)
	}
	return least >= 0 && sum > 0.99 && sum < 1.01
}

// classMargin is by how much the first of classes is more likely than the second. Of what are no numbers it is 0.
func classMargin(values []float32) float32 {
	first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for _, v := range values {
		if v > first {
			first, second = v, first
		} else {
			second = max(second, v)
		}
	}
	difference := first - second
	if !areProbabilities(values) {
		sum := float32(0)
		for _, v := range values {
			sum += exp(v - first)
		}
		difference = (1 - exp(second-first)) / sum
	}
	if !(difference >= 0) {
		return 0
	}
	return min(difference, 1)
}

// Shares is how much of the picture each class has.
func (m *Mask) Shares() []float64 {
	var counts [256]int
	most := 0
	for _, c := range m.Class {
		counts[c]++
		most = max(most, int(c))
	}
	shares := make([]float64, most+1)
	for c := range shares {
		shares[c] = float64(counts[c]) / float64(len(m.Class))
	}
	return shares
}

// Crop keeps the upper left part of a mask.
func (m *Mask) Crop(height, width int) {
	height, width = max(1, min(height, m.Height)), max(1, min(width, m.Width))
	crop := func(all []uint8) []uint8 {
		part := make([]uint8, 0, height*width)
		for y := range height {
			part = append(part, all[y*m.Width:y*m.Width+width]...)
		}
		return part
	}
	m.Class = crop(m.Class)
	if m.Margin != nil {
		m.Margin = crop(m.Margin)
	}
	m.Size = Size{height, width}
}
