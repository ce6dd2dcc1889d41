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
	if q.Linear(lmHead).Quantized() && !s.tied && !s.vectorsOnly {
		return fmt.Errorf("quantization_config: %s is quantised; supported is an LM head that ignore lists", lmHead)
	}
	s.schemes = map[string]weights.Scheme{}
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

// scaleBytes is a scale's size in a backend's memory.
const scaleBytes = 4

// matrixBytes is what a matrix is expected to take, on each rank where there are several.
func (m *Model) matrixBytes(x matrix) int64 {
	elements := int64(x.rows) * int64(x.in)
	if m.spec.schemes[x.name].Quantized() {
		return m.ofRank(elements + scaleBytes*int64(x.rows))
	}
	return m.ofRank(elements * m.backend.ActType().Size())
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

// largestCodes are the numbers of elements of the largest packed matrices in codes.
func (s *spec) largestCodes() (largest kernels.LargestCodes) {
	for i := range s.layers {
		var stack int64
		for _, m := range s.matrices(i) {
			if m.stackedOn == 0 {
				stack = 0
			}
			stack += int64(m.rows) * int64(m.in)
			switch scheme := s.schemes[m.name]; {
			case scheme.Type == kernels.F8E4M3:
				largest.FP8 = max(largest.FP8, stack)
			case scheme.Type == kernels.I8 && scheme.WeightOnly:
				largest.I8Alone = max(largest.I8Alone, stack)
			case scheme.Type == kernels.I8:
				largest.I8 = max(largest.I8, stack)
			}
		}
	}
	return largest
}
