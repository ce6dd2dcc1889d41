package casva

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestForward: a network of two inputs, two hidden units and one output against what was computed by hand (Python's math.tanh).
func TestForward(t *testing.T) {
	n := &Network{In: 2, Hidden: 2, Out: 1, Params: []float64{0.5, -1, 2, 0.25, 0.1, -0.2, 3, -0.5, 0.75}}
	out, _ := n.Forward([]float64{0.3, -0.4})
	if want := 2.3193535920295565; math.Abs(out[0]-want) > 1e-12 {
		t.Errorf("it is %v, want %v", out[0], want)
	}
}

// TestBackward against central differences.
func TestBackward(t *testing.T) {
	r := random(1)
	n := NewNetwork(5, 4, 3, r)
	for i := range n.Params {
		n.Params[i] = r.NormFloat64()
	}
	x, weights := []float64{0.2, -1, 0.7, 0, 1.5}, []float64{1, -2, 0.5}
	loss := func() float64 {
		out, _ := n.Forward(x)
		return dot(out, weights)
	}
	gradient := make([]float64, len(n.Params))
	_, units := n.Forward(x)
	n.Backward(x, units, weights, gradient)
	for i := range n.Params {
		const step = 1e-5
		was := n.Params[i]
		n.Params[i] = was + step
		up := loss()
		n.Params[i] = was - step
		down := loss()
		n.Params[i] = was
		if want := (up - down) / (2 * step); math.Abs(gradient[i]-want) > 1e-8 {
			t.Errorf("parameter %d: %v, want %v", i, gradient[i], want)
		}
	}
}

func TestFile(t *testing.T) {
	p := NewPolicy([][]int{{0, 3, 10}, {2}, {0, 4}}, random(2))
	data, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadPolicy(data)
	if err != nil {
		t.Fatal(err)
	}
	state := BeginHistory(3, 1e5).State([]float64{0.1, 0.2, 0.3})
	out, _ := p.Forward(state)
	got, _ := again.Forward(state)
	for i := range out {
		if math.Abs(out[i]-got[i]) > 1e-6 {
			t.Errorf("output %d is %v after a file, %v before", i, got[i], out[i])
		}
	}
	if !slices.Equal(again.Config([]int{1, 0, 1}), []int{3, 2, 4}) {
		t.Errorf("the ladders are %v", again.Ladders)
	}
	for n := range data {
		if _, err := ReadPolicy(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for a policy", n, len(data))
		}
	}
}

func FuzzRead(f *testing.F) {
	data, _ := NewPolicy([][]int{{0, 1}, {3}}, random(3)).AppendBinary(nil)
	f.Add(data)
	f.Add(bytes.Replace(data, []byte{2, 0, 1}, []byte{0, 0, 1}, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadPolicy(data)
		if err != nil {
			return
		}
		for i, place := range p.Choose(BeginHistory(len(p.Ladders), 1e5).State(make([]float64, Content))) {
			if place < 0 || place >= len(p.Ladders[i]) {
				t.Errorf("knob %d: place %d of %d", i, place, len(p.Ladders[i]))
			}
		}
		again, err := p.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("a policy is written otherwise than it was read: %v", err)
		}
	})
}

// TestLink: what is more than the link carries waits, and delays all that comes behind it.
func TestLink(t *testing.T) {
	var l Link
	for i, want := range [][3]float64{{50, 0.5, 0}, {250, 2.5, 1.5}, {50, 2, 1}, {0, 1, 0}, {100, 1, 0}} {
		if delay, lag := l.Send(want[0], 100); delay != want[1] || lag != want[2] {
			t.Errorf("interval %d: delay %v and lag %v, want %v", i, delay, lag, want[1:])
		}
	}
}

// sensed are tones whose sensor tells something.
type sensed struct{ *pipelinetest.Tones }

func (sensed) Sense(int) ([]float64, error) { return []float64{0.1, 0.2, 0.3}, nil }
func (sensed) Sure(pipeline.Result) float64 { return 0.5 }

// TestWay: it does what the policy says, and takes one look and one preparation an interval.
func TestWay(t *testing.T) {
	p := NewPolicy([][]int{{0, 4}, {1, 2}}, random(4))
	_, _, _, biases := p.splitParams(p.Params)
	copy(biases, []float64{0, 9, 9, 0})
	steps, err := pipeline.NewLab(sensed{pipelinetest.NewTones(2, false)}).Run(&Way{Policy: p, Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		if !slices.Equal(s.Config, []int{4, 1}) || s.Inferences != 1 || s.Prepared != 1 {
			t.Errorf("interval %d: %+v", i, s)
		}
	}
	steps, err = pipeline.NewLab(sensed{pipelinetest.NewTones(2, false)}).Run(&Way{Policy: p, Share: 0.125})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps { // each takes 0.66 of the dearest, of which 0.125 goes in an interval: 5.3 are needed for each
		if sent := slices.Contains([]int{0, 4, 9, 14}, i); sent != (s.Cost > 0) || sent != (s.Inferences == 1) || !sent && s.Accuracy <= 0 {
			t.Errorf("on a poor link, interval %d: %+v", i, s)
		}
	}
	for want, run := range map[string]struct {
		p       pipeline.Pipeline
		ladders [][]int
	}{
		"tells nothing":     {pipelinetest.NewTones(2, false), p.Ladders},
		"policy of 1 knobs": {sensed{pipelinetest.NewTones(2, false)}, [][]int{{0, 1}}},
		"setting 5 of knob": {sensed{pipelinetest.NewTones(2, false)}, [][]int{{0, 1}, {5}}},
	} {
		if _, err := pipeline.NewLab(run.p).Run(&Way{Policy: NewPolicy(run.ladders, random(5)), Share: 0.3}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
