package speech

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

const (
	rate = 8000
	step = rate / 50 // samples
)

// toneHost hears in each step of 20 ms the symbol whose level its loudest sample has, of levels of a tenth; it counts what it is asked.
type toneHost struct {
	t       *testing.T
	limits  *wire.TensorLimits
	held    int64
	planned float64
	windows int
	longest int
	lengths []int
}

func (h *toneHost) RunStage(_ context.Context, s processors.Stage, f func() error) error {
	if s.Yields != (s.Kind == "sound" || s.Kind == "silence") {
		h.t.Errorf("stage %q: yields %t, want that of sound alone, which is taken second by second", s.Kind, s.Yields)
	}
	return f()
}

func (h *toneHost) HoldMemory(bytes int64) error {
	h.held += bytes
	return nil
}

func (h *toneHost) ReleaseMemory(bytes int64) { h.held -= bytes }

func (h *toneHost) TensorLimits(context.Context, string) (*wire.TensorLimits, error) {
	return h.limits, nil
}

func (h *toneHost) PlanPass(_ string, units float64) (time.Duration, error) {
	h.planned += units
	return 0, nil
}

func (h *toneHost) RunPasses(_ context.Context, _ string, outputs []string, inputs [][]pipeline.Tensor, accept func(int, []pipeline.Tensor) error) error {
	if !slices.Equal(outputs, []string{"best", "score"}) || len(inputs) > group {
		h.t.Errorf("%q of %d windows", outputs, len(inputs))
	}
	for i, in := range inputs {
		h.windows++
		sound := in[0].Data
		h.longest = max(h.longest, len(sound)/4)
		if len(in) > 1 {
			h.lengths = append(h.lengths, int(binary.LittleEndian.Uint64(in[1].Data)))
		}
		best, score := pipeline.Tensor{Name: "best", Type: engine.Int64}, pipeline.Tensor{Name: "score", Type: engine.FP32}
		for ; len(sound) > 0; sound = sound[min(4*step, len(sound)):] {
			loudest := float32(0)
			for at := 0; at < min(4*step, len(sound)); at += 4 {
				loudest = max(loudest, math.Float32frombits(binary.LittleEndian.Uint32(sound[at:])))
			}
			best.Data = binary.LittleEndian.AppendUint64(best.Data, uint64(math.Round(float64(loudest)*10)))
			score.Data = binary.LittleEndian.AppendUint32(score.Data, math.Float32bits(0.5))
		}
		if err := accept(i, []pipeline.Tensor{best, score}); err != nil {
			return err
		}
	}
	return nil
}

func limits(samples int, more ...wire.TensorSpec) *wire.TensorLimits {
	return &wire.TensorLimits{
		Inputs:  append([]wire.TensorSpec{{Name: "waveform", Type: engine.FP32, Shape: []int{-1, samples}}}, more...),
		Outputs: []wire.TensorSpec{{Name: "y", Type: engine.FP32, Shape: []int{-1, -1, 5}}, {Name: "best", Type: engine.Int64, Shape: []int{-1, -1}}, {Name: "score", Type: engine.FP32, Shape: []int{-1, -1}}},
	}
}

// levels is a WAV file of floats, each step of one level.
func levels(of []byte) []byte {
	var data []byte
	for _, level := range of {
		for range step {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(level)/10))
		}
	}
	return wave(rate, data)
}

// wave is a WAV file of floats.
func wave(rate int, data []byte) []byte {
	b := []byte("RIFF....WAVEfmt \x10\x00\x00\x00\x03\x00\x01\x00")
	b = binary.LittleEndian.AppendUint32(b, uint32(rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(4*rate))
	b = append(b, 4, 0, 32, 0)
	return append(binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(len(data))), data...)
}

var letters = NewAlphabet([]string{"<blank>", "a", "b", "|", "<unk>"})

// heard is what CTC says of levels by its rule, word by word.
func heard(of []byte) string {
	var b strings.Builder
	for i, level := range of {
		if i > 0 && of[i-1] == level {
			continue
		}
		b.WriteString([]string{"", "a", "b", " ", ""}[level])
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func listen(ctx context.Context, p *Pipeline, h pipeline.Host, file []byte) (*Transcript, error) {
	sound, err := p.Read(ctx, h, file)
	if err != nil {
		return nil, err
	}
	return p.Hear(ctx, h, sound)
}

// TestLongSoundIsHeardAsOne: whatever a sound's length, and whether a network takes any length or one, what is heard in windows
// that overlap is what is heard in all of it, with its times; and no more than some windows are made at a time.
func TestLongSoundIsHeardAsOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		of := make([]byte, 1+random.IntN([]int{40, 4000, 12000}[i%3]))
		for at := 0; at < len(of); {
			level := byte(random.IntN(5))
			for range 1 + random.IntN(6) {
				if at < len(of) {
					of[at] = level
					at++
				}
			}
		}
		h := &toneHost{t: t, limits: limits([]int{-1, 40 * step}[i/3%2])}
		p := &Pipeline{Settings: Settings{Rate: rate}, Alphabet: letters}
		got, err := listen(t.Context(), p, h, levels(of))
		if err != nil {
			t.Fatal(err)
		}
		if want := heard(of); got.Text != want || math.Abs(got.Seconds-float64(len(of))/50) > 1e-9 {
			t.Fatalf("%d steps, %d windows: %.2f s: got %.200q, want %.200q", len(of), h.windows, got.Seconds, got.Text, want)
		}
		if h.held < int64(4*step*len(of)) || h.held > int64(4*step*len(of))+1<<20 && h.held > 3*int64(4*step*len(of)) {
			t.Errorf("%d bytes are held for %d of sound", h.held, 4*step*len(of))
		}
		if h.planned != float64(h.windows) {
			t.Errorf("%v windows are planned, and %d heard", h.planned, h.windows)
		}
		for w, word := range got.Words {
			first := of[int(math.Round(word.Start*50))]
			if name := letters.text[first]; !strings.HasPrefix(word.Text, name) || name == "" || word.End <= word.Start || word.End > got.Seconds+1e-9 || w > 0 && word.Start < got.Words[w-1].End-1e-9 {
				t.Fatalf("word %d is %+v", w, word)
			}
		}
	}
}

// TestLengthsGoBeside: a network that asks how long the sound is, or which samples are sound, is told.
func TestLengthsGoBeside(t *testing.T) {
	h := &toneHost{t: t, limits: limits(-1, wire.TensorSpec{Name: "lengths", Type: engine.Int64, Shape: []int{-1}})}
	p := &Pipeline{Settings: Settings{Rate: rate}, Alphabet: letters}
	if _, err := listen(t.Context(), p, h, levels(make([]byte, 1100))); err != nil || !slices.Equal(h.lengths, []int{20 * rate, 6 * rate}) {
		t.Errorf("%v, %v", h.lengths, err)
	}
	mask := lengthTensor(wire.TensorSpec{Name: "mask", Type: engine.Int64, Shape: []int{-1, -1}}, 2, 3)
	if want := []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"); !bytes.Equal(mask.Data, want) || !slices.Equal(mask.Shape, []int{1, 3}) {
		t.Errorf("%+v", mask)
	}
}

// TestNormalizedWindows: a window has a mean of 0 and a variance of 1, whatever its loudness.
func TestNormalizedWindows(t *testing.T) {
	n, err := newNetwork(Settings{Rate: rate, Normalize: true}, limits(-1))
	if err != nil {
		t.Fatal(err)
	}
	sound := make([]float32, rate/2)
	for i := range sound {
		sound[i] = 0.3 + 0.01*float32(math.Sin(float64(i)))
	}
	w := n.windows(len(sound))[0]
	data, sum, squares := n.inputs(sound, w)[0].Data, 0.0, 0.0
	for i := range sound {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		sum, squares = sum+v, squares+v*v
	}
	if mean := sum / float64(len(sound)); len(data) != 4*rate || math.Abs(mean) > 1e-3 || math.Abs(squares/float64(len(sound))-1) > 0.01 {
		t.Errorf("%d bytes, a mean of %v and squares of %v", len(data), mean, squares/float64(len(sound)))
	}
}

// TestNetworksThatDoNotHearAreRefused: what takes pictures or says no symbols is named.
func TestNetworksThatDoNotHearAreRefused(t *testing.T) {
	picture, silent, half := limits(-1), limits(-1), limits(-1)
	picture.Inputs[0].Shape = []int{1, 3, 16, 16}
	silent.Outputs = silent.Outputs[:1]
	half.Inputs[0].Type = engine.FP16
	for _, l := range []*wire.TensorLimits{picture, silent, half, {}} {
		var failed *engine.Error
		if _, err := newNetwork(Settings{Rate: rate}, l); !errors.As(err, &failed) || failed.Code != engine.CodeUnavailable {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// endless is a sound without an end, of a rate.
type endless struct {
	rate, given int
	failed      error
}

func (e *endless) Rate() int { return e.rate }
func (e *endless) Close()    { e.given = -1 }

func (e *endless) Next(_ context.Context, into []float32) (int, error) {
	e.given += len(into)
	if e.failed != nil {
		return 0, e.failed
	}
	return len(into), nil
}

// TestSoundThatIsNoneIsRefused: bad files, sound without an end and rates that there are not.
func TestSoundThatIsNoneIsRefused(t *testing.T) {
	p := &Pipeline{Settings: Settings{Rate: rate}, Alphabet: letters}
	for name, c := range map[string]struct {
		sound Sound
		file  []byte
		want  string
	}{
		"no decoder":      {nil, []byte("fLaC"), "unsupported sound"},
		"no samples":      {nil, wave(rate, nil), "the sound has no samples"},
		"long WAV":        {nil, wave(1000, make([]byte, 4*1000*(MaxSeconds+1))), "longer than 1800 s"},
		"endless":         {&endless{rate: 16000}, []byte("fLaC"), "longer than 1800 s"},
		"broken":          {&endless{rate: 16000, failed: errors.New("damaged")}, []byte("fLaC"), "damaged"},
		"nothing":         {&endless{rate: 16000, failed: io.EOF}, []byte("fLaC"), "the sound has no samples"},
		"rate of nothing": {&endless{rate: 0}, []byte("fLaC"), "invalid rate 0"},
		"rate of 10^9":    {&endless{rate: 1e9}, []byte("fLaC"), "invalid rate 1000000000"},
	} {
		p.Decode = nil
		if c.sound != nil {
			p.Decode = func(context.Context, []byte) (Sound, error) { return c.sound, nil }
		}
		h := &toneHost{t: t, limits: limits(-1)}
		_, err := listen(t.Context(), p, h, c.file)
		var wrong *FileError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if e, ok := c.sound.(*endless); ok && e.given != -1 {
			t.Errorf("%s: the sound is left open", name)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client left")
	cancel(left)
	if _, err := listen(ctx, p, &toneHost{t: t, limits: limits(-1)}, levels(make([]byte, 10))); !errors.Is(err, left) {
		t.Errorf("%v, want %v", err, left)
	}
}

// TestAlphabetsOfNetworks: the blank is found by its name, words by their delimiter or by marks of pieces, and other marks are no text.
func TestAlphabetsOfNetworks(t *testing.T) {
	for _, c := range []struct {
		symbols []string
		said    []int64
		want    string
	}{
		{[]string{"<pad>", "<s>", "</s>", "<unk>", "|", "E", "T"}, []int64{1, 6, 0, 6, 5, 5, 4, 4, 0, 4, 3, 6, 2}, "TTE T"},
		{[]string{"<pad>", "x", "<blank>", "y"}, []int64{1, 2, 1, 3, 0, 3}, "xxyy"},
		{[]string{"▁he", "l", "lo", "▁wor", "ld", "<blk>"}, []int64{0, 5, 1, 2, 3, 4, 4}, "hello world"},
		{[]string{"-", "1", "2"}, []int64{0, 1, 0, 2, 2, 1}, "121"},
		{[]string{"字", ""}, []int64{0, 1, 0}, "字字"},
	} {
		h := &hearing{rate: 100, length: 100 * len(c.said), best: c.said, values: make([]float32, len(c.said)), step: 1}
		for i := range c.said {
			h.at = append(h.at, float64(i))
		}
		got, err := NewAlphabet(c.symbols).transcript(h)
		if err != nil || got.Text != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.symbols, got.Text, err, c.want)
		}
	}
	h := &hearing{rate: 1, length: 1, best: []int64{7}, values: make([]float32, 1), at: []float64{0}}
	if _, err := letters.transcript(h); err == nil || !strings.Contains(err.Error(), "its alphabet has 5") {
		t.Errorf("a symbol that there is not: %v", err)
	}
}

// TestSegmentsEndAtPauses: and are no longer than a subtitle.
func TestSegmentsEndAtPauses(t *testing.T) {
	var words []Word
	for _, at := range []float64{0, 0.5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20} {
		words = append(words, Word{Text: "w", Start: at, End: at + 0.4, logs: math.Log(0.5), symbols: 1})
	}
	got := segments(words, " ")
	var starts []float64
	for _, s := range got {
		starts = append(starts, s.Start)
		if s.End-s.Start > segmentSeconds || math.Abs(s.LogProb-math.Log(0.5)) > 1e-9 {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Equal(starts, []float64{0, 2, 10, 20}) {
		t.Errorf("segments start at %v", starts)
	}
}
