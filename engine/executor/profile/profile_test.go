package profile

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

const device = "test"

var info = wire.ModelInfo{
	Name: "m", Fingerprint: "abc", Weights: []uint32{0, 1}, Tokens: &wire.TokenLimits{VocabSize: 1000, MaxModelLen: 4097, BlockTokens: 16, NumBlocks: 64},
}

// counted are passes of prompts with parts of them cached, whose times are counted out: so much for the
// pass, so much for each token that is not cached, and so much for each token that one of those attends to.
// They are disturbed by a sine of noise.
func counted(pass, token, attended, noise float64) []Sample {
	var out []Sample
	for _, input := range []int{1, 16, 100, 256, 500, 1024, 1500, 2048, 3000, 4096} {
		for _, cached := range []int{0, 16, 128, 512, 1024, 2048} {
			if cached >= input {
				continue
			}
			time := pass
			for at := cached; at < input; at++ {
				time += token + attended*float64(at+1)
			}
			time *= 1 + noise*math.Sin(float64(len(out)))
			out = append(out, Sample{Input: input, Cached: cached, Took: nanoseconds(time)})
		}
	}
	return out
}

func nanoseconds(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

func TestFitFindsCoefficients(t *testing.T) {
	f, err := FitSamples(counted(0.002, 4e-4, 3e-8, 0))
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(f.Base.Seconds()/0.002-1) > 1e-3 || math.Abs(f.Unit.Seconds()/4e-4-1) > 1e-3 || math.Abs(f.Pair/3e-8-1) > 1e-3 {
		t.Errorf("got %+v", f)
	}
	if f.R2 < 0.999999 || f.Linear >= f.R2 || f.Pearson < 0.9 || f.Worst > 1e-3 {
		t.Errorf("figures of an exact fit: %+v", f)
	}
	noisy, err := FitSamples(counted(0.002, 4e-4, 3e-8, 0.05))
	if err != nil || noisy.R2 < 0.98 || noisy.Worst > 0.1 {
		t.Errorf("5 %% noise: %+v, %v", noisy, err)
	}
}

func TestFitHasNoNegativeCoefficient(t *testing.T) {
	f, err := FitSamples(counted(0.002, 4e-4, -1e-8, 0)) // times that fall with the square of the length
	if err != nil || f.Pair != 0 || f.Unit <= 0 {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestFitRefuses(t *testing.T) {
	if _, err := FitSamples(counted(0.002, 4e-4, 3e-8, 0)[:2]); err == nil || !strings.Contains(err.Error(), "2 samples") {
		t.Errorf("two samples: %v", err)
	}
	idle := counted(0.002, 4e-4, 3e-8, 0)
	idle[3].Took = 0
	if _, err := FitSamples(idle); err == nil || !strings.Contains(err.Error(), "took no time") {
		t.Errorf("a sample without time: %v", err)
	}
}

// TestFitFrames: a line through passes of several sizes, the mean of passes of one, and what larger frames and gradients cost.
func TestFitFrames(t *testing.T) {
	const ms = time.Millisecond
	one, four := Sample{Input: 1, Took: 12 * ms, Step: 3 * ms}, Sample{Input: 4, Took: 42 * ms, Step: 4 * ms}
	for i, c := range []struct {
		frames, others, gradients []Sample
		want                      Fit
	}{
		{[]Sample{one, four}, nil, []Sample{{Input: 1, Took: 27 * ms, Step: 5 * ms}}, Fit{Base: 2 * ms, Unit: 10 * ms, Step: 5 * ms, Backward: 1.5}},
		{[]Sample{one}, nil, nil, Fit{Unit: 12 * ms, Step: 3 * ms}},
		{[]Sample{{Input: 1, Took: 10 * ms}, {Input: 4, Took: 40 * ms}}, nil, []Sample{{Input: 1, Took: 9 * ms}}, Fit{Unit: 10 * ms, Backward: 0.01}},
		{[]Sample{one, four}, []Sample{{Input: 1, Size: 4, Took: 36 * ms}}, nil, Fit{Base: 2 * ms, Unit: 10 * ms, Step: 4 * ms, Growth: 0.8}},
		{[]Sample{one, four}, []Sample{{Input: 1, Size: 0.25, Took: 6 * ms}}, nil, Fit{Base: 2 * ms, Unit: 10 * ms, Step: 4 * ms, Growth: 0.8}},
		{[]Sample{one, four}, []Sample{{Input: 1, Size: 0.25, Took: 20 * ms}}, nil, Fit{Base: 2 * ms, Unit: 10 * ms, Step: 4 * ms, Growth: 0.01}},
	} {
		f, err := FitFrames(c.frames, c.others, c.gradients)
		near := func(a, b time.Duration) bool { return (a - b).Abs() < time.Microsecond }
		if err != nil || !near(f.Base, c.want.Base) || !near(f.Unit, c.want.Unit) || f.Step != c.want.Step || math.Abs(f.Backward-c.want.Backward) > 1e-3 || math.Abs(f.Growth-c.want.Growth) > 1e-3 || f.Worst > 1e-3 {
			t.Errorf("%d: %v, %+v, want %+v", i, err, f, c.want)
		}
	}
	flat, err := FitFrames([]Sample{{Input: 1, Took: 10 * ms}, {Input: 4, Took: 9 * ms}}, nil, nil)
	if err != nil || flat.Unit != 10*time.Microsecond || flat.Base < 9*ms {
		t.Errorf("frames that cost nothing: %v, %+v", err, flat)
	}
	falling, err := FitFrames([]Sample{{Input: 1, Took: 10 * ms}, {Input: 4, Took: 50 * ms}}, nil, nil)
	if err != nil || falling.Base != 0 || falling.Unit <= 0 {
		t.Errorf("with a base below zero: %v, %+v", err, falling)
	}
	if _, err := FitFrames(nil, nil, nil); err == nil {
		t.Error("a fit of nothing")
	}
	if _, err := FitFrames([]Sample{{Input: 1}}, nil, nil); err == nil || !strings.Contains(err.Error(), "took no time") {
		t.Errorf("a sample without time: %v", err)
	}
}

// TestApply: limits are set in a copy, where there are any.
func TestApply(t *testing.T) {
	limits := &wire.TensorLimits{Backward: 1}
	m := wire.ModelInfo{Tensors: limits}
	Fit{Base: 1, Unit: 2, Step: 3, Backward: 1.5}.Apply(&m)
	if m.Tensors.Backward != 1.5 || limits.Backward != 1 || m.Cost.Base != 1 || m.Cost.Unit != 2 || m.Step != 3 {
		t.Errorf("got %+v with %+v, was %+v", m, m.Tensors, limits)
	}
	m = wire.ModelInfo{Tensors: &wire.TensorLimits{}}
	if (Fit{Backward: 1.5}).Apply(&m); m.Tensors.Backward != 0 {
		t.Error("a model without gradients has their cost")
	}
}

func TestMeasure(t *testing.T) {
	vectors := info
	vectors.Tokens = &wire.TokenLimits{VocabSize: 1000, MaxModelLen: 4097, BlockTokens: 16, Hidden: 8, VectorsOnly: true}
	for _, m := range []wire.ModelInfo{info, vectors} {
		testMeasure(t, m)
	}
}

func testMeasure(t *testing.T, info wire.ModelInfo) {
	calls := 0
	points, err := Measure(executor.NewNull(wire.ExecutorInfo{Device: device, Weights: make([]wire.Weight, 2), Models: []wire.ModelInfo{info}}), "m", Options{MaxTokens: 500, Repeat: 3, Progress: func(done, total int, _ Sample) {
		calls++
		if done != calls || done > total {
			t.Errorf("progress %d of %d at call %d", done, total, calls)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, p := range points {
		longest = max(longest, p.Input)
		if p.Took <= 0 || p.Step <= 0 || p.Step > p.Took || p.Cached%info.Tokens.BlockTokens != 0 || p.Cached >= p.Input {
			t.Errorf("sample %+v", p)
		}
	}
	if longest != 500 || calls != len(points) {
		t.Errorf("longest prompt %d, %d calls for %d points", longest, calls, len(points))
	}
}

func TestGridStaysInLimits(t *testing.T) {
	for _, p := range sampleGrid(&info, Options{}) {
		if p.Input >= info.Tokens.MaxModelLen || p.Cached > info.Tokens.NumBlocks*info.Tokens.BlockTokens {
			t.Errorf("sample %+v is outside the runner's limits", p)
		}
	}
}

func TestFileRoundTrip(t *testing.T) {
	path := Path(t.TempDir(), device, &info)
	want := File{Device: device, Model: "m", Fingerprint: info.Fingerprint, Fit: Fit{Base: 1, Unit: 2, Pair: 3}, Samples: []Sample{{Input: 4, Took: time.Second}}}
	if err := Save(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path, device, &info)
	if err != nil || got.Fit != want.Fit || got.Samples[0] != want.Samples[0] {
		t.Errorf("got %+v, %v", got, err)
	}
	other := info
	other.Fingerprint = "def"
	if _, err := Load(path, device, &other); err == nil || !strings.Contains(err.Error(), "abc") || !strings.Contains(err.Error(), "def") {
		t.Errorf("a profile of another model: %v", err)
	}
	if _, err := Load(path, "elsewhere", &info); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a profile of another device: %v", err)
	}
}

func TestLoadRefusesBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.json"), device, &info); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for name, text := range map[string]string{
		"garbage": "{", "negative": `{"device":"test","fingerprint":"abc","fit":{"token_ns":-1,"base_ns":5}}`,
		"empty": `{"device":"test","fingerprint":"abc"}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, device, &info); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
