package architecture

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// Mixture is the experts that layers have in place of an MLP: MLPs of which a row goes through a few, by a router's softmax (Shazeer et al.,
// Outrageously Large Neural Networks, 2017; Jiang et al., Mixtral of Experts, 2024).
type Mixture struct {
	Experts    int  // 0: no layer has any
	Chosen     int  // by a row
	Normalised bool // the chosen ones' shares add up to one
	Shared     bool // one more expert sees all rows, times a sigmoid

	inner, sharedInner int
	dense              []bool // of each layer: it has an MLP all the same
	names              mixtureNames
}

// mixtureNames are those of tensors within a layer. An expert's are those of its number, and of a matrix behind that.
type mixtureNames struct{ Router, Experts, Gate, Up, Out, Shared, SharedGate string }

var qwenMixture = mixtureNames{
	Router: "mlp.gate", Experts: "mlp.experts", Gate: "gate_proj", Up: "up_proj", Out: "down_proj",
	Shared: "mlp.shared_expert", SharedGate: "mlp.shared_expert_gate",
}

// Experts of a layer at the most, and of all layers together: what there is has 512 and some 30,000.
const (
	mostExperts    = 1 << 10
	mostAllExperts = 1 << 16
)

// HasExperts says whether layer i has experts in place of an MLP.
func (s *Spec) HasExperts(i int) bool { return s.Mixture.Experts > 0 && !s.Mixture.dense[i] }

// Router and SharedGate are the tensors of layer i whose products with a row say which experts it goes through, and how much the shared one
// counts.
func (s *Spec) Router(i int) string { return s.LayerName(i) + s.Mixture.names.Router + ".weight" }
func (s *Spec) SharedGate(i int) string {
	return s.LayerName(i) + s.Mixture.names.SharedGate + ".weight"
}

// expertMLPs are the matrices of a layer's experts, the shared one last.
func (s *Spec) expertMLPs(layer string) (list [][]Matrix) {
	x := &s.Mixture
	expert := func(name string, inner int) []Matrix {
		up := stack(false, "", Matrix{Name: name + "." + x.names.Gate, Rows: inner, In: s.Hidden}, Matrix{Name: name + "." + x.names.Up, Rows: inner, In: s.Hidden})
		return append(up, Matrix{Name: name + "." + x.names.Out, Rows: s.Hidden, In: inner, Of: s.Hidden})
	}
	for e := range x.Experts {
		list = append(list, expert(fmt.Sprintf("%s%s.%d", layer, x.names.Experts, e), x.inner))
	}
	if x.Shared {
		list = append(list, expert(layer+x.names.Shared, x.sharedInner))
	}
	return list
}

// WidestMLP is the most that stands between an MLP's matrices.
func (s *Spec) WidestMLP() int { return max(s.Intermediate, s.Mixture.inner, s.Mixture.sharedInner) }

// ReadExperts is how many of n experts rows are expected to go through that choose k each, if all are as likely.
func (x *Mixture) ReadExperts(rows float64) float64 {
	n, k := float64(x.Experts), float64(x.Chosen)
	return n * (1 - math.Pow(1-k/n, rows))
}

// checkNumbers says what of a mixture cannot be, by the keys of its numbers.
func (x *Mixture) checkNumbers(s *Spec, experts, inner string) error {
	switch {
	case x.Experts < 1 || x.Experts > mostExperts:
		return fmt.Errorf("%s is %d, want 1 to %d", experts, x.Experts, mostExperts)
	case x.Experts*s.Layers > mostAllExperts:
		return fmt.Errorf("%s is %d in %d layers, want at most %d together", experts, x.Experts, s.Layers, mostAllExperts)
	case x.Chosen < 1 || x.Chosen > x.Experts:
		return fmt.Errorf("num_experts_per_tok is %d, want 1 to %d, the number of experts", x.Chosen, x.Experts)
	case x.inner < 1 || x.inner > mostInner:
		return fmt.Errorf("invalid or missing %s (%d): want 1 to %d", inner, x.inner, mostInner)
	case x.Shared && (x.sharedInner < 1 || x.sharedInner > mostInner):
		return fmt.Errorf("invalid or missing shared_expert_intermediate_size (%d): want 1 to %d", x.sharedInner, mostInner)
	}
	return nil
}

const mostInner = 1 << 20

// qwenExperts reads what both of Qwen's mixtures have, by default so many experts.
func qwenExperts(c *weights.Config, s *Spec, experts, chosen int, shared bool) error {
	more := struct {
		Experts    int   `json:"num_experts"`
		Chosen     int   `json:"num_experts_per_tok"`
		Inner      int   `json:"moe_intermediate_size"`
		Shared     int   `json:"shared_expert_intermediate_size"`
		Normalised bool  `json:"norm_topk_prob"`
		Every      int   `json:"decoder_sparse_step"`
		Dense      []int `json:"mlp_only_layers"`
	}{Experts: experts, Chosen: chosen, Every: 1} // transformers' defaults, but for sizes
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	if more.Every < 1 {
		return fmt.Errorf("decoder_sparse_step is %d, want a positive number", more.Every)
	}
	s.Mixture = Mixture{Experts: more.Experts, Chosen: more.Chosen, Normalised: more.Normalised, Shared: shared, inner: more.Inner, names: qwenMixture}
	if shared {
		s.Mixture.sharedInner = more.Shared
	}
	s.Mixture.dense = make([]bool, s.Layers)
	for i := range s.Mixture.dense {
		s.Mixture.dense[i] = (i+1)%more.Every != 0 || slices.Contains(more.Dense, i)
	}
	return s.Mixture.checkNumbers(s, "num_experts", "moe_intermediate_size")
}

// Choose calls take with a row's experts, in their order, and what each counts: the softmax of the router's logits, of which those of the largest are
// kept, the first of equal ones.
func (x *Mixture) Choose(logits []float32, take func(expert int, share float32)) {
	chosen := make([]bool, len(logits))
	for range x.Chosen {
		best := -1
		for e, v := range logits {
			if !chosen[e] && (best < 0 || v > logits[best]) {
				best = e
			}
		}
		chosen[best] = true
	}
	most, sum := float64(slices.Max(logits)), 0.0
	for e, v := range logits {
		if chosen[e] || !x.Normalised {
			sum += math.Exp(float64(v) - most)
		}
	}
	for e, v := range logits {
		if chosen[e] {
			take(e, float32(math.Exp(float64(v)-most)/sum))
		}
	}
}
