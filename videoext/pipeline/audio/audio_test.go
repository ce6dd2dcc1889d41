package audio

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

func backend(t *testing.T) kernels.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func open(t *testing.T, sound []float32) *Pipeline {
	t.Helper()
	p, err := Open(sound, backend(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// recordings are held out ones; the test is skipped where there are none.
func recordings(t *testing.T) []Recording {
	t.Helper()
	dir := filepath.Join(os.Getenv("PREFILLONLY_DATA"), "audio", "fsdd")
	if _, err := os.Stat(dir); os.Getenv("PREFILLONLY_DATA") == "" || err != nil {
		t.Skip("PREFILLONLY_DATA has no audio/fsdd")
	}
	all, err := Recordings(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// vowels are recordings that are drawn: a voice of harmonics with two formants, whose digit means nothing.
func vowels() (all []Recording) {
	for digit := range 10 {
		samples := make([]float32, rate/3)
		for i := range samples {
			t := float64(i) / rate
			swell := math.Sin(math.Pi * t * 3)
			for h := 1; h*110 < 3900; h++ {
				f := float64(h * 110)
				first, second := f-float64(300+60*digit), f-float64(2300-150*digit)
				samples[i] += float32(swell * 0.1 * (math.Exp(-first*first/2e4) + math.Exp(-second*second/4e4)) * math.Sin(2*math.Pi*f*t))
			}
		}
		all = append(all, Recording{digit, "vowels", samples})
	}
	return all
}

func TestSuite(t *testing.T) {
	pipelinetest.Run(t, open(t, Draw(vowels(), 20, 1)))
	t.Run("recordings", func(t *testing.T) { pipelinetest.Run(t, open(t, Draw(recordings(t), 20, 1))) })
}

// TestHeldOut: the network hears, through this package's spectrogram, what recordings say that it was not trained on, at each rate about as well as its maker says.
func TestHeldOut(t *testing.T) {
	all := recordings(t)
	var sound []float32
	for _, r := range all {
		second := make([]float32, rate)
		n := min(len(r.Samples), rate)
		for i, v := range r.Samples[:n] {
			second[(rate-n)/2+i] = 0.4 * v
		}
		sound = append(sound, second...)
	}
	p := open(t, sound)
	for setting, want := range []float64{0.8, 0.85, 0.9, 0.95, 0.95, 0.98} {
		right := 0
		for i, r := range all {
			in, err := p.Prepare(i, oneadapt.Config{setting})
			if err != nil {
				t.Fatal(err)
			}
			output, err := p.runNetwork(in.(*sent))
			if err != nil {
				t.Fatal(err)
			}
			best := Digit{}
			for _, d := range decodeDigits(output.Data) {
				if d.Score > best.Score {
					best = d
				}
			}
			if best.Digit == r.Digit {
				right++
			}
		}
		got := float64(right) / float64(len(all))
		t.Logf("%.3f of %d at %d Hz", got, len(all), Rates[setting])
		if got < want {
			t.Errorf("%.3f are right at %d Hz, want %.2f", got, Rates[setting], want)
		}
	}
}

// TestGradient: the gradient is how the utility of what is heard changes with a band, by differences of the network's output.
func TestGradient(t *testing.T) {
	p := open(t, Draw(recordings(t), 40, 1))
	run := func(s *sent) []float32 {
		output, err := p.runNetwork(s)
		if err != nil {
			t.Fatal(err)
		}
		return output.Data
	}
	checked := 0
	for interval := range p.Intervals() {
		in, err := p.Prepare(interval, oneadapt.Config{1})
		if err != nil {
			t.Fatal(err)
		}
		s := in.(*sent)
		m, err := p.Gradient(s)
		if err != nil {
			t.Fatal(err)
		}
		heard := decodeDigits(run(s))
		utility := func(output []float32) (sum float64) {
			for _, d := range heard {
				worth, _ := p.utility.Evaluate(float64(output[d.Digit*steps+d.Step]))
				sum += worth
			}
			return sum
		}
		for band := 3; band < bands; band += 8 {
			const by = 0.0003
			up, down := &sent{spectrogram: slices.Clone(s.spectrogram)}, &sent{spectrogram: slices.Clone(s.spectrogram)}
			for f := range frames {
				up.spectrogram[band*frames+f] += by
				down.spectrogram[band*frames+f] -= by
			}
			change := math.Abs(utility(run(up))-utility(run(down))) / (2 * by)
			if said := float64(m.Values[band]); math.Abs(change-said) > 0.2*said+0.02 {
				t.Errorf("second %d: the utility changes by %v with band %d, and the gradient says %v", interval, change, band, said)
			}
			if change > 0.02 {
				checked++
			}
		}
	}
	if checked == 0 {
		t.Error("no utility changes")
	}
}

func TestVoiced(t *testing.T) {
	quietly := func(recordings []Recording) (with, without int) {
		for _, r := range recordings {
			second := make([]float32, rate)
			for i, v := range r.Samples[:min(len(r.Samples), rate)] {
				second[i] = 0.3 * v
			}
			if hasVoice(second) {
				with++
			}
		}
		return with, len(recordings) - with
	}
	if with, without := quietly(vowels()); without > 0 {
		t.Errorf("%d have a voice, %d have none", with, without)
	}
	if hasVoice(make([]float32, rate)) || hasVoice(open(t, Draw([]Recording{{}}, 1, 1)).intervalSound(0)) {
		t.Error("there is no voice")
	}
	if with, without := quietly(recordings(t)); with < 9*without {
		t.Errorf("%d have a voice, %d have none", with, without)
	}
}

var _ pipeline.Pipeline = (*Pipeline)(nil)
