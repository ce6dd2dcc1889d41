package architecture

import (
	"errors"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// LMHead is the name of the LM head among most checkpoints' linear layers.
const LMHead = "lm_head"

// Names are those of a checkpoint's tensors, without their ends and what all of them begin with; those below Embedding are within a layer.
type Names struct {
	Trunk, LMHead, Embedding, Norm                        string
	Query, Key, Value, QKV, Out, Gate, Up, GateUp, MLPOut string
}

// usualNames are Llama's, and those of fused tensors.
var usualNames = Names{
	Trunk: "model.", LMHead: LMHead, Embedding: "embed_tokens", Norm: "norm",
	Query: "self_attn.q_proj", Key: "self_attn.k_proj", Value: "self_attn.v_proj", QKV: "self_attn.qkv_proj", Out: "self_attn.o_proj",
	Gate: "mlp.gate_proj", Up: "mlp.up_proj", GateUp: "mlp.gate_up_proj", MLPOut: "mlp.down_proj",
}

// Matrix is the shape of a linear layer's weights, which are rows of a tensor.
type Matrix struct {
	Name      string // of the tensor, without its end
	Rows, In  int
	From, Of  int  // its first row of the tensor, and how many that has
	Run, Step int  // its rows come in so many at a time, so many apart; 0: in one
	Turned    bool // its rows are dimensions of heads that are turned by their positions
	stackedOn int  // matrices before this one that the backend packs it with
}

// LayerName is what the names of a layer's tensors begin with.
func (s *Spec) LayerName(i int) string { return fmt.Sprintf("%slayers.%d.", s.names.Trunk, i) }

// Matrices lists the linear layers of layer i: queries, keys, values and output, and behind them those of MLPs.
func (s *Spec) Matrices(i int) []Matrix {
	n, name := &s.names, s.LayerName(i)
	q, kv := s.Heads.Q*s.Heads.Dim, s.Heads.KV*s.Heads.Dim
	list := stack(s.FusedQKV, name+n.QKV,
		Matrix{Name: name + n.Query, Rows: q, In: s.Hidden, Turned: true},
		Matrix{Name: name + n.Key, Rows: kv, In: s.Hidden, Turned: true},
		Matrix{Name: name + n.Value, Rows: kv, In: s.Hidden})
	for i := range list {
		if s.FusedHeads {
			list[i].From, list[i].Run, list[i].Step = i*s.Heads.Dim, s.Heads.Dim, 3*s.Heads.Dim
		}
	}
	list = append(list, Matrix{Name: name + n.Out, Rows: s.Hidden, In: q, Of: s.Hidden})
	for _, mlp := range s.MLPs(i) {
		list = append(list, mlp...)
	}
	return list
}

// MLPs are the matrices of the MLP of layer i, or of each of its experts, of which a shared one is the last: gate and up, or up alone, and the one behind.
func (s *Spec) MLPs(i int) [][]Matrix {
	n, name := &s.names, s.LayerName(i)
	if s.HasExperts(i) {
		return s.expertMLPs(name)
	}
	up := []Matrix{{Name: name + n.Up, Rows: s.Intermediate, In: s.Hidden, Of: s.Intermediate}}
	if !s.Ungated {
		up = stack(s.FusedGateUp, name+n.GateUp, Matrix{Name: name + n.Gate, Rows: s.Intermediate, In: s.Hidden}, up[0])
	}
	return [][]Matrix{append(up, Matrix{Name: name + n.MLPOut, Rows: s.Hidden, In: s.Intermediate, Of: s.Hidden})}
}

// stack are matrices that the backend packs as one, and the checkpoint has as one tensor of this name, if it is fused.
func stack(fused bool, tensor string, list ...Matrix) []Matrix {
	rows := 0
	for i := range list {
		m := &list[i]
		m.stackedOn, m.Of = i, m.Rows
		if fused {
			m.Name, m.From = tensor, rows
			rows += m.Rows
		}
	}
	for i := range list {
		if fused {
			list[i].Of = rows
		}
	}
	return list
}

// readQuantization reads how linear layers are quantised, and refuses what the graph cannot compute so.
func (s *Spec) readQuantization(q *weights.Quantization) error {
	if err := q.Check(); err != nil {
		return err
	}
	s.schemes, s.quantization = map[string]weights.Scheme{}, q
	if err := s.quantizeHead(q); err != nil {
		return err
	}
	for i := range s.Layers {
		list := s.Matrices(i)
		for at, m := range list {
			s.schemes[m.Name] = q.Linear(m.Name)
			if s.Ungated && s.schemes[m.Name].Quantized() {
				return errors.New("quantization_config: codes are multiplied in families with gated MLPs alone")
			}
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
	scheme := q.Linear(s.names.LMHead)
	switch {
	case s.Tied || s.VectorsOnly || !scheme.Quantized():
		return nil
	case scheme.Type != kernels.I8:
		return fmt.Errorf("quantization_config: %s is %s; supported is an LM head in %s, or one that ignore lists", s.names.LMHead, scheme.Type, kernels.I8)
	}
	s.schemes[s.names.LMHead] = scheme
	return nil
}

// KeptGroup is how many inputs of a matrix share a scale where its codes of four bits may be kept in memory: those of a tensor whose rows stay in order.
func (s *Spec) KeptGroup(m Matrix) (group int, ok bool) {
	if m.Run > 0 || m.Turned && s.HeadOrder() != nil {
		return 0, false
	}
	return s.quantization.KeptGroup(m.Name, m.In)
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
	updateLargestCodes(&largest, s.schemes[s.names.LMHead], int64(s.Vocab)*int64(s.Hidden))
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

// activateUngated sets the activation of an MLP without gate.
func (s *Spec) activateUngated(name string) (err error) {
	if s.Act, err = weights.ActivationOf("hidden_act", name); err == nil && s.Act == kernels.SiLU {
		err = fmt.Errorf("hidden_act is %q, which is computed of gated MLPs alone: want gelu, gelu_new or gelu_pytorch_tanh", name)
	}
	return err
}
