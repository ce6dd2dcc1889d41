package speech

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// silenceHost is a toneHost that takes for speech what is not silent, and whose state counts the windows of each track.
type silenceHost struct {
	*toneHost
	passes, tracks int
}

func (h *silenceHost) TensorLimits(ctx context.Context, network string) (*wire.TensorLimits, error) {
	if network == Silence {
		return silenceLimits(), nil
	}
	return h.toneHost.TensorLimits(ctx, network)
}

func silenceLimits() *wire.TensorLimits {
	return &wire.TensorLimits{
		Inputs:  []wire.TensorSpec{{Name: "input", Type: engine.FP32, Shape: []int{-1, -1}}, {Name: "state", Type: engine.FP32, Shape: []int{2, -1, 1}}, {Name: "sr", Type: engine.Int64}},
		Outputs: []wire.TensorSpec{{Name: "output", Type: engine.FP32, Shape: []int{-1, 1}}, {Name: "stateN", Type: engine.FP32, Shape: []int{2, -1, 1}}},
	}
}

func (h *silenceHost) RunPasses(ctx context.Context, network string, outputs []string, inputs [][]pipeline.Tensor, accept func(int, []pipeline.Tensor) error) error {
	if network != Silence {
		return h.toneHost.RunPasses(ctx, network, outputs, inputs, accept)
	}
	in, state := inputs[0][0], inputs[0][1]
	h.tracks = in.Shape[0]
	if in.Shape[1] != 576 || state.Shape[1] != h.tracks || len(inputs[0][2].Shape) != 0 || binary.LittleEndian.Uint64(inputs[0][2].Data) != 16000 {
		h.t.Errorf("%v, %v, %v", in.Shape, state.Shape, inputs[0][2])
	}
	likely, next := pipeline.Tensor{}, pipeline.Tensor{}
	for i, values := 0, floats(in.Data); i < h.tracks; i++ {
		loudest := float32(0)
		for _, v := range values[i*576+64:][:512] {
			loudest = max(loudest, v)
		}
		likely.Data = binary.LittleEndian.AppendUint32(likely.Data, math.Float32bits(min(1, 20*max(0, loudest-0.03))))
	}
	for _, v := range floats(state.Data) {
		if int(v) != h.passes {
			h.t.Errorf("a state of %v at the window %d", v, h.passes)
		}
		next.Data = binary.LittleEndian.AppendUint32(next.Data, math.Float32bits(v+1))
	}
	h.passes++
	return accept(0, []pipeline.Tensor{likely, next})
}

func floats(data []byte) (values []float32) {
	for ; len(data) > 0; data = data[4:] {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return values
}

// TestSilenceIsCut: what is heard, and when, is as without the network that finds silence, of less sound; a symbol on both sides of silence is two.
func TestSilenceIsCut(t *testing.T) {
	quiet, loud := make([]byte, 50*25), []byte{1, 1, 2, 0, 1, 3, 2}
	of := append(append(append(append([]byte{}, quiet...), loud...), quiet...), 2, 2, 1)
	of = append(of, quiet[:700]...)
	plain, host := &toneHost{t: t, limits: limits(-1)}, &silenceHost{toneHost: &toneHost{t: t, limits: limits(-1)}}
	p := &Pipeline{Settings: Settings{Rate: rate}, Alphabet: letters}
	want, err := listen(t.Context(), p, plain, levels(of))
	if err != nil {
		t.Fatal(err)
	}
	p.CutsSilence = true
	got, err := listen(t.Context(), p, host, levels(of))
	if err != nil || got.Text != want.Text || got.Text != "aba bba" || got.Seconds != want.Seconds {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	for i, w := range got.Words {
		if math.Abs(w.Start-want.Words[i].Start) > 0.02 || math.Abs(w.End-want.Words[i].End) > 0.02 {
			t.Errorf("word %+v, want %+v", w, want.Words[i])
		}
	}
	if host.windows != 2 || host.longest > rate || plain.windows < 4 || host.tracks != 8 {
		t.Errorf("%d windows of %d samples at most are heard, of all %d; %d tracks", host.windows, host.longest, plain.windows, host.tracks)
	}
	host = &silenceHost{toneHost: &toneHost{t: t, limits: limits(-1)}}
	if got, err := listen(t.Context(), p, host, levels(quiet)); err != nil || got.Text != "" || host.windows != 0 || got.Seconds != 25 {
		t.Errorf("of silence %+v, %v, by %d windows", got, err, host.windows)
	}
}

// TestNetworksThatFindNoSilence are refused with what is wanted.
func TestNetworksThatFindNoSilence(t *testing.T) {
	few := silenceLimits()
	few.Inputs = few.Inputs[:2]
	for _, l := range []*wire.TensorLimits{{}, limits(-1), few} {
		if _, err := newDetector(l); err == nil || !strings.Contains(err.Error(), "as silero-VAD has them") {
			t.Errorf("%v", err)
		}
	}
}
