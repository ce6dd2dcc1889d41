package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// small are sizes that the simulated device runs in a moment. Its figures mean nothing.
func small(t *testing.T) sizes {
	return sizes{
		model:   shape{Name: "small", Weights: "bf16", Vocab: 64, Hidden: 64, Inter: 96, Layers: 2, Heads: 2, KVHeads: 1, Dim: 64},
		results: filepath.Join(t.TempDir(), "results.json"),
		prompts: []int{20, 90}, compared: 20, chunk: 32, chunkings: []int{16, 32}, chunked: 40,
		cached: 64, suffix: 5, packed: 4, long: 70, short: 10,
		ceiling: 32, rows: []int{3, 8}, rotate: 40 << 10, segments: []int{8, 16}, prefixes: []int{0, 64}, copied: 1 << 20, runs: 3,
	}
}

var (
	number = `[0-9][0-9.e+-]*`
	table  = regexp.MustCompile(`(?m)^\| .* \|$`)
)

// TestParts runs every part on the simulated device: each prints its rows, and every figure is a
// number.
func TestParts(t *testing.T) {
	want := map[string][]string{
		"prompts": {`GEMM ceiling, 32 x 32 x 32 in bfloat16, random values: N TFLOP/s`, `\| 20 \| N \| [23] \| N \| N % \| N % \| N % \| N % \| N % \|`,
			`\| 90 \| N .*\|`, `Kernels at 90 tokens:.* pf_store_kv N %`, `Memory for 90 tokens: -?N GB above the weights' N GB`},
		"suffixes":  {`4 suffixes of 5 tokens over 64 cached ones`, `\| 1 \| N \| N \| 1.00 \|`, `\| 4 \| N \| N \| N \|`},
		"pause":     {`a pass of 70 tokens makes way after any layer, within N ms \(median N ms\). One of 10 tokens in its middle took N ms, alone N ms`},
		"chunks":    {`\| 16 \| N \| N \|`, `\| 32 \| N \| N \|`},
		"attention": {`\| 8 \| 0 \| N \| N \| N \|`, `\| 16 \| 64 \| N \| N \| N \|`},
		"products":  {`\| 3 \| N \| N \| N \| N \| N \| N \|`, `Q, K, V \[256, 64\]`, `down \[64, 96\]`},
		"copies":    {`\| page-locked \| N \| N \|`, `\| ordinary \| N \| N \|`},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			var out strings.Builder
			device := simt.New()
			b := newBench(&out, device, small(t))
			if err := p.measure(b); err != nil {
				t.Fatal(err)
			}
			if free, total, _ := device.Memory(); p.name != "prompts" && free < total-(1<<20) {
				t.Errorf("%d bytes were not freed", total-free)
			}
			b.backend.Close()
			if len(want[p.name]) == 0 {
				t.Error("this test does not say what the part prints")
			}
			for _, w := range want[p.name] {
				if !regexp.MustCompile(strings.ReplaceAll(w, "N", number)).MatchString(out.String()) {
					t.Errorf("the report lacks %s:\n%s", w, out.String())
				}
			}
			columns := 0
			for _, row := range table.FindAllString(out.String(), -1) {
				if n := strings.Count(row, "|"); columns != 0 && n != columns {
					t.Errorf("a row of %d columns in a table of %d: %s", n-1, columns-1, row)
				}
				columns = strings.Count(row, "|")
			}
			if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") || strings.Contains(out.String(), "%!") {
				t.Errorf("a figure is no number:\n%s", out.String())
			}
		})
	}
}

// unable is a device that multiplies no int8.
type unable struct{ *simt.Device }

func (unable) Int8(int, int) error { return errors.New("simt does not multiply int8") }

// TestPartsInCodes runs the parts that differ in FP8 and int8, on devices that multiply codes and on those that do not.
func TestPartsInCodes(t *testing.T) {
	for _, c := range []struct {
		weights    string
		device     device
		part, want string
		measure    func(*bench) error
	}{
		{"fp8", simt.NewFP8(cuda.FP8Scaled), "prompts", `in float8_e4m3fn, random values: N TFLOP/s[^|]*(?s:.*)\| 90 \| N .*\|(?s:.*) pf_activate_fp8 N %`, (*bench).measurePrompts},
		{"fp8", simt.NewFP8(cuda.FP8Scaled), "products", `\| 3 \| N \| N \| N \| N \| N \| N \|`, (*bench).measureProducts},
		{"fp8", simt.New(), "prompts", `(?s:.*)\| 90 \| N .*\|(?s:.*) pf_dequantise_fp8 N %`, (*bench).measurePrompts},
		{"fp8", simt.New(), "products", "Not measured: simt does not multiply FP8", (*bench).measureProducts},
		{"int8", simt.New(), "prompts", `in int8, random values: N TFLOP/s[^|]*(?s:.*)\| 90 \| N .*\|(?s:.*) pf_scale_sums_i32 N %`, (*bench).measurePrompts},
		{"int8", simt.New(), "products", `products in int8, (?s:.*)\| 3 \| N \| N \| N \| N \| N \| N \|`, (*bench).measureProducts},
		{"int8", unable{simt.New()}, "products", "Not measured: simt does not multiply int8", (*bench).measureProducts},
	} {
		s := small(t)
		s.model.Weights = c.weights
		var out strings.Builder
		b := newBench(&out, c.device, s)
		err := c.measure(b)
		b.backend.Close()
		if err != nil || !regexp.MustCompile(strings.ReplaceAll(c.want, "N ", number+" ")).MatchString(out.String()) {
			t.Errorf("%s, %s: %v; the report lacks %s:\n%s", c.weights, c.part, err, c.want, out.String())
		}
	}
}

// TestResults: the file for tools/peers/cuda_torch.py has each prompt's time, and the likeliest tokens of those that
// are compared.
func TestResults(t *testing.T) {
	s := small(t)
	b := newBench(new(strings.Builder), simt.New(), s)
	defer b.backend.Close()
	if err := b.measurePrompts(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(s.results)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if r.Model != s.model || len(r.Prompts) != 2 {
		t.Fatalf("results %s", raw)
	}
	for i, p := range r.Prompts {
		top := []int{5, 0}[i]
		if p.Tokens != s.prompts[i] || !(p.Seconds > 0) || len(p.Top) != top || len(p.Logprobs) != top {
			t.Errorf("prompt %d: %+v", i, p)
		}
	}
}

// TestFLOP: the operations of Llama-3.1-8B are 13.96 G a token and 262,144 a token and position.
func TestFLOP(t *testing.T) {
	s, ok := onGPU("8b")
	if !ok {
		t.Fatal("no sizes for 8b")
	}
	const n = 8192
	if got, want := s.model.linearFLOP(n)+s.model.attentionFLOP(n), n*(13.96e9+262144*n); math.Abs(got/want-1) > 1e-3 {
		t.Errorf("%v operations, want %v", got, want)
	}
	for _, name := range []string{"32b", "70b"} {
		s, ok := onGPU(name)
		s.model.Weights = "int8"
		if _, err := s.model.modelConfig(1 << 17); !ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
}

// TestWithoutGPU: a machine without a GPU gets a line that says so, and no failure.
func TestWithoutGPU(t *testing.T) {
	if d, err := driver.Open(0, driver.Options{}); err == nil {
		d.Close()
		t.Skip("this machine has a GPU")
	}
	for _, p := range parts {
		var out strings.Builder
		if err := runPart(&out, request{part: p.name, model: "8b", weights: "bf16"}); err != nil || !strings.HasPrefix(out.String(), "Not measured: ") {
			t.Errorf("%s: %v, %q", p.name, err, out.String())
		}
	}
	if err := runPart(new(strings.Builder), request{part: "nothing", model: "8b", weights: "bf16"}); err == nil {
		t.Error("an unknown part was measured")
	}
	if err := runPart(new(strings.Builder), request{part: parts[0].name, model: "nothing", weights: "bf16"}); err == nil {
		t.Error("an unknown model was measured")
	}
	if err := runPart(new(strings.Builder), request{part: parts[0].name, model: "8b", weights: "nothing"}); err == nil {
		t.Error("weights of an unknown type were measured")
	}
}
