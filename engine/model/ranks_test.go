package model

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// ranksOf are n ranks that share this machine's memory.
func ranksOf(t testing.TB, n int, open func() (kernels.Rank, error)) kernels.Backend {
	t.Helper()
	all := make([]func() (kernels.Rank, error), n)
	for i := range all {
		all[i] = open
	}
	b, err := tensorparallel.New(all, tensorparallel.JoinShared, tensorparallel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// cpuRanks are n ranks of one thread each, of the best instruction set.
func cpuRanks(t testing.TB, n int) kernels.Backend {
	t.Helper()
	cputest.Need(t, "")
	return ranksOf(t, n, func() (kernels.Rank, error) { return cpu.New(cpu.Config{Threads: 1}) })
}

// sharedModels are the golden models that ranks can share: OLMo's norms are of all heads together, and experts are of one processor.
func sharedModels() []string {
	return slices.DeleteFunc(slices.Clone(goldenModels), func(name string) bool { return strings.HasPrefix(name, "olmo") || isMixture(name) })
}

// TestRanksRefuseWholeNorms: before a pass finds out.
func TestRanksRefuseWholeNorms(t *testing.T) {
	config, source := goldenSource(t, "olmo2")
	b := ranksOf(t, 2, func() (kernels.Rank, error) { return ref.New().(kernels.Rank), nil })
	if _, err := New(config, source, b, Options{}); err == nil || !strings.Contains(err.Error(), "2 ranks cannot share norms") {
		t.Errorf("error %v", err)
	}
}

// TestRanksEqualTransformers holds models over several ranks to what one device is held to: the
// reference to 1e-4, the processor to transformers' own bfloat16 run. Heads that the ranks cannot
// share evenly are among them.
func TestRanksEqualTransformers(t *testing.T) {
	for _, name := range sharedModels() {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			reference := ranksOf(t, 2, func() (kernels.Rank, error) { return ref.New().(kernels.Rank), nil })
			d := measure(t, newModel(t, name, reference, Options{}), g)
			t.Logf("2 reference ranks: worst %.2g, mean %.2g", d.worst, d.mean())
			if d.worst > 1e-4 {
				t.Errorf("2 reference ranks: logprobs are up to %.2g off, want 1e-4", d.worst)
			}
			for _, n := range []int{2, 4} {
				d := measure(t, newModel(t, name, cpuRanks(t, n), Options{}), g)
				t.Logf("%d ranks: worst %.4f (transformers %.4f), mean %.4f (%.4f)", n, d.worst, g.Worst, d.mean(), g.Mean)
				if d.worst > g.Worst || d.mean() > g.Mean {
					t.Errorf("%d ranks: further off than transformers in bfloat16", n)
				}
			}
		})
	}
}

// narrowRank rounds its partials to bfloat16, as they are between GPUs.
type narrowRank struct{ kernels.Rank }

func (r narrowRank) round(m kernels.Mat) {
	raw := make([]byte, 4*m.Rows*m.Cols)
	r.Read(raw, m.Buf, m.Off)
	for at := 0; at < len(raw); at += 4 {
		bits := binary.LittleEndian.Uint32(raw[at:])
		binary.LittleEndian.PutUint32(raw[at:], (bits+0x7fff+bits>>16&1)&^0xffff)
	}
	r.Write(m.Buf, m.Off, raw)
}

func (r narrowRank) Product(dst, src kernels.Mat, l kernels.Linear) {
	r.Rank.Product(dst, src, l)
	r.round(dst)
}

func (r narrowRank) MLPProduct(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	r.Rank.MLPProduct(dst, x, n, act, up, down)
	r.round(dst)
}

// luck is by how much the worst of a few hundred values may exceed transformers' where partials are rounded
// once more than there. Which model has it depends on the order of sums: AMX's falls on one where transformers
// is close (0.083 against 0.072).
func luck(t *testing.T) float64 {
	if strings.Contains(cpuThreads(t, "", 1).Name(), "amx") {
		return 1.25
	}
	return 1
}

// TestNarrowPartials measures what bfloat16 partials cost, and holds their mean to transformers' bfloat16
// run too.
func TestNarrowPartials(t *testing.T) {
	cputest.Need(t, "")
	var wide, narrow distance
	join := func(all *distance, d distance) {
		all.worst, all.sum, all.count = max(all.worst, d.worst), all.sum+d.mean(), all.count+1
	}
	for _, name := range append(sharedModels(), realShape) {
		g := readGolden(t, name)
		join(&wide, measure(t, newModel(t, name, cpuRanks(t, 2), Options{}), g))
		d := measure(t, newModel(t, name, ranksOf(t, 2, func() (kernels.Rank, error) {
			b, err := cpu.New(cpu.Config{Threads: 1})
			return narrowRank{b}, err
		}), Options{}), g)
		join(&narrow, d)
		if d.worst > luck(t)*g.Worst || d.mean() > g.Mean {
			t.Errorf("%s: worst %.4f, mean %.4f: further off than transformers in bfloat16 (%.4f, %.4f)", name, d.worst, d.mean(), g.Worst, g.Mean)
		}
	}
	t.Logf("float32 partials: worst %.4f, mean %.4f; bfloat16: worst %.4f, mean %.4f", wide.worst, wide.mean(), narrow.worst, narrow.mean())
}

// TestPlanIsOfOneRank checks that a rank's plan has its part of the matrices and of the keys and
// values, and that what is loaded follows it.
func TestPlanIsOfOneRank(t *testing.T) {
	config, source := goldenSource(t, "qwen3-wide")
	opts := Options{MaxLen: 1000}
	whole, err := Predict(config, cpuThreads(t, "", 1), opts)
	if err != nil {
		t.Fatal(err)
	}
	b := cpuRanks(t, 2)
	half, err := Predict(config, b, opts)
	if err != nil {
		t.Fatal(err)
	}
	if half.Block*2 != whole.Block {
		t.Errorf("a block takes %d bytes on one of two ranks, %d on one device", half.Block, whole.Block)
	}
	m, err := New(config, source, b, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var everywhere int64 // tables, vectors and rotary angles
	for _, c := range m.weightChunks() {
		for _, p := range c.Parts {
			if p.Kind != "linear" && p.Kind != "output" && p.Kind != "gated" {
				everywhere += p.Bytes
			}
		}
	}
	if got, want := half.Weights-everywhere, (whole.Weights-everywhere)/2; got != want {
		t.Errorf("matrices are predicted to take %d bytes on one of two ranks, want %d", got, want)
	}
	if off := float64(half.Weights)/float64(m.Plan().Weights) - 1; off < -0.02 || off > 0.1 {
		t.Errorf("predicted %d bytes of weights on a rank, there are %d", half.Weights, m.Plan().Weights)
	}
}

// BenchmarkRanks compares two threads as one device with two ranks of one thread each, at
// Qwen2.5-0.5B's shape: they take turns, and what is reported is the median of each.
func BenchmarkRanks(b *testing.B) {
	var models []*Model
	for _, backend := range []kernels.Backend{cpuThreads(b, "", 2), cpuRanks(b, 2)} {
		m, err := New(qwen05B(), weights.Random{Seed: 1, Type: kernels.BF16}, backend, Options{MaxLen: 4096})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(m.Close)
		models = append(models, m)
	}
	for _, n := range []int{150, 512, 2048} {
		b.Run(fmt.Sprintf("tokens=%d", n), func(b *testing.B) {
			item := wire.TokenItem{Tokens: goldenPrompt(n, models[0].spec.Vocab), Ask: scoring}
			took := make([][]time.Duration, len(models))
			for b.Loop() {
				for i, m := range models {
					start := time.Now()
					if err := run(b, m, item)[0].Err; err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			median := func(t []time.Duration) float64 {
				slices.Sort(t)
				return t[len(t)/2].Seconds()
			}
			one, two := median(took[0]), median(took[1])
			b.ReportMetric(float64(n)/one, "threads-tokens/s")
			b.ReportMetric(float64(n)/two, "ranks-tokens/s")
			b.ReportMetric(two/one, "ranks/threads-time")
		})
	}
}
