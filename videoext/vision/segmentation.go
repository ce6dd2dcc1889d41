package vision

import "fmt"

// segmentation takes the class of the greatest score for each pixel. The smaller one of the second and the last
// dimension is that of the classes.
func segmentation(outputs []Output, _ Options) (Result, error) {
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
	return Result{Mask: m}, nil
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
	class := make([]uint8, 0, height*width)
	for y := range height {
		class = append(class, m.Class[y*m.Width:y*m.Width+width]...)
	}
	m.Size, m.Class = Size{height, width}, class
}
