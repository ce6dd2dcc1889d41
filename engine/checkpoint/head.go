package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
)

// maxLabels bounds the classes of a head.
const maxLabels = 1 << 16

// readHead reads what the classification head gives.
func (m *Model) readHead(c *config, architecture string) error {
	if err := m.readLabels(c); err != nil {
		return err
	}
	if m.Pool == engine.PoolMean { // an encoder's
		m.Pool = engine.PoolFirst
	}
	if strings.HasPrefix(architecture, "ModernBert") { // which alone has the key
		switch c.ClassifierPooling {
		case "", "cls":
		case "mean":
			m.Pool = engine.PoolMean
		default:
			return fmt.Errorf("invalid classifier_pooling %q: want cls or mean", c.ClassifierPooling)
		}
	}
	m.PerToken = strings.HasSuffix(architecture, "ForTokenClassification") || strings.HasSuffix(architecture, "ProcessRewardModel")
	m.Activation = chooseActivation(c, len(m.Labels))
	if m.Kind == Reward && !m.PerToken {
		m.Activation = Identity
	}
	return nil
}

// readLabels are those of id2label. Without it there are num_labels of them, two if that is missing too, as in transformers.
func (m *Model) readLabels(c *config) error {
	n := len(c.ID2Label)
	if n == 0 {
		if n = 2; c.NumLabels != nil {
			n = *c.NumLabels
		} else if m.Kind == Reward {
			n = 1
		}
	}
	if n < 1 || n > maxLabels {
		return fmt.Errorf("invalid num_labels %d: want 1 to %d", n, maxLabels)
	}
	m.Labels = make([]string, n)
	for i := range m.Labels {
		label, ok := c.ID2Label[strconv.Itoa(i)]
		if !ok && len(c.ID2Label) > 0 {
			return fmt.Errorf("id2label has %d entries but none for %d", n, i)
		}
		if !ok {
			label = "LABEL_" + strconv.Itoa(i)
		}
		m.Labels[i] = label
	}
	return nil
}

// chooseActivation is what the files say, and else what transformers and vLLM take.
func chooseActivation(c *config, labels int) Activation {
	named := c.Sentence.Activation
	if named == "" {
		named = c.OldActivation
	}
	switch named[strings.LastIndexByte(named, '.')+1:] {
	case "Sigmoid":
		return Sigmoid
	case "Identity":
		return Identity
	case "Softmax":
		return Softmax
	}
	switch {
	case c.ProblemType == "regression":
		return Identity
	case c.ProblemType == "multi_label_classification", labels == 1:
		return Sigmoid
	}
	return Softmax
}
