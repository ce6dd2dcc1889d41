package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels"
)

// Config is what of config.json the forward pass depends on. Fields carry the names of Hugging
// Face's; pointers tell an absent key (or null) from a zero.
type Config struct {
	Architectures         []string `json:"architectures"`
	ModelType             string   `json:"model_type"`
	VocabSize             int      `json:"vocab_size"`
	HiddenSize            int      `json:"hidden_size"`
	IntermediateSize      int      `json:"intermediate_size"`
	NumHiddenLayers       int      `json:"num_hidden_layers"`
	NumAttentionHeads     int      `json:"num_attention_heads"`
	NumKeyValueHeads      *int     `json:"num_key_value_heads"`
	HeadDim               *int     `json:"head_dim"`
	MaxPositionEmbeddings int      `json:"max_position_embeddings"`

	OriginalMaxPositionEmbeddings float64 `json:"original_max_position_embeddings"` // of a model that was trained on less, of some families

	HiddenAct         string   `json:"hidden_act"`
	RMSNormEps        *float64 `json:"rms_norm_eps"`
	TieWordEmbeddings bool     `json:"tie_word_embeddings"`
	AttentionBias     bool     `json:"attention_bias"`
	MLPBias           bool     `json:"mlp_bias"`

	SlidingWindow    OptionalInt `json:"sliding_window"`
	UseSlidingWindow bool        `json:"use_sliding_window"`
	MaxWindowLayers  *int        `json:"max_window_layers"`
	LayerTypes       []string    `json:"layer_types"`

	RopeTheta           *float64 `json:"rope_theta"`
	RopeScaling         *Rope    `json:"rope_scaling"`    // as written by transformers 4
	RopeParameters      *Rope    `json:"rope_parameters"` // as written by transformers 5
	PartialRotaryFactor *float64 `json:"partial_rotary_factor"`

	ID2Label  map[string]string `json:"id2label"` // of a classification head: its labels by their index
	NumLabels *int              `json:"num_labels"`

	QuantizationConfig *Quantization `json:"quantization_config"`

	EncoderConfig

	raw []byte // nil of a Config that was not read
}

// ReadKeys decodes more keys of config.json, which one family alone has. It leaves those of a Config that was not read.
func (c *Config) ReadKeys(into any) error {
	if c.raw == nil {
		return nil
	}
	if err := json.Unmarshal(c.raw, into); err != nil {
		return errors.New(jsonerror.Explain(err, into))
	}
	return nil
}

// Labels is how many logits a classification head gives; two where nothing is said, as transformers has it.
func (c *Config) Labels() int {
	switch {
	case c.NumLabels != nil:
		return *c.NumLabels
	case len(c.ID2Label) > 0:
		return len(c.ID2Label)
	}
	return 2
}

// Rope is rope_scaling or rope_parameters. Type holds rope_type, or type as older files spell it.
type Rope struct {
	Type                          string   `json:"rope_type"`
	OldType                       string   `json:"type"`
	Theta                         *float64 `json:"rope_theta"`
	Factor                        float64  `json:"factor"`
	LowFreqFactor                 float64  `json:"low_freq_factor"`
	HighFreqFactor                float64  `json:"high_freq_factor"`
	OriginalMaxPositionEmbeddings float64  `json:"original_max_position_embeddings"`
	PartialRotaryFactor           *float64 `json:"partial_rotary_factor"`

	BetaFast        float64   `json:"beta_fast"` // of yarn
	BetaSlow        float64   `json:"beta_slow"`
	MScale          float64   `json:"mscale"`
	MScaleAllDim    float64   `json:"mscale_all_dim"`
	Truncate        *bool     `json:"truncate"`
	AttentionFactor *float64  `json:"attention_factor"` // of yarn and longrope
	ShortFactor     []float64 `json:"short_factor"`     // of longrope
	LongFactor      []float64 `json:"long_factor"`

	Full    *Rope `json:"full_attention"` // of layers that layer_types tells apart, where these have angles of their own
	Sliding *Rope `json:"sliding_attention"`
}

// OptionalInt tells three states of a key apart: absent (zero value), null, and a number.
type OptionalInt struct {
	Set  bool // the key is there
	Null bool
	N    int
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *OptionalInt) UnmarshalJSON(raw []byte) error {
	*o = OptionalInt{Set: true, Null: string(raw) == "null"}
	if o.Null {
		return nil
	}
	return json.Unmarshal(raw, &o.N)
}

// maxConfig is the most bytes of a config.json; ordinary ones have a few thousand.
const maxConfig = 16 << 20

// ReadConfigFile is config.json of a checkpoint's directory, or what that would be of a GGUF model.
func ReadConfigFile(path string) ([]byte, error) {
	if gguf.IsName(path) {
		return readGGUFConfig(path)
	}
	return regular.ReadFile(filepath.Join(path, "config.json"), maxConfig)
}

// ReadConfig reads config.json of a checkpoint's directory, or makes it of a GGUF model's metadata. It checks no value: which keys there must be
// depends on the architecture. A directory that holds an adapter, or nothing to read here, is refused as that.
func ReadConfig(dir string) (Config, error) {
	if !gguf.IsName(dir) {
		if err := checkFiles(dir); err != nil {
			return Config{}, err
		}
	}
	raw, err := ReadConfigFile(dir)
	if err != nil {
		return Config{}, err
	}
	c, err := ParseConfig(raw)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

// ParseConfig decodes config.json.
func ParseConfig(raw []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return Config{}, fmt.Errorf("config.json: %s", jsonerror.Explain(err, &c))
	}
	c.raw = raw
	return c, nil
}

// ActivationOf is the activation that a key of config.json names.
func ActivationOf(key, name string) (kernels.Activation, error) {
	switch name {
	case "silu", "swish":
		return kernels.SiLU, nil
	case "gelu":
		return kernels.GELU, nil
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast":
		return kernels.GELUTanh, nil
	}
	return 0, fmt.Errorf("%s is %q, want silu, gelu, gelu_new or gelu_pytorch_tanh", key, name)
}

// CheckSizes says which size that decoders with these keys need is missing, or beyond any model's: no product of
// those it lets through overflows.
func (c *Config) CheckSizes() error {
	for _, f := range []struct {
		key     string
		n, most int
	}{
		{"vocab_size", c.VocabSize, 1 << 24},
		{"hidden_size", c.HiddenSize, 1 << 18},
		{"intermediate_size", c.IntermediateSize, 1 << 20},
		{"num_hidden_layers", c.NumHiddenLayers, 1 << 12},
		{"num_attention_heads", c.NumAttentionHeads, 1 << 12},
		{"num_key_value_heads", orOne(c.NumKeyValueHeads), 1 << 12},
		{"head_dim", orOne(c.HeadDim), 1 << 12},
		{"max_position_embeddings", c.MaxPositionEmbeddings, 1 << 28},
	} {
		if f.n <= 0 || f.n > f.most {
			return fmt.Errorf("invalid or missing %s (%d): want 1 to %d", f.key, f.n, f.most)
		}
	}
	return nil
}

// orOne is 1 for a key that may be absent.
func orOne(n *int) int {
	if n == nil {
		return 1
	}
	return *n
}
