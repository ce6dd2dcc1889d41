package vision

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// partial is how a score changes with an element of an output.
type partial struct {
	output, at int
	slope      float32
}

// Utility is the sum of value over the scores of all detections of a class that is wanted, and how it changes with the outputs: of each output as many
// derivatives as it has values. Candidates that are suppressed do not count. Of pixels it is the sum of value over those that are wanted and their probabilities, for
// each pixel of the mask; the first class is the background where none are named. Value gives what a score is worth, and its slope.
func (d *Decoder) Utility(outputs []Output, o Options, value func(score float64) (worth, slope float64)) (sum float64, seeds [][]float32, err error) {
	outputs = withBatchDim(outputs)
	if d.Name == "segmentation" {
		return pixelUtility(outputs, o, value)
	}
	if err := d.CheckGradient(); err != nil {
		return 0, nil, err
	}
	r, err := d.Decode(outputs, o)
	if err != nil {
		return 0, nil, err
	}
	for i := range outputs {
		seeds = append(seeds, make([]float32, len(outputs[i].Data)))
	}
	for i := range r.Detections {
		found := &r.Detections[i]
		worth, slope := value(float64(found.Score))
		sum += worth
		for _, p := range d.slopes(outputs, found) {
			seeds[p.output][p.at] += float32(slope) * p.slope
		}
	}
	return sum, seeds, nil
}

// CheckGradient says that Utility has no derivatives by a decoder, and by which it has.
func (d *Decoder) CheckGradient() error {
	var names []string
	for i := range decoders {
		if o := &decoders[i]; o.slopes != nil || o.Name == "segmentation" {
			names = append(names, o.Name)
		}
	}
	if slices.Contains(names, d.Name) {
		return nil
	}
	return fmt.Errorf("decoder %s has no gradient; these have: %s", d.Name, strings.Join(names, ", "))
}

// yoloxSlopes are of objectness x class.
func yoloxSlopes(outputs []Output, d *Detection) []partial {
	row := outputs[0].Shape[2]
	objectness, class := d.row*row+4, d.row*row+5+d.Class
	return []partial{{0, objectness, outputs[0].Data[class]}, {0, class, outputs[0].Data[objectness]}}
}

// fastestDetSlopes are of objectness^0.6 x class^0.4.
func fastestDetSlopes(outputs []Output, d *Detection) []partial {
	area := outputs[0].Shape[2] * outputs[0].Shape[3]
	objectness, class := d.row, (5+d.Class)*area+d.row
	return []partial{{0, objectness, 0.6 * d.Score / outputs[0].Data[objectness]}, {0, class, 0.4 * d.Score / outputs[0].Data[class]}}
}

// ssdSlopes are of the class, behind the background.
func ssdSlopes(outputs []Output, d *Detection) []partial {
	scores, _ := ssdOutputs(outputs)
	output := slices.IndexFunc(outputs, func(o Output) bool { return o.Name == scores.Name })
	return []partial{{output, d.row*scores.Shape[2] + 1 + d.Class, 1}}
}

// pixelUtility is Utility of a mask.
func pixelUtility(outputs []Output, o Options, value func(score float64) (worth, slope float64)) (sum float64, seeds [][]float32, err error) {
	p, err := pixelsIn(outputs, o.Input)
	if err != nil {
		return 0, nil, err
	}
	seed, values := make([]float32, len(p.data)), make([]float32, p.classes)
	share := 1 / float64(p.Height*p.Width)
	for i := range p.Height * p.Width {
		logits := !areProbabilities(p.readPixel(i, values))
		if logits {
			softmax(values)
		}
		score := 0.0
		for c, v := range values {
			if p.isWantedClass(c, o.Wanted) {
				score += float64(v)
			}
		}
		worth, slope := value(score)
		sum += share * worth
		for c, v := range values {
			by := 0.0
			if p.isWantedClass(c, o.Wanted) {
				by = 1
			}
			if logits {
				by = float64(v) * (by - score)
			}
			seed[i*p.pixel+c*p.class] = float32(share * slope * by)
		}
	}
	return sum, [][]float32{seed}, nil
}

// isWantedClass says whether a class counts.
func (p *pixels) isWantedClass(class int, classes []int) bool {
	if classes == nil {
		return class > 0
	}
	return slices.Contains(classes, class)
}

// softmax makes probabilities of logarithms.
func softmax(values []float32) {
	_, top := bestClass(values)
	sum := 0.0
	for _, v := range values {
		sum += math.Exp(float64(v - top))
	}
	for i, v := range values {
		values[i] = float32(math.Exp(float64(v-top)) / sum)
	}
}
