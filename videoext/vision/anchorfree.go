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

// cells lists the places of maps of several strides, stride by stride and row by row; a map has as many as a
// convolution with padding leaves of the input.
func cells(in Size, strides ...int) (all []cell) {
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

// cellsOf is cells of the strides that give so many.
func cellsOf(n int, in Size) ([]cell, error) {
	for _, strides := range [][]int{{8, 16, 32}, {8, 16, 32, 64}, {16}, {8, 16, 32, 64, 128}} {
		if places := cells(in, strides...); len(places) == n {
			return places, nil
		}
	}
	return nil, fmt.Errorf("%d boxes are not those of an input of %d x %d (height x width)", n, in.Height, in.Width)
}

// yolox reads x, y, log w, log h, the score that there is a thing, and those of its classes (Ge and others, "YOLOX:
// Exceeding YOLO Series in 2021", arXiv 2107.08430): scores are probabilities, boxes in units of the stride.
func yolox(outputs []Output, o Options) (Result, error) {
	out, err := single(outputs, 3)
	if err != nil {
		return Result{}, err
	}
	n, row := out.Shape[1], out.Shape[2]
	if row < 6 {
		return Result{}, fmt.Errorf("%d values a box are not 5 and the scores of classes", row)
	}
	places, err := cellsOf(n, o.Input)
	if err != nil {
		return Result{}, err
	}
	c := collect{o: o}
	for i, at := range places {
		v := out.Data[i*row : (i+1)*row]
		c.row = i
		class, score := best(v[5:])
		objectness := c.objectness(v[4], v[5:])
		if score *= v[4]; c.wants(score, objectness) {
			c.add(centred((v[0]+at.x)*at.stride, (v[1]+at.y)*at.stride, exp(v[2])*at.stride, exp(v[3])*at.stride), class, score, objectness)
		}
	}
	return c.result(), nil
}

// fastestDet reads, for each place of one map, the score that there is a thing, where its middle is, how large it is, and
// the scores of its classes (github.com/dog-qiuqiu/FastestDet): score^0.6 * class^0.4.
func fastestDet(outputs []Output, o Options) (Result, error) {
	out, err := single(outputs, 4)
	if err != nil {
		return Result{}, err
	}
	channels, h, w := out.Shape[1], out.Shape[2], out.Shape[3]
	if channels < 6 || h < 1 || w < 1 {
		return Result{}, fmt.Errorf("a map of %v is not 5 values and the scores of classes", out.Shape)
	}
	c, scores, v := collect{o: o}, make([]float32, channels-5), [5]float32{}
	for at := range h * w {
		c.row = at
		for k := range v {
			v[k] = out.Data[k*h*w+at]
		}
		for k := range scores {
			scores[k] = out.Data[(k+5)*h*w+at]
		}
		class, s := best(scores)
		score := float32(math.Pow(float64(v[0]), 0.6) * math.Pow(float64(s), 0.4))
		objectness := c.objectness(v[0], scores)
		if !c.wants(score, objectness) {
			continue
		}
		inW, inH := float32(o.Input.Width), float32(o.Input.Height)
		x, y := (float32(at%w)+tanh(v[1]))/float32(w)*inW, (float32(at/w)+tanh(v[2]))/float32(h)*inH
		c.add(centred(x, y, sigmoid(v[3])*inW, sigmoid(v[4])*inH), class, score, objectness)
	}
	return c.result(), nil
}

// gfl reads scores of classes and, for each side of a box, a distribution of its distance from the middle of its place (Li
// and others, "Generalized Focal Loss", NeurIPS 2020). Scores are probabilities. NanoDet-Plus has both in one
// output, whose boxes begin at the corners of places; others have two outputs a stride, or two of all.
func gfl(outputs []Output, o Options) (Result, error) {
	if len(outputs) == 1 && len(outputs[0].Shape) == 3 {
		return gflOfOne(&outputs[0], o)
	}
	c := collect{o: o}
	scores, sides, err := pair(outputs)
	if err != nil {
		return Result{}, err
	}
	for i := range scores {
		n := scores[i].Shape[1]
		places, err := cellsOf(n, o.Input)
		for s := 8; err != nil && s <= 128; s *= 2 {
			if places = cells(o.Input, s); len(places) == n {
				err = nil
			}
		}
		if err != nil {
			return Result{}, err
		}
		classes, row := scores[i].Shape[2], sides[i].Shape[2]
		for k, at := range places {
			c.sides(at, 0.5, scores[i].Data[k*classes:(k+1)*classes], sides[i].Data[k*row:(k+1)*row])
		}
	}
	return c.result(), nil
}

// gflOfOne reads rows of scores and, behind them, distributions of 8 values, as NanoDet-Plus has them.
func gflOfOne(out *Output, o Options) (Result, error) {
	const sides = 4 * 8
	row := out.Shape[2]
	if row <= sides {
		return Result{}, fmt.Errorf("%d values a box are not scores and %d of distances", row, sides)
	}
	places, err := cellsOf(out.Shape[1], o.Input)
	if err != nil {
		return Result{}, err
	}
	c := collect{o: o}
	for i, at := range places {
		v := out.Data[i*row : (i+1)*row]
		c.sides(at, 0, v[:row-sides], v[row-sides:])
	}
	return c.result(), nil
}

// pair finds, for each output of scores, the one of as many rows that has four distributions a row.
func pair(outputs []Output) (scores, sides []Output, err error) {
	rest := []Output{}
	for _, out := range outputs {
		if len(out.Shape) != 3 || out.Shape[1] < 1 || out.Shape[2] < 1 {
			return nil, nil, fmt.Errorf("it reads outputs [1, N, values]; there are %s", shapes(outputs))
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
		return nil, nil, fmt.Errorf("outputs are not pairs of scores and distances: %s", shapes(outputs))
	}
	for _, s := range sides {
		if s.Shape[2]%4 != 0 || s.Shape[2] < 8 {
			return nil, nil, fmt.Errorf("output %s: %d values a box are not four distributions", s.Name, s.Shape[2])
		}
	}
	return scores, sides, nil
}

// sides adds a place's box, if its score is good enough.
func (c *collect) sides(at cell, middle float32, scores, distances []float32) {
	class, score := best(scores)
	objectness := c.objectness(unsaid, scores)
	if !c.wants(score, objectness) {
		return
	}
	var d [4]float32
	n := len(distances) / 4
	for i := range d {
		d[i] = expected(distances[i*n:(i+1)*n]) * at.stride
	}
	x, y := (at.x+middle)*at.stride, (at.y+middle)*at.stride
	c.add(Box{x - d[0], y - d[1], x + d[2], y + d[3]}, class, score, objectness)
}

// expected is the mean of 0, 1, 2, ... under the softmax of values.
func expected(values []float32) float32 {
	_, top := best(values)
	var sum, weight float32
	for i, v := range values {
		e := exp(v - top)
		weight += e
		sum += float32(i) * e
	}
	return sum / weight
}
