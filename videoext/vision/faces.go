package vision

import (
	"fmt"
	"math"
	"strings"
)

// decodeSSD reads scores, of which the first is that there is nothing, and the corners of boxes as parts of the picture.
func decodeSSD(outputs []Output, o Options) (Result, error) {
	scores, boxes := ssdOutputs(outputs)
	c, classes := collect{o: o}, scores.Shape[2]
	w, h := float32(o.Input.Width), float32(o.Input.Height)
	for i := range scores.Shape[1] {
		c.row = i
		row := scores.Data[i*classes+1 : (i+1)*classes]
		class, score := bestClass(row)
		if objectness := c.objectness(unsaid, row); c.isCandidate(score, objectness) {
			b := boxes.Data[4*i : 4*i+4]
			c.addCandidate(Box{b[0] * w, b[1] * h, b[2] * w, b[3] * h}, class, score, objectness)
		}
	}
	return c.finalResult()
}

// ssdOutputs tells scores from boxes.
func ssdOutputs(outputs []Output) (scores, boxes *Output) {
	for i := range outputs {
		switch out := &outputs[i]; {
		case len(out.Shape) != 3:
		case out.Shape[2] == 4 && (boxes == nil || strings.Contains(out.Name, "box")):
			boxes = out
		default:
			scores = out
		}
	}
	return scores, boxes
}

func byName(outputs []Output) map[string]*Output {
	named := map[string]*Output{}
	for i := range outputs {
		named[outputs[i].Name] = &outputs[i]
	}
	return named
}

// What YuNet has of each stride, and how many values a row.
var (
	yuNetStrides = []int{8, 16, 32}
	yuNetParts   = []struct {
		name string
		row  int
	}{{"cls", 1}, {"obj", 1}, {"bbox", 4}}
)

// decodeYuNet reads faces in either of the forms in which YuNet comes (Wu and others, "YuNet: A Tiny Millisecond-level
// Face Detector", 2023; before that by priors, as libfacedetection).
func decodeYuNet(outputs []Output, o Options) (Result, error) {
	named := byName(outputs)
	if named["loc"] != nil && named["conf"] != nil && named["iou"] != nil {
		return yunetOfPriors(named["loc"], named["conf"], named["iou"], o)
	}
	c := collect{o: o}
	for _, stride := range yuNetStrides {
		var maps [3][]float32
		for i, part := range yuNetParts {
			maps[i] = named[fmt.Sprintf("%s_%d", part.name, stride)].Data
		}
		for i, at := range mapCells(o.Input, stride) {
			score := geometricMean(maps[0][i], maps[1][i])
			if v := maps[2][4*i : 4*i+4]; c.isCandidate(score, score) {
				c.addCandidate(centredBox((at.x+v[0])*at.stride, (at.y+v[1])*at.stride, exp(v[2])*at.stride, exp(v[3])*at.stride), 0, score, score)
			}
		}
	}
	return c.finalResult()
}

// geometricMean is the geometric mean of two scores.
func geometricMean(a, b float32) float32 {
	return float32(math.Sqrt(float64(min(max(a, 0), 1) * min(max(b, 0), 1))))
}

// priorSizes are the sides in pixels of the priors of the strides 8, 16, 32 and 64.
var priorSizes = [...][]float32{{10, 16, 24}, {32, 48}, {64, 96}, {128, 192, 256}}

// priorLevels are the height and width in priors of each stride.
func priorLevels(in Size) (all [len(priorSizes)]Size) {
	h, w := (in.Height+1)/4, (in.Width+1)/4
	for i := range all {
		h, w = h/2, w/2
		all[i] = Size{h, w}
	}
	return all
}

// priorCount is how many there are.
func priorCount(in Size) (n int) {
	for i, l := range priorLevels(in) {
		n += l.Height * l.Width * len(priorSizes[i])
	}
	return n
}

// yunetOfPriors reads boxes by their differences to priors, in units of 0.1 and 0.2 of these.
func yunetOfPriors(loc, conf, iou *Output, o Options) (Result, error) {
	c, i := collect{o: o}, 0
	for level, l := range priorLevels(o.Input) {
		stride := float32(int(8) << level)
		for at := range l.Height * l.Width {
			for _, size := range priorSizes[level] {
				v := loc.Data[14*i:]
				score := geometricMean(conf.Data[2*i+1], iou.Data[i])
				if i++; !c.isCandidate(score, score) {
					continue
				}
				x, y := (float32(at%l.Width)+0.5)*stride, (float32(at/l.Width)+0.5)*stride
				c.addCandidate(centredBox(x+v[0]*0.1*size, y+v[1]*0.1*size, size*exp(v[2]*0.2), size*exp(v[3]*0.2)), 0, score, score)
			}
		}
	}
	return c.finalResult()
}
