package vision

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// soft counts a score softly.
func soft(score float64) (worth, slope float64) {
	worth = 1 / (1 + math.Exp(-5*(score-0.5)))
	return worth, 5 * worth * (1 - worth)
}

// noise is an output of numbers from low to high.
func noise(r *rand.Rand, name string, low, high float32, shape ...int) Output {
	n := 1
	for _, d := range shape {
		n *= d
	}
	out := Output{Name: name, Shape: shape, Data: make([]float32, n)}
	for i := range out.Data {
		out.Data[i] = low + (high-low)*r.Float32()
	}
	return out
}

// TestUtility holds seeds to central differences, of every value of outputs that scores depend on.
func TestUtility(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	boxes := noise(r, "boxes", 0, 0, 1, 40, 4)
	for i := range 40 { // side by side
		x, y := float32(i%8)/8, float32(i/8)/5
		copy(boxes.Data[4*i:], []float32{x, y, x + 0.1, y + 0.15})
	}
	probable := noise(r, "mask", 0, 1, 1, 6, 7, 4)
	for i := range 42 {
		values, sum := probable.Data[4*i:4*i+4], float32(0)
		for _, v := range values {
			sum += v
		}
		for c := range values {
			values[c] /= sum
		}
	}
	tests := []struct {
		decoder string
		outputs []Output
		wanted  []int
	}{
		{"yolox", []Output{noise(r, "out", 0.1, 0.9, 1, 84, 9)}, nil},
		{"yolox", []Output{noise(r, "out", 0.1, 0.9, 1, 84, 9)}, []int{1, 3}},
		{"fastestdet", []Output{noise(r, "out", 0.1, 0.9, 1, 8, 4, 4)}, []int{0, 2}},
		{"ssd", []Output{noise(r, "scores", 0.1, 0.9, 1, 40, 3), boxes}, nil},
		{"segmentation", []Output{noise(r, "logits", -2, 2, 1, 3, 5, 6)}, nil},
		{"segmentation", []Output{noise(r, "logits", -2, 2, 1, 5, 6, 3)}, []int{0, 2}},
	}
	for _, test := range tests {
		d, err := Find(test.decoder)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Input: Size{64, 64}, Score: 0.2, Wanted: test.wanted, IoU: 2}
		sum, seeds, err := d.Utility(test.outputs, o, soft)
		if err != nil {
			t.Fatal(err)
		}
		if sum == 0 {
			t.Errorf("%s: nothing is found", d.Name)
		}
		seeded := 0
		for k := range test.outputs {
			for i, was := range test.outputs[k].Data {
				at := func(v float32) float64 {
					test.outputs[k].Data[i] = v
					sum, _, err := d.Utility(test.outputs, o, soft)
					if err != nil {
						t.Fatal(err)
					}
					return sum
				}
				const by = 1.0 / 256
				want := (at(was+by) - at(was-by)) / (2 * by)
				test.outputs[k].Data[i] = was
				turns := near(test.decoder, test.outputs, k, i, by)
				if got := float64(seeds[k][i]); !turns && math.Abs(got-want) > 2e-3*(1+math.Abs(want)) {
					t.Errorf("%s %v, output %d, value %d: the derivative is %v, by differences %v", d.Name, test.wanted, k, i, got, want)
				}
				if seeds[k][i] != 0 {
					seeded++
				}
			}
		}
		if seeded == 0 {
			t.Errorf("%s has no seeds", d.Name)
		}
	}
	for _, test := range []string{"gfl", "yunet"} {
		d, _ := Find(test)
		if _, _, err := d.Utility([]Output{probable}, Options{Input: Size{64, 64}}, soft); err == nil || !strings.Contains(err.Error(), "yolox, fastestdet, ssd, segmentation") {
			t.Errorf("%s: %v", test, err)
		}
	}
	d, _ := Find("segmentation")
	_, seeds, err := d.Utility([]Output{probable}, Options{Input: Size{6, 7}, Wanted: []int{2}}, soft)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range probable.Data {
		_, slope := soft(float64(v))
		if want := slope / 42; i%4 == 2 && math.Abs(float64(seeds[0][i])-want) > 1e-6 || i%4 != 2 && seeds[0][i] != 0 {
			t.Errorf("of a probability of class %d, the derivative is %v, want %v", i%4, seeds[0][i], want)
		}
	}
}

// near says that a step by so much may change which class is a box's, or whether it is one at all: there the sum has no derivative.
func near(decoder string, outputs []Output, k, i int, by float32) bool {
	out := outputs[k]
	at := func(i int) float32 { return out.Data[i] }
	var scores []float32
	var others float32 = 1
	switch decoder {
	case "yolox":
		row := out.Data[i/9*9 : i/9*9+9]
		scores, others = slices.Clone(row[5:]), row[4]
		if i%9 < 4 {
			return false
		}
	case "fastestdet":
		for c := 5; c < 8; c++ {
			scores = append(scores, at(c*16+i%16))
		}
		others = at(i % 16)
		slices.Sort(scores)
		score := math.Pow(float64(others), 0.6) * math.Pow(float64(scores[2]), 0.4)
		return scores[2]-scores[1] < 2*by || math.Abs(score-0.2) < 4*float64(by)
	case "ssd":
		if k == 1 {
			return false
		}
		scores = slices.Clone(out.Data[i/3*3+1 : i/3*3+3])
	default:
		return false
	}
	slices.Sort(scores)
	n := len(scores)
	return scores[n-1]-scores[n-2] < 2*by || math.Abs(float64(scores[n-1]*others)-0.2) < 2*float64(by)
}
