package architecture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// purposes maps the ends of names in config.json's architectures to what a model of them ends with.
var purposes = map[string]func(*weights.Config, *Spec) error{
	"ForCausalLM":               func(*weights.Config, *Spec) error { return nil },
	"Model":                     withoutHead,
	"ForSequenceClassification": classifierHead,
	"ForRewardModel":            rewardHead,
}

// textFamilies are families by the names that their models without a head have, where those of others look at pictures, too.
var textFamilies = map[string]string{"Gemma3Text": "Gemma3"}

// purposeOf cuts an architecture's name into its family and its purpose; both are empty of one that is not supported.
func purposeOf(architecture string) (family, purpose string) {
	for purpose := range purposes {
		family, found := strings.CutSuffix(architecture, purpose)
		if text := textFamilies[family]; text != "" {
			family = text
		}
		if found && families[family] != nil && (purpose != "ForRewardModel" || family == "Qwen2") {
			return family, purpose
		}
	}
	return "", ""
}

func withoutHead(_ *weights.Config, s *Spec) error {
	s.VectorsOnly = true
	return nil
}

// HeadLayer is the shape of a layer of a classification head.
type HeadLayer struct {
	Name     string
	Rows, In int
	Biased   bool
	ReLU     bool // behind it
}

// classifierHead is transformers' head of one matrix over the last token's state.
func classifierHead(c *weights.Config, s *Spec) error {
	s.VectorsOnly = true
	s.Head = []HeadLayer{{Name: "score", Rows: c.Labels(), In: s.Hidden}}
	return s.checkHead()
}

// rewardHead is the head of Qwen2.5-Math-RM: two layers, the last of one number unless the configuration says more.
func rewardHead(c *weights.Config, s *Spec) error {
	s.VectorsOnly = true
	labels := 1
	if c.NumLabels != nil {
		labels = *c.NumLabels
	}
	s.Head = []HeadLayer{
		{Name: "score.0", Rows: s.Hidden, In: s.Hidden, Biased: true, ReLU: true},
		{Name: "score.2", Rows: labels, In: s.Hidden, Biased: true},
	}
	return s.checkHead()
}

func (s *Spec) checkHead() error {
	if n := s.Labels(); n < 1 || n > 1<<20 {
		return fmt.Errorf("num_labels is %d, want 1 to %d", n, 1<<20)
	}
	return nil
}

// Labels is how many logits the classification head gives; 0 without one.
func (s *Spec) Labels() int {
	if len(s.Head) == 0 {
		return 0
	}
	return s.Head[len(s.Head)-1].Rows
}

// Columns is how many logits of tokens the model gives.
func (s *Spec) Columns() int {
	if s.VectorsOnly {
		return 0
	}
	return s.Vocab
}

// Embedding is the name of the table of embeddings, Norm that of the last normalisation, without its end, LMHead that of a head of its own.
func (s *Spec) Embedding() string { return s.names.Trunk + s.names.Embedding + ".weight" }
func (s *Spec) Norm() string      { return s.names.Trunk + s.names.Norm }
func (s *Spec) LMHead() string    { return s.names.LMHead }

// IsUnused says that a tensor of the checkpoint changes nothing.
func (s *Spec) IsUnused(name string) bool {
	if name == s.names.LMHead+".weight" {
		return s.Tied || s.VectorsOnly
	}
	return slices.ContainsFunc(append(slices.Clone(s.unused), "rotary_emb.inv_freq"), func(end string) bool { return strings.HasSuffix(name, end) })
}
