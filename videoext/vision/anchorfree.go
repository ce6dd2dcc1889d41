package vision

import (
	"fmt"
	"math"
)

func exp(x float32) float32     { return float32(math.Exp(float64(x))) }
func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }
func tanh(x float32) float32    { return float32(math.Tanh(float64(x))) }

// cell is a place of a network's last maps.
type cell struct{ x, y, stride float32 }

// mapCells lists the places of maps of several strides, stride by stride and row by row; a map has as many as a
// convolution with padding leaves of the input.
func mapCells(in Size, strides ...int) (all []cell) {
	for _, s := range strides {
		h, w := (in.Height+s-1)/s, (in.Width+s-1)/s
		for y := range h {
			for x := range w {
				all = append(all, cell{float32(x), float32(y), float32(s)})
			}
		}
	}
	return all
}

// Strides of maps: of YOLOX, of NanoDet-Plus' one output, and of pairs of outputs, each of all or of one of them.
var (
	yoloxStrides   = []int{8, 16, 32}
	nanoDetStrides = []int{8, 16, 32, 64}
	gflStrides     = [][]int{yoloxStrides, nanoDetStrides, {8, 16, 32, 64, 128}, {8}, {16}, {32}, {64}, {128}}
)

// cellsOf is cells of those strides that give so many.
func cellsOf(n int, in Size) ([]cell, error) {
	for _, strides := range gflStrides {
		if in.placeCount(strides...) == n {
			return mapCells(in, strides...), nil
		}
	}
	return nil, checkRows(n, in, gflStrides...)
}

// decodeYOLOX reads x, y, log w, log h, the score that there is a thing, and those of its classes (Ge and others, "YOLOX:
// Exceeding YOLO Series in 2021", arXiv 2107.08430): scores are probabilities, boxes in units of the stride.
func decodeYOLOX(outputs []Output, o Options) (Result, error) {
	out := &outputs[0]
	c, row := collect{o: o}, out.Shape[2]
	for i, at := range mapCells(o.Input, yoloxStrides...) {
		v := out.Data[i*row : (i+1)*row]
		c.row = i
		class, score := bestClass(v[5:])
		objectness := c.objectness(v[4], v[5:])
		if score *= v[4]; c.isCandidate(score, objectness) {
			c.addCandidate(centredBox((v[0]+at.x)*at.stride, (v[1]+at.y)*at.stride, exp(v[2])*at.stride, exp(v[3])*at.stride), class, score, objectness)
		}
	}
	return c.finalResult()
}

// fastestDet reads, for each place of one map, the score that there is a thing, where its middle is, how large it is, and
// the scores of its classes (github.com/dog-qiuqiu/FastestDet): score^0.6 * class^0.4.
func fastestDet(outputs []Output, o Options) (Result, error) {
	out := &outputs[0]
	channels, h, w := out.Shape[1], out.Shape[2], out.Shape[3]
	c, scores, v := collect{o: o}, make([]float32, channels-5), [5]float32{}
	for at := range h * w {
		c.row = at
		for k := range v {
			v[k] = out.Data[k*h*w+at]
		}
		for k := range scores {
			scores[k] = out.Data[(k+5)*h*w+at]
		}
		class, s := bestClass(scores)
		score := float32(math.Pow(float64(v[0]), 0.6) * math.Pow(float64(s), 0.4))
		objectness := c.objectness(v[0], scores)
		if !c.isCandidate(score, objectness) {
			continue
		}
		inW, inH := float32(o.Input.Width), float32(o.Input.Height)
		x, y := (float32(at%w)+tanh(v[1]))/float32(w)*inW, (float32(at/w)+tanh(v[2]))/float32(h)*inH
		c.addCandidate(centredBox(x, y, sigmoid(v[3])*inW, sigmoid(v[4])*inH), class, score, objectness)
	}
	return c.finalResult()
}

// decodeGFL reads scores of classes and, for each side of a box, a distribution of its distance from the middle of its place (Li
// and others, "Generalized Focal Loss", NeurIPS 2020). Scores are probabilities. NanoDet-Plus has both in one
// output, whose boxes begin at the corners of places; others have two outputs a stride, or two of all.
func decodeGFL(outputs []Output, o Options) (Result, error) {
	if len(outputs) == 1 && len(outputs[0].Shape) == 3 {
		return gflOfOne(&outputs[0], o)
	}
	c := collect{o: o}
	scores, sides, err := pairOutputs(outputs)
	if err != nil {
		return Result{}, err
	}
	for i := range scores {
		places, err := cellsOf(scores[i].Shape[1], o.Input)
		if err != nil {
			return Result{}, err
		}
		classes, row := scores[i].Shape[2], sides[i].Shape[2]
		for k, at := range places {
			c.addBoxBySides(at, 0.5, scores[i].Data[k*classes:(k+1)*classes], sides[i].Data[k*row:(k+1)*row])
		}
	}
	return c.finalResult()
}

// gflSides is how many values of distances a row has that has scores, too: four distributions of 8.
const gflSides = 4 * 8

// gflOfOne reads rows of scores and, behind them, distributions, as NanoDet-Plus has them.
func gflOfOne(out *Output, o Options) (Result, error) {
	c, row := collect{o: o}, out.Shape[2]
	for i, at := range mapCells(o.Input, nanoDetStrides...) {
		v := out.Data[i*row : (i+1)*row]
		c.addBoxBySides(at, 0, v[:row-gflSides], v[row-gflSides:])
	}
	return c.finalResult()
}

// pairOutputs finds, for each output of scores, the one of as many rows that has four distributions a row.
func pairOutputs(outputs []Output) (scores, sides []Output, err error) {
	rest := []Output{}
	for _, out := range outputs {
		if len(out.Shape) != 3 || out.Shape[1] < 1 || out.Shape[2] < 1 {
			return nil, nil, fmt.Errorf("it reads outputs [1, N, values]; there are %s", describeOutputs(outputs))
		}
		at := -1
		for i := range rest {
			if rest[i].Shape[1] == out.Shape[1] {
				at = i
			}
		}
		if at < 0 {
			rest = append(rest, out)
			continue
		}
		a, b := rest[at], out // scores come first where that cannot be told
		if b.Shape[2]%4 != 0 || b.Shape[2] < 8 {
			a, b = b, a
		}
		scores, sides = append(scores, a), append(sides, b)
		rest = append(rest[:at], rest[at+1:]...)
	}
	if len(rest) > 0 || len(scores) == 0 {
		return nil, nil, fmt.Errorf("outputs are not pairs of scores and distances: %s", describeOutputs(outputs))
	}
	for _, s := range sides {
		if s.Shape[2]%4 != 0 || s.Shape[2] < 8 {
			return nil, nil, fmt.Errorf("output %s: %d values a box are not four distributions", s.Name, s.Shape[2])
		}
	}
	return scores, sides, nil
}

// addBoxBySides adds a place's box, if its score is good enough.
func (c *collect) addBoxBySides(at cell, middle float32, scores, distances []float32) {
	class, score := bestClass(scores)
	objectness := c.objectness(unsaid, scores)
	if !c.isCandidate(score, objectness) {
		return
	}
	var d [4]float32
	n := len(distances) / 4
	for i := range d {
		d[i] = expectedValue(distances[i*n:(i+1)*n]) * at.stride
	}
	x, y := (at.x+middle)*at.stride, (at.y+middle)*at.stride
	c.addCandidate(Box{x - d[0], y - d[1], x + d[2], y + d[3]}, class, score, objectness)
}

// expectedValue is the mean of 0, 1, 2, ... under the softmax of values.
func expectedValue(values []float32) float32 {
	_, top := bestClass(values)
	var sum, weight float32
	for i, v := range values {
		e := exp(v - top)
		weight += e
		sum += float32(i) * e
	}
	return sum / weight
}
