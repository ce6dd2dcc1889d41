package encoder

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// spec is all that the graph knows of an architecture.
type spec struct {
	layers, hidden, intermediate, vocab int

	heads     kernels.Heads
	positions int // rows of the table of positions; 0: queries and keys are rotated
	first     int // the row of a prompt's first token
	types     int // rows of the table of token types; 0: there is none
	maxLen    int
	eps       float32
	act       kernels.Activation
	gated     bool // the MLP
	after     bool // blocks are followed by their normalisation, and not preceded
	bias      bool // of linear layers
	normBias  bool

	rootMean   bool    // norms are not centred
	normOffset float32 // added to their weights
	embedScale float32 // of embeddings in the residual stream
	scale      float32 // of the products of queries and keys

	windows []int       // of each layer: as kernels.AttentionSpec.Window, to both sides
	rope    []int       // of each layer: which of freqs; -1: none
	freqs   [][]float32 // inverse frequencies

	head  headSpec
	names names
}

// headSpec is a classification head: out(norm(act(dense(x)))) of a pooled vector x.
type headSpec struct {
	labels int  // 0: there is none
	tanh   bool // act; else GELU
	norm   bool
	bias   bool // of dense
}

// names are those of a checkpoint's tensors, without .weight and .bias.
type names struct {
	prefixes                []string // of which the trunk's tensors have one
	word, position, typ     string
	norm                    string   // of the embedding; empty: there is none
	layer                   string   // what a layer's tensors begin with, with its number
	qkv                     []string // stacked: one, or queries, keys and values
	qNorm, kNorm            string   // of each head of queries and of keys; empty: there are none
	out, attnNorm           string
	attnGave, mlpGave       string   // norms of what attention and the MLP add; empty: there are none
	up                      []string // one, or of gated MLPs gate and up
	down, mlpNorm           string
	final                   string // normalisation of the last hidden states; empty: there is none
	trunkDense              bool   // dense has the trunk's prefix
	dense, headNorm, labels string
	unused                  []string // beginnings of other tensors that checkpoints have, the trunk's prefix aside
}

// families maps the names in config.json's architectures to what sets them apart, each in a file of its own.
var families = map[string]func(*weights.Config, *spec) error{
	"BertModel":                           bert,
	"BertForMaskedLM":                     bert,
	"BertForSequenceClassification":       bert,
	"RobertaModel":                        roberta,
	"RobertaForMaskedLM":                  roberta,
	"RobertaForSequenceClassification":    roberta,
	"XLMRobertaModel":                     roberta,
	"XLMRobertaForMaskedLM":               roberta,
	"XLMRobertaForSequenceClassification": roberta,
	"ModernBertModel":                     modernBERT,
	"ModernBertForMaskedLM":               modernBERT,
	"ModernBertForSequenceClassification": modernBERT,
}

// turned are families of decoders that are encoders where tokens see those behind them, too.
var turned = map[string]func(*weights.Config, *spec) error{"Gemma3TextModel": embeddingGemma}

// familyOf is nil of what is no encoder.
func familyOf(c *weights.Config) func(*weights.Config, *spec) error {
	if len(c.Architectures) != 1 {
		return nil
	}
	if family := turned[c.Architectures[0]]; family != nil && c.BothWays {
		return family
	}
	return families[c.Architectures[0]]
}

// IsEncoder says whether a configuration is one of an encoder.
func IsEncoder(c weights.Config) bool { return familyOf(&c) != nil }

// Architectures lists the names in config.json's architectures that this package runs.
func Architectures() []string { return slices.Sorted(maps.Keys(families)) }

// CheckConfig says whether this engine can run the encoder that a configuration describes, or what stands against it.
func CheckConfig(c weights.Config) error {
	_, err := newSpec(&c)
	return err
}

// newSpec reads a configuration, and refuses what the graph would compute wrongly.
func newSpec(c *weights.Config) (spec, error) {
	family := familyOf(c)
	if family == nil {
		return spec{}, fmt.Errorf("config.json: unsupported architecture %v, want one of %s", c.Architectures, strings.Join(Architectures(), ", "))
	}
	var s spec
	err := c.CheckSizes()
	if err == nil {
		s, err = commonSpec(c)
	}
	if err == nil {
		err = family(c, &s)
	}
	if err == nil && (s.heads.Dim%2 != 0 || s.heads.Dim > 512) {
		err = fmt.Errorf("head dimension %d is not an even number up to 512", s.heads.Dim)
	}
	if err == nil && !(s.eps >= 0 && s.eps < 1) {
		err = fmt.Errorf("layer_norm_eps or norm_eps is %g, want a number from 0 to less than 1", s.eps)
	}
	if err == nil && isClassifier(c) && (s.head.labels < 1 || s.head.labels > 1<<20) {
		err = fmt.Errorf("num_labels is %d, want 1 to %d", s.head.labels, 1<<20)
	}
	if err != nil {
		return spec{}, fmt.Errorf("config.json (%s): %w", c.Architectures[0], err)
	}
	return s, nil
}

// most is the largest width of a layer: what bounds a row in the kernels' memory.
const most = 1 << 14

func commonSpec(c *weights.Config) (spec, error) {
	s := spec{
		layers: c.NumHiddenLayers, hidden: c.HiddenSize, intermediate: c.IntermediateSize, vocab: c.VocabSize,
		heads:  kernels.Heads{Q: c.NumAttentionHeads, KV: c.NumAttentionHeads, Dim: c.HiddenSize / c.NumAttentionHeads},
		maxLen: c.MaxPositionEmbeddings, windows: make([]int, c.NumHiddenLayers), rope: make([]int, c.NumHiddenLayers),
		embedScale: 1,
	}
	s.scale = float32(1 / math.Sqrt(float64(s.heads.Dim)))
	switch {
	case c.HiddenSize%c.NumAttentionHeads != 0:
		return s, fmt.Errorf("hidden_size is %d, want a multiple of the %d attention heads", c.HiddenSize, c.NumAttentionHeads)
	case s.hidden > most || s.intermediate > most:
		return s, fmt.Errorf("hidden_size %d or intermediate_size %d is beyond %d", s.hidden, s.intermediate, most)
	case c.QuantizationConfig != nil:
		return s, fmt.Errorf("quantization_config: encoders are computed from unquantised weights alone")
	case c.IsDecoder:
		return s, fmt.Errorf("is_decoder is true: attention would look one way")
	}
	for i := range s.rope {
		s.rope[i] = -1
	}
	return s, nil
}

// activationOf is that of hidden_act's name.
func activationOf(key, name string) (kernels.Activation, error) {
	if name == "" {
		return kernels.GELU, nil
	}
	act, err := weights.ActivationOf(key, name)
	if err == nil && act == kernels.SiLU {
		err = fmt.Errorf("%s is %q, which encoders are not computed with", key, name)
	}
	return act, err
}

// valueOr is a key's value, or the default where it is absent.
func valueOr[T any](value *T, def T) T {
	if value == nil {
		return def
	}
	return *value
}

// ropeFrequencies are those of whole heads, in float32 as transformers computes them.
func ropeFrequencies(theta float64, dim int) []float32 {
	freq := make([]float32, dim/2)
	for i := range freq {
		freq[i] = 1 / float32(math.Pow(theta, float64(float32(2*i)/float32(dim))))
	}
	return freq
}

func isClassifier(c *weights.Config) bool {
	return strings.HasSuffix(c.Architectures[0], "ForSequenceClassification")
}

// trunkPrefixes are what the names of the trunk's tensors begin with, the likelier one first: checkpoints of a bare model
// have none, those with a head one of their own.
func trunkPrefixes(c *weights.Config, own string) []string {
	if strings.HasSuffix(c.Architectures[0], "Model") {
		return []string{"", own}
	}
	return []string{own, ""}
}
