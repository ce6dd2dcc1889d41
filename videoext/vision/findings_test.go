package vision

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
)

// TestProposals holds that things whose class is unsure are proposed to those who ask, and cost nothing else.
func TestProposals(t *testing.T) {
	in := Size{256, 320}
	things := []thing{{Box{20, 20, 60, 50}, 2, 0.6}, {Box{100, 90, 150, 150}, 3, 0.12}}
	for _, c := range []struct {
		decoder   string
		outputs   []Output
		want      [2]float32 // objectness
		proposals float32
	}{
		{"yolox", encodeYOLOX(in, things), [2]float32{0.9, 0.9}, 0.5},
		{"gfl", encodeGFL(true)(in, things), [2]float32{0.6, 0.12}, 0.1},
		{"ssd", encodeSSD(in, things), [2]float32{0.6, 0.12}, 0.1},
	} {
		d, err := Find(c.decoder)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decode(c.outputs, Options{Input: in, Proposals: c.proposals})
		if err != nil || len(got.Detections) != 1 || len(got.Proposals) != 2 {
			t.Fatalf("%s: %+v, %v", c.decoder, got, err)
		}
		for _, p := range got.Proposals {
			i := 0
			if IoU(p.Box, things[1].box) > 0.5 {
				i = 1
			}
			if IoU(p.Box, things[i].box) < 0.98 || math.Abs(float64(p.Objectness-c.want[i])) > 1e-3 {
				t.Errorf("%s: proposed %+v, want %v with %v", c.decoder, p, things[i].box, c.want[i])
			}
		}
		for wanted, n := range map[int]int{2: 1, 4: 0} {
			if some, err := d.Decode(c.outputs, Options{Input: in, Proposals: c.proposals, Wanted: []int{wanted}}); err != nil || len(some.Proposals) != n || len(some.Detections) != n {
				t.Errorf("%s: of class %d there are %+v, want %d found and proposed; %v", c.decoder, wanted, some, n, err)
			}
		}
		if plain, err := d.Decode(c.outputs, Options{Input: in}); err != nil || plain.Proposals != nil {
			t.Errorf("%s: %+v is proposed to one who did not ask, %v", c.decoder, plain.Proposals, err)
		}
	}
}

// TestMargins holds that it does not matter whether a network gives probabilities or their logarithms.
func TestMargins(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d, _ := Find("segmentation")
	const h, w = 5, 9
	logs, odds := make([]float32, 4*h*w), make([]float32, 4*h*w)
	want := make([]float64, h*w)
	for i := range want {
		var p [4]float64
		sum := 0.0
		for c := range p {
			p[c] = r.Float64()
			sum += p[c]
		}
		first, second := 0.0, 0.0
		for c := range p {
			p[c] /= sum
			if p[c] > first {
				first, second = p[c], first
			} else if p[c] > second {
				second = p[c]
			}
			odds[c*h*w+i], logs[c*h*w+i] = float32(p[c]), float32(math.Log(p[c])+3)
		}
		want[i] = first - second
	}
	for _, data := range [][]float32{odds, logs} {
		got, err := d.Decode([]Output{{"out", []int{1, 4, h, w}, data}}, Options{Input: Size{h, w}, Margins: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range got.Mask.Margin {
			if math.Abs(float64(m)-255*want[i]) > 1 {
				t.Fatalf("pixel %d: margin %d, want %v", i, m, 255*want[i])
			}
		}
		got.Mask.Crop(2, 3)
		if len(got.Mask.Margin) != 6 || got.Mask.Margin[3] != uint8(255*want[w]+0.5) {
			t.Errorf("cut it is %+v", got.Mask)
		}
	}
	if got := classMargin([]float32{float32(math.NaN()), 1}); got != 0 {
		t.Errorf("of no number: %v", got)
	}
}

func TestFindings(t *testing.T) {
	r := Result{
		Detections: []Detection{{Box: Box{10, 20, 30, 40}, Class: 2, Score: 0.5}},
		Proposals:  []Proposal{{Box{0, 0, 100, 50}, 0.7}, {Box{190, 0, 220, 9}, 0.6}},
		Mask:       &Mask{Size: Size{2, 3}, Class: make([]uint8, 6)},
	}
	r.Place(Size{50, 100}, Size{100, 200}) // as if it were of a part of that size
	f := r.Findings(Size{100, 200})
	if len(f.Detections) != 1 || f.Detections[0] != (videoext.Detection{Region: videoext.Region{X0: 0.1, Y0: 0.4, X1: 0.3, Y1: 0.8}, Class: 2, Score: 0.5}) {
		t.Errorf("detections %+v", f.Detections)
	}
	if len(f.Proposals) != 1 || f.Proposals[0] != (videoext.Proposal{Region: videoext.Whole, Objectness: 0.7}) {
		t.Errorf("proposals %+v", f.Proposals)
	}
	if f.Mask.Width != 3 || f.Mask.Height != 2 {
		t.Errorf("mask %+v", f.Mask)
	}
}
