//go:build cgo

package local

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// outputsOf are shapes of outputs that a decoder reads, and which elements are probabilities.
var outputsOf = map[string]struct {
	names  []string
	shapes [][]int
	likely func(output, at int) bool
}{
	"segmentation":                        {[]string{"output"}, [][]int{{1, 4, 2, 3}}, func(int, int) bool { return false }},
	"segmentation, in rows":               {[]string{"output"}, [][]int{{1, 2, 3, 4}}, func(int, int) bool { return false }},
	"segmentation, in rows of likelihood": {[]string{"output"}, [][]int{{1, 2, 3, 4}}, func(int, int) bool { return true }},
	"yolox":                               {[]string{"output"}, [][]int{{1, 5, 7}}, func(_, at int) bool { return at%7 >= 4 }},
	"fastestdet":                          {[]string{"output"}, [][]int{{1, 8, 2, 3}}, func(_, at int) bool { return at/6 < 1 || at/6 >= 5 }},
	"ssd":                                 {[]string{"scores", "boxes"}, [][]int{{1, 4, 3}, {1, 4, 4}}, func(output, _ int) bool { return output == 0 }},
}

// objectiveOf is what is held to the definition.
func objectiveOf(t *testing.T, decoder string, names []string) objective {
	t.Helper()
	name, how, _ := strings.Cut(decoder, ", ")
	if name == "segmentation" {
		return map[string]objective{"": &pixels{1, false}, "in rows": &pixels{3, false}, "in rows of likelihood": &pixels{3, true}}[how]
	}
	m, err := meaningOf(decoder, names)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pixelLoss is the definition of that of six pixels of four classes, whose elements are at a place. Likelihoods need not add up to 1.
func pixelLoss(output, answer []float32, likely bool, at func(pixel, class int) int) (sum float64) {
	read := func(values []float32) (all [6][4]float64) {
		for p := range all {
			total := 0.0
			for c := range all[p] {
				if all[p][c] = float64(values[at(p, c)]); !likely {
					all[p][c] = math.Exp(all[p][c])
					total += all[p][c]
				}
			}
			for c := range all[p] {
				if !likely {
					all[p][c] /= total
				}
			}
		}
		return all
	}
	found, want := read(output), read(answer)
	var share [4]float64
	for _, p := range want {
		for c := range p {
			share[c] += p[c] / 6
		}
	}
	for i, p := range want {
		matters, divergence := 0.0, 0.0
		for c := range p {
			matters += p[c] / math.Sqrt(share[c]+rarest)
			divergence += p[c] * math.Log(p[c]/found[i][c])
		}
		sum += matters * divergence / 6
	}
	return sum
}

// lossOf is the definition of a loss, element by element.
func lossOf(decoder string, outputs, answers [][]float32) (sum float64) {
	divergence := func(output, at int) float64 {
		p, q := float64(answers[output][at]), float64(outputs[output][at])
		return p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
	}
	distance := func(output, at int, unit float64) float64 {
		d := math.Abs(float64(answers[output][at])-float64(outputs[output][at])) / unit
		if d < 1 {
			return d * d / 2
		}
		return d - 0.5
	}
	switch decoder {
	case "segmentation":
		return pixelLoss(outputs[0], answers[0], false, func(pixel, class int) int { return class*6 + pixel })
	case "segmentation, in rows", "segmentation, in rows of likelihood":
		return pixelLoss(outputs[0], answers[0], strings.HasSuffix(decoder, "likelihood"), func(pixel, class int) int { return pixel*4 + class })
	case "yolox", "fastestdet":
		places, values, at := 5, 7, func(place, value int) int { return place*7 + value }
		if decoder == "fastestdet" {
			places, values, at = 6, 8, func(place, value int) int { return value*6 + place }
		}
		thing, box := 4, 0
		if decoder == "fastestdet" {
			thing, box = 0, 1
		}
		for place := range places {
			weight := float64(answers[0][at(place, thing)])
			sum += (1 + thingWeight*weight) * divergence(0, at(place, thing))
			for c := 5; c < values; c++ {
				sum += weight * divergence(0, at(place, c))
			}
			for b := range 4 {
				sum += math.Sqrt(weight) * distance(0, at(place, box+b), 1)
			}
		}
	case "ssd":
		for place := range 4 {
			weight := float64(answers[0][place*3+1]) + float64(answers[0][place*3+2])
			for c := range 3 {
				sum += (1 + thingWeight*weight) * divergence(0, place*3+c)
			}
			for b := range 4 {
				sum += math.Sqrt(weight) * distance(1, place*4+b, 0.05)
			}
		}
	}
	return sum
}

// TestLossesAreAsDefined holds the loss of each decoder, and its gradient to outputs, to the definition.
func TestLossesAreAsDefined(t *testing.T) {
	backend, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for decoder, o := range outputsOf {
		g := &graph.Graph{}
		w := newLossWriter(g)
		var outputs, answers []*graph.Value
		var refs []engine.Ref
		var given [2][][]float32
		for i, shape := range o.shapes {
			outputs = append(outputs, w.Input(o.names[i], engine.FP32, shape...))
			refs = append(refs, engine.Ref{Name: o.names[i], Type: engine.FP32, Shape: shape})
			for side := range given {
				values := make([]float32, graph.Elements(shape))
				for at := range values {
					if values[at] = float32(2 * random.NormFloat64()); o.likely(i, at) {
						values[at] = 0.1 + 0.8*random.Float32()
					}
				}
				given[side] = append(given[side], values)
			}
		}
		for i, shape := range o.shapes {
			name := fmt.Sprint("answer", i)
			answers = append(answers, w.Input(name, engine.FP32, shape...))
			refs = append(refs, engine.Ref{Name: name, Type: engine.FP32, Shape: shape})
		}
		g.Outputs = outputs
		if err := addLoss(w, objectiveOf(t, decoder, o.names), answers); err != nil {
			t.Fatal(err)
		}
		n, err := dnn.New(g, "", dnn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.ForGradients(gradient.Request{Seeded: []string{lossName}, Wanted: o.names, Outputs: []string{lossName}}); err != nil {
			t.Fatal(err)
		}
		network, err := direct.New(n, backend)
		if err != nil {
			t.Fatal(err)
		}
		defer network.Close()
		run := func(outputs, answers [][]float32) []direct.Output {
			var data [][]byte
			for _, values := range append(append([][]float32{}, outputs...), answers...) {
				data = append(data, littleEndian(values))
			}
			found, err := network.Backward([]string{lossName}, refs, data, []direct.Output{{Name: lossName, Shape: []int{1}, Data: []float32{1}}}, o.names)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if found := run(given[1], given[1]); found[0].Data[0] != 0 {
			t.Errorf("%s: the loss of equal outputs is %v, want 0", decoder, found[0].Data[0])
		}
		found, want := run(given[0], given[1]), lossOf(decoder, given[0], given[1])
		if got := float64(found[0].Data[0]); math.Abs(got-want) > 1e-4*want {
			t.Errorf("%s: the loss is %v, want %v", decoder, got, want)
		}
		for i := range given[0] {
			for at, was := range given[0][i] {
				const step = 1e-3
				given[0][i][at] = was + step
				more := lossOf(decoder, given[0], given[1])
				given[0][i][at] = was - step
				slope := (more - lossOf(decoder, given[0], given[1])) / (2 * step)
				given[0][i][at] = was
				if got := float64(found[1+i].Data[at]); math.Abs(got-slope) > 1e-2*(0.1+math.Abs(slope)) {
					t.Errorf("%s: the slope to element %d of output %d is %v, want %v", decoder, at, i, got, slope)
				}
			}
		}
	}
}

func TestDecodersWithoutLossAreNamed(t *testing.T) {
	if _, err := meaningOf("yunet", []string{"cls_8"}); err == nil || !strings.Contains(err.Error(), "yunet has no loss to train by") {
		t.Errorf("got %v", err)
	}
}
