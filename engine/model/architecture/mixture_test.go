package architecture

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestReadExperts compares what is expected of experts that rows go through with what random choices come to.
func TestReadExperts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, x := range []Mixture{{Experts: 128, Chosen: 8}, {Experts: 8, Chosen: 2}, {Experts: 60, Chosen: 4}, {Experts: 5, Chosen: 5}} {
		for _, rows := range []int{1, 2, 9, 40} {
			const rounds = 2000
			read := 0
			for range rounds {
				seen := map[int]bool{}
				for range rows {
					for _, e := range random.Perm(x.Experts)[:x.Chosen] {
						seen[e] = true
					}
				}
				read += len(seen)
			}
			if got, want := x.ReadExperts(float64(rows)), float64(read)/rounds; math.Abs(got/want-1) > 0.02 {
				t.Errorf("%d rows that choose %d of %d: %.2f experts, counted %.2f", rows, x.Chosen, x.Experts, got, want)
			}
		}
	}
	if one := (&Mixture{Experts: 128, Chosen: 8}); math.Abs(one.ReadExperts(1)-8) > 1e-9 || one.ReadExperts(1e6) > 128 {
		t.Errorf("one row reads %v experts, many %v; want 8 and 128", one.ReadExperts(1), one.ReadExperts(1e6))
	}
}

// TestChoose compares with sorting; equal logits go to the first experts, and there are always as many as a row takes.
func TestChoose(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for round := range 500 {
		x := Mixture{Experts: 1 + random.IntN(20), Normalised: round%2 == 0}
		x.Chosen = 1 + random.IntN(x.Experts)
		logits, order, sum := make([]float32, x.Experts), make([]int, x.Experts), 0.0
		for i := range logits {
			logits[i], order[i] = float32(random.IntN(9))-4, i
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(logits[b] - logits[a]) })
		for i, e := range order {
			if i < x.Chosen || !x.Normalised {
				sum += math.Exp(float64(logits[e]))
			}
		}
		want := slices.Clone(order[:x.Chosen])
		slices.Sort(want)
		var got []int
		x.Choose(logits, func(e int, share float32) {
			if exact := math.Exp(float64(logits[e])) / sum; math.Abs(float64(share)-exact) > 1e-6 {
				t.Fatalf("%v: expert %d counts %v, want %v", logits, e, share, exact)
			}
			got = append(got, e)
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%d of %v: experts %v, want %v", x.Chosen, logits, got, want)
		}
	}
	for _, odd := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		count := 0
		(&Mixture{Experts: 4, Chosen: 3}).Choose([]float32{odd, odd, 1, odd}, func(int, float32) { count++ })
		if count != 3 {
			t.Errorf("logits of %v: %d experts, want 3", odd, count)
		}
	}
}

// TestSparseLayers: which layers have experts, as transformers has it.
func TestSparseLayers(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits map[string]string
		want  []bool
	}{
		{"qwen3moe", nil, []bool{true, false, true, true}},
		{"qwen3moe", map[string]string{"decoder_sparse_step": "3", "mlp_only_layers": "null"}, []bool{false, false, true, false}},
		{"qwen2moe", nil, []bool{false, true, false, true}},
		{"qwen2moe", map[string]string{"mlp_only_layers": "[1, 99]"}, []bool{false, false, false, true}},
		{"mixtral", nil, []bool{true, true, true}},
	} {
		config := editedConfig(t, c.name, c.edits)
		s, err := New(&config)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			matrices := 4 + 3
			if want {
				matrices = 4 + 3*s.Mixture.Experts
			}
			if want && s.Mixture.Shared {
				matrices += 3
			}
			if s.HasExperts(i) != want || len(s.Matrices(i)) != matrices {
				t.Errorf("%s with %v: layer %d has experts: %t, and %d matrices; want %t and %d", c.name, c.edits, i, s.HasExperts(i), len(s.Matrices(i)), want, matrices)
			}
		}
	}
	config := editedConfig(t, "qwen2moe", map[string]string{"use_sliding_window": "true", "sliding_window": "16", "max_window_layers": "2"})
	if s, err := New(&config); err != nil || !slices.Equal(s.Windows, []int{16, 0, 0, 0}) {
		t.Errorf("qwen2moe's windows are %v, error %v", s.Windows, err)
	}
}

// TestAllExpertsAreBounded: each of them is described before anything is read of a file.
func TestAllExpertsAreBounded(t *testing.T) {
	config := editedConfig(t, "qwen3moe", map[string]string{"num_experts": "1024", "num_hidden_layers": "65"})
	if _, err := New(&config); err == nil || !strings.Contains(err.Error(), "num_experts is 1024 in 65 layers, want at most 65536 together") {
		t.Errorf("error %v", err)
	}
}
