package checkpoint

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine"
)

// Token is one of a model's vocabulary.
type Token struct {
	Text string // that is this token alone; empty: ID tells
	ID   engine.TokenID
}

// Overrides are keys of config.json for checkpoints that lack them, under vLLM's names: the tokens that say no and yes
// (classifier_from_token), how a score is made of them (method), and whether pairs are read as Qwen3-Reranker reads them.
type Overrides struct {
	AnswerTokens  []string
	Method        string
	Qwen3Reranker bool
}

func (o *Overrides) apply(c *config) {
	if len(o.AnswerTokens) > 0 {
		c.AnswerTokens = o.AnswerTokens
	}
	if o.Method != "" {
		c.AnswerMethod = o.Method
	}
	c.Qwen3Reranker = c.Qwen3Reranker || o.Qwen3Reranker
}

// twoWays is vLLM's name of a score that is the logit of yes less that of no.
const twoWays = "from_2_way_softmax"

// readReranker reads which answers a Reranker gives, unless its modules have told.
func (m *Model) readReranker(c *config) error {
	m.Labels, m.Activation = []string{"yes"}, chooseActivation(c, 1)
	if m.Yes != (Token{}) || m.No != (Token{}) {
		return nil
	}
	no, yes := "no", "yes"
	if len(c.AnswerTokens) > 0 {
		if len(c.AnswerTokens) != 2 || !c.Qwen3Reranker && c.AnswerMethod != twoWays {
			return fmt.Errorf("unsupported classifier_from_token of %d tokens with method %q: want two tokens, that for no first, with method %q or is_original_qwen3_reranker true; convert others to a ...ForSequenceClassification",
				len(c.AnswerTokens), c.AnswerMethod, twoWays)
		}
		no, yes = c.AnswerTokens[0], c.AnswerTokens[1]
	}
	m.No, m.Yes = Token{Text: no}, Token{Text: yes}
	return nil
}

// logitScore reads the module of sentence-transformers that makes scores of two tokens' logits.
func (m *Model) logitScore(dir, path string) error {
	if !filepath.IsLocal(path) {
		return checkModulePath(path)
	}
	name := filepath.Join(path, "config.json")
	var c struct {
		True  *engine.TokenID `json:"true_token_id"`
		False *engine.TokenID `json:"false_token_id"`
		Input string          `json:"module_input_name"`
	}
	if _, err := readJSONFile(dir, name, &c); err != nil {
		return err
	}
	switch {
	case c.True == nil:
		return fmt.Errorf("%s: missing true_token_id, the token whose logit is the score", name)
	case c.False == nil:
		return fmt.Errorf("%s: missing false_token_id: scores of a single logit are not supported; convert the model to a ...ForSequenceClassification", name)
	case c.Input != "" && c.Input != "causal_logits":
		return fmt.Errorf("%s: invalid module_input_name %.60q: want causal_logits", name, c.Input)
	}
	m.Kind = Reranker
	m.Yes, m.No = Token{ID: *c.True}, Token{ID: *c.False}
	return nil
}

// checkModulePath refuses the folder of a module.
func checkModulePath(path string) error {
	return fmt.Errorf("modules.json names folder %.80q, which is outside the checkpoint", path)
}

// readTemplateVariables reads the variables with which the chat template renders pairs.
func (m *Model) readTemplateVariables(variables map[string]json.RawMessage) {
	for _, size := range []string{"padding", "truncation", "max_length", "return_tensors", "restore_suffix"} {
		delete(variables, size) // they change no text
	}
	if len(variables) > 0 {
		m.TemplateVariables = variables
	}
}
