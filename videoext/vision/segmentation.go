package vision

import (
	"fmt"
	"math"
)

// segmentation takes the class of the greatest score for each pixel. The smaller one of the second and the last
// dimension is that of the classes.
func segmentation(outputs []Output, o Options) (Result, error) {
	out, err := single(outputs, 4)
	if err != nil {
		return Result{}, err
	}
	classes, h, w := out.Shape[1], out.Shape[2], out.Shape[3]
	pixel, class := 1, h*w // how far values of neighbours, and of classes, are apart
	if out.Shape[3] < out.Shape[1] {
		h, w, classes = out.Shape[1], out.Shape[2], out.Shape[3]
		pixel, class = classes, 1
	}
	if classes < 2 || classes > 256 || h < 1 || w < 1 {
		return Result{}, fmt.Errorf("%v has %d classes; there are to be 2 to 256", out.Shape, classes)
	}
	m := &Mask{Size: Size{h, w}, Class: make([]uint8, h*w)}
	for i := range m.Class {
		top := out.Data[i*pixel]
		for c := 1; c < classes; c++ {
			if v := out.Data[i*pixel+c*class]; v > top {
				top, m.Class[i] = v, uint8(c)
			}
		}
	}
	if o.Margins {
		m.Margin = make([]uint8, h*w)
		values := make([]float32, classes)
		for i := range m.Margin {
			for c := range values {
				values[c] = out.Data[i*pixel+c*class]
			}
			m.Margin[i] = uint8(255*margin(values) + 0.5)
		}
	}
	return Result{Mask: m}, nil
}

// margin is by how much the first of classes is more likely than the second. Values that are no probabilities are logarithms of such,
// but for a common term. Of what are no numbers it is 0.
func margin(values []float32) float32 {
	first, second, sum, least := float32(math.Inf(-1)), float32(math.Inf(-1)), float32(0), float32(0)
	for _, v := range values {
		if v > first {
			first, second = v, first
		} else {
			second = max(second, v)
		}
		sum, least = sum+v, min(least, v)
	}
	difference := first - second
	if !(least >= 0 && sum > 0.99 && sum < 1.01) {
		sum = 0
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
