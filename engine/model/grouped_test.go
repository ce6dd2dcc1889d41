package model

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// groupedModels are the directories that tools/golden/golden_grouped.py writes: checkpoints in groups or blocks.
func groupedModels(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", "grouped"))
	if err != nil || len(entries) < 8 {
		t.Fatalf("%d checkpoints, %v", len(entries), err)
	}
	for _, e := range entries {
		names = append(names, filepath.Join("grouped", e.Name()))
	}
	return names
}

func loadGrouped(t *testing.T, name string, b kernels.Backend, o Options) *Model {
	t.Helper()
	m, err := Load(filepath.Join("testdata", name), b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestGroupedExpanded: all weights that are stored in groups or blocks become the bits that the formats' definitions give, rounded to bfloat16.
func TestGroupedExpanded(t *testing.T) {
	for _, name := range groupedModels(t) {
		t.Run(filepath.Base(name), func(t *testing.T) { groupedExpanded(t, name) })
	}
}

func groupedExpanded(t *testing.T, name string) {
	dir := filepath.Join("testdata", name)
	config, err := weights.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := architecture.New(&config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var list []architecture.Matrix
	for i := range spec.Layers {
		list = append(list, spec.Matrices(i)...)
	}
	if name == "grouped/qwen2-gptq" {
		list = append(list, architecture.Matrix{Name: architecture.LMHead, Of: spec.Vocab, In: spec.Hidden})
	}
	slices.SortFunc(list, func(a, b architecture.Matrix) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	digest := sha256.New()
	for _, m := range list {
		x, err := c.Tensor(m.Name+".weight", m.Of, m.In)
		if err != nil {
			t.Fatal(err)
		}
		digest.Write(x.Data)
		c.Release(x)
	}
	var golden struct{ Expanded string }
	readJSON(t, filepath.Join(dir, "golden.json"), &golden)
	if got := fmt.Sprintf("%x", digest.Sum(nil)); got != golden.Expanded {
		t.Errorf("weights have the SHA-256 %s, want %s", got, golden.Expanded)
	}
}

// TestGroupedNoWorseThanTransformers is TestCPUNoWorseThanTransformers for weights that are expanded, read from their files.
func TestGroupedNoWorseThanTransformers(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) {
			b := cpuBackend(t, isa)
			for _, name := range groupedModels(t) {
				g := readGolden(t, name)
				d := measure(t, loadGrouped(t, name, b, Options{}), g)
				t.Logf("%s: worst %.4f (transformers %.4f), mean %.4f (%.4f)", name, d.worst, g.Worst, d.mean(), g.Mean)
				if d.worst > g.Worst || d.mean() > g.Mean {
					t.Errorf("%s: further off than transformers in bfloat16", name)
				}
			}
		})
	}
}

// TestGroupedSameBits: an item of a checkpoint in groups has the same bits alone and packed with others.
func TestGroupedSameBits(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range groupedModels(t) {
			m := loadGrouped(t, name, b, bitsOptions)
			items := make([]wire.TokenItem, 3)
			for i := range items {
				items[i] = wire.TokenItem{Tokens: goldenPrompt(20+30*i, 150), Ask: engine.Ask{Top: 20}}
			}
			for i, r := range run(t, m, items...) {
				equalAnswers(t, fmt.Sprintf("%s: packed item %d", name, i), r.Answer, answer(t, m, items[i]))
			}
		}
	})
}

// TestGroupedKept: on the processor, layers in four bits take less than a byte a weight, as is expected before they are loaded, but for rows that fill
// panels up; those in act-order's groups, 8 bits or FP8 take two.
func TestGroupedKept(t *testing.T) {
	b := cpuBackend(t, "")
	for _, name := range groupedModels(t) {
		dir := filepath.Join("testdata", name)
		config, err := weights.ReadConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		planned, err := describeModel(config, b, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var elements, expected int64
		for _, x := range planned.spec.Matrices(0) {
			elements += int64(x.Rows) * int64(x.In)
			expected += planned.matrixBytes(x)
		}
		got, kept := loadGrouped(t, name, b, Options{}).Chunks()[1].Bytes, name == "grouped/llama-awq" || name == "grouped/qwen2-w4"
		t.Logf("%s: %d weights of a layer take %d bytes, %d expected", name, elements, got, expected)
		if kept != (got < elements) || kept != (expected < elements) || got < expected {
			t.Errorf("%s: %d weights of a layer take %d bytes, %d were expected", name, elements, got, expected)
		}
	}
}
