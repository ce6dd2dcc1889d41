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

var info = wire.ExecutorInfo{
	Device: "test", Model: "m", Fingerprint: "abc", VocabSize: 1000, MaxModelLen: 4097, BlockTokens: 16, NumBlocks: 64,
}

// synthetic is the grid with exact times of known coefficients, disturbed by a sine of so much.
func synthetic(noise float64) []Sample {
	points := grid(info, Options{Step: 256})
	for i := range points {
		f := features(points[i])
		t := 0.002 + 4e-4*f[1] + 3e-8*f[2]
		points[i].Took = seconds(t * (1 + noise*math.Sin(float64(i))))
	}
	return points
}

func TestFitFindsCoefficients(t *testing.T) {
	f, err := FitSamples(synthetic(0))
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(f.Base.Seconds()/0.002-1) > 1e-3 || math.Abs(f.Token.Seconds()/4e-4-1) > 1e-3 || math.Abs(f.Pair/3e-8-1) > 1e-3 {
		t.Errorf("got %+v", f)
	}
	if f.R2 < 0.999999 || f.Linear >= f.R2 || f.Pearson < 0.9 || f.Worst > 1e-3 {
		t.Errorf("figures of an exact fit: %+v", f)
	}
	noisy, err := FitSamples(synthetic(0.05))
	if err != nil || noisy.R2 < 0.98 || noisy.Worst > 0.1 {
		t.Errorf("5 %% noise: %+v, %v", noisy, err)
	}
}

func TestFitHasNoNegativeCoefficient(t *testing.T) {
	points := synthetic(0)
	for i := range points { // times that fall with the square of the length
		f := features(points[i])
		points[i].Took = seconds(0.002 + 4e-4*f[1] - 1e-8*f[2])
	}
	f, err := FitSamples(points)
	if err != nil || f.Pair != 0 || f.Token <= 0 {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestFitRefuses(t *testing.T) {
	if _, err := FitSamples(synthetic(0)[:2]); err == nil || !strings.Contains(err.Error(), "2 samples") {
		t.Errorf("two samples: %v", err)
	}
	idle := synthetic(0)
	idle[3].Took = 0
	if _, err := FitSamples(idle); err == nil || !strings.Contains(err.Error(), "took no time") {
		t.Errorf("a sample without time: %v", err)
	}
}

func TestMeasure(t *testing.T) {
	calls := 0
	points, err := Measure(executor.NewNull(info), Options{MaxTokens: 500, Repeat: 3, Progress: func(done, total int, _ Sample) {
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
		if p.Took <= 0 || p.Cached%info.BlockTokens != 0 || p.Cached >= p.Input {
			t.Errorf("sample %+v", p)
		}
	}
	if longest != 500 || calls != len(points) {
		t.Errorf("longest prompt %d, %d calls for %d points", longest, calls, len(points))
	}
}

func TestGridStaysInLimits(t *testing.T) {
	for _, p := range grid(info, Options{}) {
		if p.Input >= info.MaxModelLen || p.Cached > info.NumBlocks*info.BlockTokens {
			t.Errorf("sample %+v is outside the runner's limits", p)
		}
	}
}

func TestFileRoundTrip(t *testing.T) {
	path := Path(t.TempDir(), info)
	want := File{Device: info.Device, Model: "m", Fingerprint: info.Fingerprint, Fit: Fit{Base: 1, Token: 2, Pair: 3}, Samples: []Sample{{Input: 4, Took: time.Second}}}
	if err := Save(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path, info)
	if err != nil || got.Fit != want.Fit || got.Samples[0] != want.Samples[0] {
		t.Errorf("got %+v, %v", got, err)
	}
	other := info
	other.Fingerprint = "def"
	if _, err := Load(path, other); err == nil || !strings.Contains(err.Error(), "abc") || !strings.Contains(err.Error(), "def") {
		t.Errorf("a profile of another model: %v", err)
	}
	other = info
	other.Device = "elsewhere"
	if _, err := Load(path, other); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a profile of another device: %v", err)
	}
}

func TestLoadRefusesBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.json"), info); !errors.Is(err, fs.ErrNotExist) {
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
		if _, err := Load(path, info); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
