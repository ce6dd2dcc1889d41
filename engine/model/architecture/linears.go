package architecture

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// LMHead is the name of the LM head among a checkpoint's linear layers.
const LMHead = "lm_head"

// Matrix is the shape of a linear layer's weights.
type Matrix struct {
	Name      string
	Rows, In  int
	stackedOn int // matrices before this one that the backend packs it with
}

// LayerName is what the names of a layer's tensors begin with.
func (s *Spec) LayerName(i int) string { return fmt.Sprintf("%slayers.%d.", s.trunk, i) }

// Matrices lists the linear layers of layer i.
func (s *Spec) Matrices(i int) []Matrix {
	name := s.LayerName(i)
	q, kv := s.Heads.Q*s.Heads.Dim, s.Heads.KV*s.Heads.Dim
	return []Matrix{
		{name + "self_attn.q_proj", q, s.Hidden, 0},
		{name + "self_attn.k_proj", kv, s.Hidden, 1},
		{name + "self_attn.v_proj", kv, s.Hidden, 2},
		{name + "self_attn.o_proj", s.Hidden, q, 0},
		{name + "mlp.gate_proj", s.Intermediate, s.Hidden, 0},
		{name + "mlp.up_proj", s.Intermediate, s.Hidden, 1},
		{name + "mlp.down_proj", s.Hidden, s.Intermediate, 0},
	}
}

// readQuantization reads how linear layers are quantised, and refuses what the graph cannot compute so.
func (s *Spec) readQuantization(q *weights.Quantization) error {
	if err := q.Check(); err != nil {
		return err
	}
	s.schemes = map[string]weights.Scheme{}
	if err := s.quantizeHead(q); err != nil {
		return err
	}
	for i := range s.Layers {
		list := s.Matrices(i)
		for at, m := range list {
			s.schemes[m.Name] = q.Linear(m.Name)
			if first := list[at-m.stackedOn].Name; s.schemes[first] != s.schemes[m.Name] {
				return fmt.Errorf("quantization_config: %s and %s are quantised differently, or one of them is not; they are multiplied as one matrix", first, m.Name)
			}
		}
	}
	return nil
}

// quantizeHead reads how the LM head is quantised where it is a matrix of its own: the embedding, where that is the head, has
// no codes.
func (s *Spec) quantizeHead(q *weights.Quantization) error {
	scheme := q.Linear(LMHead)
	switch {
	case s.Tied || s.VectorsOnly || !scheme.Quantized():
		return nil
	case scheme.Type != kernels.I8:
		return fmt.Errorf("quantization_config: %s is %s; supported is an LM head in %s, or one that ignore lists", LMHead, scheme.Type, kernels.I8)
	}
	s.schemes[LMHead] = scheme
	return nil
}

// Scheme is how a linear layer or an LM head is quantised, by its name; that of others is empty.
func (s *Spec) Scheme(name string) weights.Scheme { return s.schemes[name] }

// LargestCodes are the numbers of elements of the layers' largest packed matrices in codes.
func (s *Spec) LargestCodes() (largest kernels.LargestCodes) {
	for i := range s.Layers {
		var stack int64
		for _, m := range s.Matrices(i) {
			if m.stackedOn == 0 {
				stack = 0
			}
			stack += int64(m.Rows) * int64(m.In)
			updateLargestCodes(&largest, s.schemes[m.Name], stack)
		}
	}
	return largest
}

// HeadCodes is LargestCodes of the LM head.
func (s *Spec) HeadCodes() (largest kernels.LargestCodes) {
	updateLargestCodes(&largest, s.schemes[LMHead], int64(s.Vocab)*int64(s.Hidden))
	return largest
}

// updateLargestCodes takes a matrix of so many elements into the largest ones.
func updateLargestCodes(largest *kernels.LargestCodes, scheme weights.Scheme, elements int64) {
	switch {
	case scheme.Type == kernels.F8E4M3:
		largest.FP8 = max(largest.FP8, elements)
	case scheme.Type == kernels.I8 && scheme.WeightOnly:
		largest.I8Alone = max(largest.I8Alone, elements)
	case scheme.Type == kernels.I8:
		largest.I8 = max(largest.I8, elements)
	}
}
