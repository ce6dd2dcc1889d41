package model

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// lmHead is the name of the LM head among a checkpoint's linear layers.
const lmHead = "lm_head"

// matrix is the shape of a linear layer's weights.
type matrix struct {
	name      string
	rows, in  int
	stackedOn int // matrices before this one that the backend packs it with
}

// matrices lists the linear layers of layer i.
func (s *spec) matrices(i int) []matrix {
	name := s.layerName(i)
	q, kv := s.heads.Q*s.heads.Dim, s.heads.KV*s.heads.Dim
	return []matrix{
		{name + "self_attn.q_proj", q, s.hidden, 0},
		{name + "self_attn.k_proj", kv, s.hidden, 1},
		{name + "self_attn.v_proj", kv, s.hidden, 2},
		{name + "self_attn.o_proj", s.hidden, q, 0},
		{name + "mlp.gate_proj", s.intermediate, s.hidden, 0},
		{name + "mlp.up_proj", s.intermediate, s.hidden, 1},
		{name + "mlp.down_proj", s.hidden, s.intermediate, 0},
	}
}

// quantize reads how linear layers are quantised, and refuses what the graph cannot compute so.
func (s *spec) quantize(q *weights.Quantization) error {
	if err := q.Check(); err != nil {
		return err
	}
	s.schemes = map[string]weights.Scheme{}
	if err := s.quantizeHead(q); err != nil {
		return err
	}
	for i := range s.layers {
		list := s.matrices(i)
		for at, m := range list {
			s.schemes[m.name] = q.Linear(m.name)
			if first := list[at-m.stackedOn].name; s.schemes[first] != s.schemes[m.name] {
				return fmt.Errorf("quantization_config: %s and %s are quantised differently, or one of them is not; they are multiplied as one matrix", first, m.name)
			}
		}
	}
	return nil
}

// quantizeHead reads how the LM head is quantised where it is a matrix of its own: the embedding, where that is the head, has
// no codes.
func (s *spec) quantizeHead(q *weights.Quantization) error {
	scheme := q.Linear(lmHead)
	switch {
	case s.tied || s.vectorsOnly || !scheme.Quantized():
		return nil
	case scheme.Type != kernels.I8:
		return fmt.Errorf("quantization_config: %s is %s; supported is an LM head in %s, or one that ignore lists", lmHead, scheme.Type, kernels.I8)
	}
	s.schemes[lmHead] = scheme
	return nil
}

// scaleBytes is a scale's size in a backend's memory.
const scaleBytes = 4

// matrixBytes is what a matrix is expected to take.
func (m *Model) matrixBytes(x matrix) int64 {
	elements := int64(x.rows) * int64(x.in)
	if m.spec.schemes[x.name].Quantized() {
		return elements + scaleBytes*int64(x.rows)
	}
	return elements * m.backend.ActType().Size()
}

// severalRanks is a backend over several ranks, each of which has its part of every matrix.
type severalRanks interface{ Ranks() int }

// ofRank is a rank's share of a matrix's bytes.
func (m *Model) ofRank(bytes int64) int64 {
	if r, ok := m.backend.(severalRanks); ok {
		return bytes / int64(r.Ranks())
	}
	return bytes
}

// largestCodes are the numbers of elements of the layers' largest packed matrices in codes.
func (s *spec) largestCodes() (largest kernels.LargestCodes) {
	for i := range s.layers {
		var stack int64
		for _, m := range s.matrices(i) {
			if m.stackedOn == 0 {
				stack = 0
			}
			stack += int64(m.rows) * int64(m.in)
			counted(&largest, s.schemes[m.name], stack)
		}
	}
	return largest
}

// headCodes is largestCodes of the LM head.
func (s *spec) headCodes() (largest kernels.LargestCodes) {
	counted(&largest, s.schemes[lmHead], int64(s.vocab)*int64(s.hidden))
	return largest
}

// counted takes a matrix of so many elements into the largest ones.
func counted(largest *kernels.LargestCodes, scheme weights.Scheme, elements int64) {
	switch {
	case scheme.Type == kernels.F8E4M3:
		largest.FP8 = max(largest.FP8, elements)
	case scheme.Type == kernels.I8 && scheme.WeightOnly:
		largest.I8Alone = max(largest.I8Alone, elements)
	case scheme.Type == kernels.I8:
		largest.I8 = max(largest.I8, elements)
	}
}
