package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// speedCase is what is timed on a device: prompts of some lengths, and suffixes over a cached prefix.
type speedCase struct {
	config  string // config.json
	prompts []int
	chunk   int
	cached  int // tokens of the prefix, a multiple of the block
	suffix  int // tokens after it
	packed  int // suffixes in one pass
	ceiling [3]int
}

const speedBlock = 64

// meter is a Device that, while it is on, waits for each operation and adds up its time by kind.
type meter struct {
	cuda.Device
	on    bool
	parts map[string]time.Duration
	err   error
}

func (m *meter) time(part string, enqueue func()) {
	if !m.on {
		enqueue()
		return
	}
	m.wait()
	start := time.Now()
	enqueue()
	m.wait()
	m.parts[part] += time.Since(start)
}

func (m *meter) wait() {
	if err := m.Device.Sync(); m.err == nil {
		m.err = err
	}
}

func (m *meter) Gemm(g cuda.Gemm)   { m.time("linear", func() { m.Device.Gemm(g) }) }
func (m *meter) Flash(f cuda.Flash) { m.time("attention", func() { m.Device.Flash(f) }) }

func (m *meter) Launch(kernel string, grid [2]int, threads int, args ...uint64) {
	part := "rest"
	if kernel == "pf_attention" || kernel == "pf_gather_kv" {
		part = "attention"
	}
	m.time(part, func() { m.Device.Launch(kernel, grid, threads, args...) })
}

func (m *meter) Sync() error {
	m.wait()
	err := m.err
	m.err = nil
	return err
}

// noise is a model.Source of random weights: matrices are cut from one stretch of bfloat16 normals,
// since a GPU computes zeros faster than numbers.
type noise struct{ values []byte }

func newNoise(n int) noise {
	random := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, 0, 2*n)
	for range n {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(math.Float32bits(float32(random.NormFloat64()*0.02))>>16))
	}
	return noise{raw}
}

func (s noise) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	t := kernels.HostTensor{Name: name, Type: kernels.BF16, Rows: 1, Cols: shape[len(shape)-1]}
	if len(shape) == 1 {
		for range t.Cols {
			t.Data = append(t.Data, 0x80, 0x3f) // a norm's weight of one
		}
		return t, nil
	}
	t.Rows = shape[0]
	start := fnv.New32a()
	start.Write([]byte(name))
	at := int(start.Sum32()) % (len(s.values) / 4) * 2
	bytes := 2 * t.Rows * t.Cols
	t.Data = make([]byte, 0, bytes)
	for len(t.Data) < bytes {
		t.Data = append(t.Data, s.values[at:at+min(len(s.values)-at, bytes-len(t.Data))]...)
		at = 0
	}
	return t, nil
}

func (noise) Release(kernels.HostTensor) {}
func (noise) Untaken() []string          { return nil }
func (noise) Fingerprint() string        { return "noise" }

// pass runs items to their results and returns the time it took.
func pass(m *model.Model, items ...wire.RunItem) (time.Duration, error) {
	start := time.Now()
	p, err := m.Begin(&wire.Run{Items: items})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			return 0, err
		}
	}
	for _, r := range p.Results() {
		if r.Err != nil {
			return 0, r.Err
		}
	}
	return time.Since(start), nil
}

// prompt is tokens that depend on seed, of which the last ask for two labels.
func prompt(seed uint64, n, vocab int) wire.RunItem {
	random := rand.New(rand.NewPCG(seed, 3))
	item := wire.RunItem{Ask: engine.Ask{Allowed: []engine.TokenID{1, 2}}}
	for range n {
		item.Tokens = append(item.Tokens, engine.TokenID(random.IntN(vocab)))
	}
	return item
}

// speed measures the case on a device and writes a report in Markdown.
func speed(out io.Writer, device cuda.Device, c speedCase) error {
	config, err := weights.ParseConfig([]byte(c.config))
	if err != nil {
		return err
	}
	counted := &meter{Device: device, parts: map[string]time.Duration{}}
	backend := cuda.New(counted)
	fmt.Fprintf(out, "# Speed on %s\n\n", backend.Name())
	if err := gemmCeiling(out, counted, c.ceiling); err != nil {
		return err
	}
	longest := max(c.cached+c.suffix, slices.Max(c.prompts)) + 1
	m, err := model.New(config, newNoise(1<<20), backend, model.Options{MaxLen: longest, ChunkRows: c.chunk, BlockTokens: speedBlock, MaxItems: c.packed})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.NewPages(c.cached / speedBlock); err != nil {
		return err
	}
	if err := speedOfPrompts(out, m, counted, c, config.VocabSize); err != nil {
		return err
	}
	return speedOfSuffixes(out, m, c, config.VocabSize)
}

// gemmCeiling measures one large product by itself: what no model can exceed.
func gemmCeiling(out io.Writer, m *meter, shape [3]int) error {
	g := cuda.Gemm{M: shape[0], N: shape[1], K: shape[2], AStride: shape[2], DStride: shape[1], DType: kernels.BF16}
	values := newNoise(1 << 20).values
	for _, p := range []struct {
		at    *cuda.Ptr
		bytes int
	}{{&g.A, 2 * g.M * g.K}, {&g.W, 2 * g.N * g.K}, {&g.D, 2 * g.M * g.N}} {
		var err error
		if *p.at, err = m.Alloc(int64(p.bytes)); err != nil {
			return err
		}
		defer m.Free(*p.at)
		for off := 0; off < p.bytes; off += len(values) {
			m.Upload(*p.at+cuda.Ptr(off), values[:min(len(values), p.bytes-off)])
		}
	}
	const runs = 20
	m.Gemm(g)
	if err := m.Sync(); err != nil {
		return err
	}
	start := time.Now()
	for range runs {
		m.Gemm(g)
	}
	err := m.Sync()
	took := time.Since(start) / runs
	fmt.Fprintf(out, "GEMM ceiling, %d x %d x %d: %.4g TFLOP/s\n\n", g.M, g.N, g.K, 2*float64(g.M)*float64(g.N)*float64(g.K)/took.Seconds()/1e12)
	return err
}

// speedOfPrompts runs each length twice unobserved, of which the second counts, and once in parts.
func speedOfPrompts(out io.Writer, m *model.Model, counted *meter, c speedCase, vocab int) error {
	fmt.Fprint(out, "| tokens | ms | tokens/s | linear | attention | rest |\n|---|---|---|---|---|---|\n")
	for i, n := range c.prompts {
		item := prompt(uint64(i), n, vocab)
		var took time.Duration
		for range 2 {
			var err error
			if took, err = pass(m, item); err != nil {
				return err
			}
		}
		clear(counted.parts)
		counted.on = true
		_, err := pass(m, item)
		counted.on = false
		if err != nil {
			return err
		}
		total := counted.parts["linear"] + counted.parts["attention"] + counted.parts["rest"]
		share := func(part string) float64 { return 100 * counted.parts[part].Seconds() / total.Seconds() }
		fmt.Fprintf(out, "| %d | %.4g | %.4g | %.1f %% | %.1f %% | %.1f %% |\n",
			n, took.Seconds()*1e3, float64(n)/took.Seconds(), share("linear"), share("attention"), share("rest"))
	}
	return nil
}

// speedOfSuffixes compares suffixes over one cached prefix in one pass with one pass each.
func speedOfSuffixes(out io.Writer, m *model.Model, c speedCase, vocab int) error {
	prefix := prompt(100, c.cached, vocab)
	for i := range c.cached / speedBlock {
		prefix.Blocks = append(prefix.Blocks, wire.BlockID(i))
	}
	if _, err := pass(m, prefix); err != nil {
		return err
	}
	items := make([]wire.RunItem, c.packed)
	for i := range items {
		items[i] = prompt(uint64(200+i), c.suffix, vocab)
		items[i].Tokens = append(slices.Clone(prefix.Tokens), items[i].Tokens...)
		items[i].Cached, items[i].Blocks = c.cached, prefix.Blocks
	}
	var together, apart time.Duration
	for range 2 { // the second round counts
		var err error
		if together, err = pass(m, items...); err != nil {
			return err
		}
		apart = 0
		for _, item := range items {
			took, err := pass(m, item)
			if err != nil {
				return err
			}
			apart += took
		}
	}
	fmt.Fprintf(out, "\n%d suffixes of %d tokens over %d cached ones: %.4g ms packed, %.4g ms one at a time: %.2f times\n",
		c.packed, c.suffix, c.cached, together.Seconds()*1e3, apart.Seconds()*1e3, apart.Seconds()/together.Seconds())
	return nil
}

// TestSpeedReport writes the report of a small model on the simulated device, whose figures mean
// nothing.
func TestSpeedReport(t *testing.T) {
	var report strings.Builder
	err := speed(&report, simt.New(), speedCase{
		config: `{"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":64,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
			"num_attention_heads":2,"num_key_value_heads":1,"head_dim":64,"max_position_embeddings":256,"hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":10000}`,
		prompts: []int{20, 90}, chunk: 32, cached: 64, suffix: 5, packed: 3, ceiling: [3]int{32, 48, 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Speed on simt", "GEMM ceiling, 32 x 48 x 64: ", "\n| 20 | ", "\n| 90 | ", "3 suffixes of 5 tokens over 64 cached ones: "} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, report.String())
		}
	}
	if strings.Contains(report.String(), "NaN") || strings.Contains(report.String(), " 0.0 %") {
		t.Errorf("a part was not measured:\n%s", report.String())
	}
}
