package vision

import (
	"fmt"
	"slices"
	"strings"
)

// Check says what is wrong with outputs of these shapes for a decoder, before there are values. Dimensions that are not known are negative; a height
// or width of the input that is not known is 0. What cannot be told yet is right.
func (d *Decoder) Check(outputs []Output, in Size) error {
	err := d.check(outputs, in)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("decoder %s: %w", d.Name, err)
	if others := Suggest(outputs, in); len(others) > 0 {
		err = fmt.Errorf("%w; outputs like these are read by %s", err, strings.Join(others, " or "))
	}
	return err
}

// Suggest names the decoders that such outputs suit, the likeliest first.
func Suggest(outputs []Output, in Size) (names []string) {
	for i := range decoders {
		if decoders[i].check(outputs, in) == nil {
			names = append(names, decoders[i].Name)
		}
	}
	return names
}

func (d *Decoder) check(outputs []Output, in Size) error {
	if slices.ContainsFunc(outputs, func(out Output) bool { return out.Shape == nil }) {
		return nil // not even how many dimensions there are is known
	}
	err := d.fits(withBatchDim(outputs), in)
	if err != nil && slices.ContainsFunc(outputs, func(out Output) bool { return len(out.Shape) == 2 && out.Shape[0] < 0 }) {
		one := slices.Clone(outputs) // what is open are the rows of one picture, perhaps
		for i := range one {
			one[i].Shape = append([]int{1}, one[i].Shape...)
		}
		if d.fits(one, in) == nil {
			return nil
		}
	}
	return err
}

// withBatchDim are outputs with a first dimension of 1, that of pictures, which some networks leave out.
func withBatchDim(outputs []Output) []Output {
	all := slices.Clone(outputs)
	for i := range all {
		switch s := all[i].Shape; {
		case len(s) > 0 && s[0] < 0:
			all[i].Shape = append([]int{1}, s[1:]...)
		case len(s) > 0 && s[0] != 1:
			all[i].Shape = append([]int{1}, s...)
		}
	}
	return all
}

// elementCount is how many values an output has; negative: that is not known.
func (out *Output) elementCount() int {
	n := 1
	for _, d := range out.Shape {
		if d < 0 {
			return -1
		}
		n *= d
	}
	return n
}

func (s Size) isKnown() bool { return s.Height > 0 && s.Width > 0 }

// placeCount is how many places there are in maps of some strides.
func (s Size) placeCount(strides ...int) (n int) {
	for _, stride := range strides {
		n += (s.Height + stride - 1) / stride * ((s.Width + stride - 1) / stride)
	}
	return n
}

// checkRows holds a number of boxes, if it is known, to that of maps of one of these groups of strides.
func checkRows(n int, in Size, groups ...[]int) error {
	if n < 0 || !in.isKnown() {
		return nil
	}
	for _, strides := range groups {
		if in.placeCount(strides...) == n {
			return nil
		}
	}
	return fmt.Errorf("%d boxes are not those of an input of %d x %d (height x width): %d at strides %v are", n, in.Height, in.Width, in.placeCount(groups[0]...), groups[0])
}

func fitsYOLOX(outputs []Output, in Size) error {
	out, err := singleOutput(outputs, 3)
	if err != nil {
		return err
	}
	if row := out.Shape[2]; row >= 0 && row < 6 {
		return fmt.Errorf("%d values a box are not 5 and the scores of classes", row)
	}
	return checkRows(out.Shape[1], in, yoloxStrides)
}

func fitsFastestDet(outputs []Output, in Size) error {
	out, err := singleOutput(outputs, 4)
	if err != nil {
		return err
	}
	channels, h, w := out.Shape[1], out.Shape[2], out.Shape[3]
	if channels >= 0 && channels < 6 || h == 0 || w == 0 {
		return fmt.Errorf("a map of %v is not 5 values and the scores of classes", out.Shape)
	}
	if in.isKnown() && h > 0 && w > 0 && !slices.ContainsFunc([]int{8, 16, 32}, func(s int) bool { return h == (in.Height+s-1)/s && w == (in.Width+s-1)/s }) {
		return fmt.Errorf("invalid map of %d x %d: want an input of %d x %d (height x width) at stride 8, 16 or 32", h, w, in.Height, in.Width)
	}
	return nil
}

func fitsGFL(outputs []Output, in Size) error {
	if len(outputs) == 1 && len(outputs[0].Shape) == 3 {
		n, row := outputs[0].Shape[1], outputs[0].Shape[2]
		if row >= 0 && row <= gflSides {
			return fmt.Errorf("%d values a box are not scores and %d of distances", row, gflSides)
		}
		return checkRows(n, in, nanoDetStrides)
	}
	if len(outputs)%2 == 0 && !slices.ContainsFunc(outputs, func(out Output) bool { return len(out.Shape) != 3 }) &&
		slices.ContainsFunc(outputs, func(out Output) bool { return out.elementCount() < 0 }) {
		return nil
	}
	scores, _, err := pairOutputs(outputs)
	if err != nil {
		return err
	}
	for i := range scores {
		if err := checkRows(scores[i].Shape[1], in, gflStrides...); err != nil {
			return err
		}
	}
	return nil
}

func fitsSSD(outputs []Output, _ Size) error {
	wrong := fmt.Errorf("it reads scores [1, N, classes] and boxes [1, N, 4]; there are %s", describeOutputs(outputs))
	for _, out := range outputs {
		if len(outputs) != 2 || len(out.Shape) != 3 {
			return wrong
		}
		if out.Shape[2] < 0 {
			return nil
		}
	}
	scores, boxes := ssdOutputs(outputs)
	if scores == nil || boxes == nil || scores.Shape[2] < 2 || scores.Shape[1] >= 0 && boxes.Shape[1] >= 0 && scores.Shape[1] != boxes.Shape[1] {
		return wrong
	}
	return nil
}

func fitsYuNet(outputs []Output, in Size) error {
	named := byName(outputs)
	if named["loc"] != nil && named["conf"] != nil && named["iou"] != nil {
		return fitsPriors(named["loc"], named["conf"], named["iou"], in)
	}
	for _, stride := range yuNetStrides {
		for _, part := range yuNetParts {
			name, rows := fmt.Sprintf("%s_%d", part.name, stride), in.placeCount(stride)
			out := named[name]
			if out == nil || in.isKnown() && out.elementCount() >= 0 && out.elementCount() != part.row*rows {
				return fmt.Errorf("output %s is to have %d rows of %d values; there are %s", name, rows, part.row, describeOutputs(outputs))
			}
		}
	}
	return nil
}

// fitsPriors holds outputs of priors to how many there are.
func fitsPriors(loc, conf, iou *Output, in Size) error {
	n := iou.elementCount()
	if n < 0 {
		return nil
	}
	if l, c := loc.elementCount(), conf.elementCount(); l >= 0 && l != 14*n || c >= 0 && c != 2*n {
		return fmt.Errorf("outputs loc, conf and iou are to have 14, 2 and 1 values a prior; there are %s", describeOutputs([]Output{*loc, *conf, *iou}))
	}
	if want := priorCount(in); in.isKnown() && n != want {
		return fmt.Errorf("there are %d priors of an input of %d x %d, and %d rows of iou", want, in.Height, in.Width, n)
	}
	return nil
}

func fitsSegmentation(outputs []Output, in Size) error {
	out, err := singleOutput(outputs, 4)
	if err != nil || out.elementCount() < 0 {
		return err
	}
	_, err = pixelsIn(outputs, in)
	return err
}
