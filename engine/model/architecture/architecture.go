// Package architecture reads what config.json says of a model of the families of decoders: the sizes and kinds of its layers, how
// its tensors are named and quantised, what it ends with, and how much arithmetic its layers take.
package architecture

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Spec is all that the graph knows of an architecture.
type Spec struct {
	Layers, Hidden, Intermediate, Vocab int

	Heads   kernels.Heads
	Windows []int // of each layer: as kernels.AttentionSpec.Window
	QKVBias bool
	OutBias bool // bias of the attention's output projection
	MLPBias bool // biases of the MLP, where that is not gated
	QKNorm  bool // norms of queries and keys: of each head, or WholeQKNorm of all together
	Norms   Norms
	Eps     float32

	WholeQKNorm bool
	Centred     bool // norms are, but for those of queries and keys
	NormBias    bool // and have biases

	Rotations     []Rotation // each of some layers
	LayerRotation []int      // which of them each layer has
	Interleaved   bool       // the checkpoint has dimensions that are turned together beside each other

	FusedQKV    bool // queries, keys and values are one tensor, as gate and up projections are with FusedGateUp
	FusedGateUp bool
	FusedHeads  bool // what FusedQKV has side by side are the query, key and value of a head
	Ungated     bool // there is no gate projection

	Act        kernels.Activation
	NormOffset float32 // added to the weights of norms
	EmbedScale float32 // of embeddings in the residual stream
	AttnScale  float32 // of the products of queries and keys; 0: one over the root of their length
	ScoreCap   float32 // as kernels.AttentionSpec.Cap
	LogitScale float32
	LogitCap   float32 // 0, or logits are capped so
	Parallel   bool    // the MLP is given what attention is given

	Mixture Mixture // the experts of layers that have them in place of an MLP

	names  Names
	unused []string // ends of names of tensors that change nothing

	Tied   bool // the embedding is the LM head
	MaxLen int  // max_position_embeddings

	theta       float64      // rope_theta where a file has none
	sliding     *slidingRope // of layers with a sliding window, where they turn otherwise than others
	slides      []bool       // of each layer: it is one of those with a sliding window
	unturned    []bool       // of each layer: it sees no positions; nil: all do
	turnedPart  float64      // of a head's dimensions, where a file says nothing else; 0: all, whatever it says
	VectorsOnly bool         // there is no LM head
	Head        []HeadLayer  // the classification head; nil for none

	schemes map[string]weights.Scheme // of linear layers and of an LM head in codes, by name; nil where none is quantised

	quantization *weights.Quantization // of config.json; nil where nothing is quantised
}

// Norms names a layer's, each of what a sub-layer is given or gives; "" where there is none.
type Norms struct{ Attention, AttentionGave, MLP, MLPGave string }

// usualNorms are before attention and before the MLP.
var usualNorms = Norms{Attention: "input_layernorm", MLP: "post_attention_layernorm"}

// CheckSmoothing says why factors of a layer's channels cannot move from its norms into the matrices behind them.
func (s *Spec) CheckSmoothing() error {
	switch {
	case s.Mixture.Experts > 0:
		return errors.New("cannot smooth norms before a mixture of experts")
	case s.Centred || s.Parallel:
		return errors.New("cannot smooth norms that are centred, or before attention and MLP in parallel")
	case s.NormOffset != 0:
		return fmt.Errorf("cannot smooth norms whose weights count from %g", s.NormOffset)
	case s.Norms.Attention != usualNorms.Attention || s.Norms.MLP != usualNorms.MLP:
		return fmt.Errorf("cannot smooth norms %+v: want those before attention and the MLP of most families, %+v", s.Norms, usualNorms)
	}
	return nil
}

// families maps the beginnings of names in config.json's architectures to what sets them apart from the common
// part, each in a file of its own.
var families = map[string]func(*weights.Config, *Spec) error{
	"Cohere":   cohere,
	"Cohere2":  cohere2,
	"Ernie4_5": ernie45,
	"GPTNeoX":  gptNeoX,
	"Gemma":    gemma,
	"Gemma2":   gemma2,
	"Gemma3":   gemma3,
	"Glm":      glm,
	"Glm4":     glm4,
	"Granite":  granite,
	"Llama":    llama,
	"Mistral":  mistral,
	"Mixtral":  mixtral,
	"Olmo2":    olmo2,
	"Olmo3":    olmo3,
	"Phi3":     phi3,
	"Qwen2":    qwen2,
	"Qwen2Moe": qwen2Moe,
	"Qwen3":    qwen3,
	"Qwen3Moe": qwen3Moe,
	"SmolLM3":  smolLM3,

	"Starcoder2": starCoder2,
}

// supportedNames says which names in config.json's architectures are.
func supportedNames() string {
	var names []string
	for family := range families {
		names = append(names, family+"ForCausalLM")
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + ", each also as Model and ForSequenceClassification, Qwen2ForRewardModel, or an encoder: Bert, Roberta, XLMRoberta, ModernBert, and Gemma3TextModel with use_bidirectional_attention (EmbeddingGemma)"
}

// CheckConfig says whether this engine can run the model that a configuration describes, or what stands against it.
func CheckConfig(c weights.Config) error {
	_, err := New(&c)
	return err
}

// New reads a configuration, and refuses what the graph would compute wrongly.
func New(c *weights.Config) (Spec, error) { return newSpec(c, false, false) }

// Bare is New of a checkpoint whose tensors have names without what they usually begin with: those that were saved without their head,
// as those of many embedding models were, whatever their architecture is called.
func Bare(c *weights.Config) (Spec, error) { return newSpec(c, true, false) }

// BothWays is New of a model whose tokens see those behind them, too, as Gemma 3's do in EmbeddingGemma: it is computed as an encoder.
func BothWays(c *weights.Config) (Spec, error) { return newSpec(c, false, true) }

// newSpec is New, Bare or BothWays.
func newSpec(c *weights.Config, bare, bothWays bool) (Spec, error) {
	var family, purpose string
	if len(c.Architectures) == 1 {
		family, purpose = purposeOf(c.Architectures[0])
	}
	if family == "" {
		return Spec{}, fmt.Errorf("config.json: unsupported architecture %v, want one of %s", c.Architectures, supportedNames())
	}
	var s Spec
	err := c.CheckSizes()
	if err == nil && c.BothWays && !bothWays {
		err = errors.New("use_bidirectional_attention is true: decoders see what is before a token alone")
	}
	if err == nil {
		s, err = commonSpec(c)
	}
	if err == nil {
		err = families[family](c, &s)
	}
	if bare {
		s.names.Trunk = ""
	}
	if err == nil {
		err = purposes[purpose](c, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err == nil && c.QuantizationConfig != nil {
		err = s.readQuantization(c.QuantizationConfig)
	}
	if err == nil {
		err = s.readRotations(c)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("config.json (%s): %w", c.Architectures[0], err)
	}
	return s, nil
}

func commonSpec(c *weights.Config) (Spec, error) {
	s := Spec{
		Layers:       c.NumHiddenLayers,
		Hidden:       c.HiddenSize,
		Intermediate: c.IntermediateSize,
		Vocab:        c.VocabSize,
		Heads:        kernels.Heads{Q: c.NumAttentionHeads, KV: c.NumAttentionHeads, Dim: c.HiddenSize / c.NumAttentionHeads},
		Windows:      make([]int, c.NumHiddenLayers),
		Norms:        usualNorms,
		names:        usualNames,
		Eps:          1e-6,
		EmbedScale:   1,
		LogitScale:   1,
		theta:        10000,
		Tied:         c.TieWordEmbeddings,
		MaxLen:       c.MaxPositionEmbeddings,
	}
	if c.NumKeyValueHeads != nil {
		s.Heads.KV = *c.NumKeyValueHeads
	}
	if c.HeadDim != nil {
		s.Heads.Dim = *c.HeadDim
	}
	if c.RMSNormEps != nil {
		s.Eps = float32(*c.RMSNormEps)
	}
	if c.MLPBias {
		return s, fmt.Errorf("mlp_bias is true: gated MLPs with biases are computed by no backend")
	}
	var err error
	if c.HiddenAct != "" {
		s.Act, err = weights.ActivationOf("hidden_act", c.HiddenAct)
	}
	return s, err
}

func (s *Spec) check() error {
	h := s.Heads
	switch {
	case h.Q%h.KV != 0:
		return fmt.Errorf("%d attention heads cannot share %d key-value heads evenly", h.Q, h.KV)
	case !(s.Eps >= 0 && s.Eps < 1):
		return fmt.Errorf("the epsilon of norms is %g, want a number from 0 to less than 1", s.Eps)
	case h.Dim <= 0 || h.Dim%2 != 0:
		return fmt.Errorf("head dimension %d is not a positive even number", h.Dim)
	}
	for _, w := range s.Windows {
		if w < 0 {
			return fmt.Errorf("sliding_window is %d, want a positive number or null", w)
		}
	}
	return nil
}

// Digest identifies the configuration beside the weights' own fingerprint.
func (s *Spec) Digest() string {
	values := *s
	values.sliding, values.quantization = nil, nil // addresses; Rotations have what the first says
	sum := sha256.Sum256(fmt.Appendf(nil, "%v %s", values, s.quantization.Values()))
	return fmt.Sprintf("%x", sum[:8])
}

// layeredWindows gives the sliding window to the layers that layer_types names or, in its absence,
// to those from max_window_layers on, as Qwen2's and Qwen3's configurations do.
func layeredWindows(c *weights.Config, s *Spec) error {
	window := 0
	if c.UseSlidingWindow {
		window = slidingWindow(c)
	}
	from := 28 // transformers' default
	if c.MaxWindowLayers != nil {
		from = *c.MaxWindowLayers
	}
	return windowsOf(c, s, window, func(i int) bool { return i >= from })
}

// windowsInTurns gives it to the layers that layer_types names or, in its absence, to all but every so many.
func windowsInTurns(c *weights.Config, s *Spec, pattern, window int) error {
	return windowsOf(c, s, window, func(i int) bool { return (i+1)%pattern != 0 })
}

func windowsOf(c *weights.Config, s *Spec, window int, usual func(i int) bool) error {
	if c.LayerTypes != nil && len(c.LayerTypes) != s.Layers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(c.LayerTypes), s.Layers)
	}
	s.slides = make([]bool, s.Layers)
	for i := range s.Windows {
		s.slides[i] = c.LayerTypes == nil && usual(i)
		if c.LayerTypes != nil {
			switch c.LayerTypes[i] {
			case "sliding_attention":
				s.slides[i] = true
			case "full_attention":
			default:
				return fmt.Errorf("layer_types[%d] is %q, want full_attention or sliding_attention", i, c.LayerTypes[i])
			}
		}
		if s.slides[i] {
			s.Windows[i] = window
		}
	}
	return nil
}

// slidingWindow is 0 for null; transformers takes an absent key for 4,096.
func slidingWindow(c *weights.Config) int {
	switch {
	case !c.SlidingWindow.Set:
		return 4096
	case c.SlidingWindow.Null:
		return 0
	}
	return c.SlidingWindow.N
}
