package quantize

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
)

const (
	lmHead     = "lm_head"
	headWeight = lmHead + ".weight"
	tieKey     = "tie_word_embeddings"
)

// embeddings are the names of the embedding, in checkpoints with a head and in those that were saved without theirs.
var embeddings = []string{"model.embed_tokens.weight", "embed_tokens.weight"}

// ErrNoLMHead says that there is no LM head that could be quantised.
var ErrNoLMHead = errors.New("no LM head to quantise")

// ownHead lets the LM head be a matrix of its own, and says whether it was the embedding.
func ownHead(config map[string]json.RawMessage) (tied bool, err error) {
	var architectures []string
	for key, to := range map[string]any{"architectures": &architectures, tieKey: &tied} {
		if raw, ok := config[key]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return false, fmt.Errorf("%s: %s", key, jsonerror.Explain(err, to))
			}
		}
	}
	if !slices.ContainsFunc(architectures, func(name string) bool { return strings.HasSuffix(name, "ForCausalLM") }) {
		return false, fmt.Errorf("%w: architectures is %v", ErrNoLMHead, architectures)
	}
	if tied {
		config[tieKey] = json.RawMessage("false")
	}
	return tied, nil
}

// findHead finds the tensor that codes of the LM head are made of: the head, or the embedding where that is it.
func (j *job) findHead(entries []weights.Entry, tied bool) error {
	var head, embedding *weights.Entry
	for i, e := range entries {
		switch {
		case isMatrix(e) && e.Name == headWeight:
			head = &entries[i]
		case isMatrix(e) && slices.Contains(embeddings, e.Name):
			embedding = &entries[i]
		}
	}
	switch {
	case head == nil && !tied:
		return fmt.Errorf("%s: %w: no tensor %q is a matrix of numbers", j.from, ErrNoLMHead, headWeight)
	case tied && embedding == nil:
		return fmt.Errorf("%s: %w: %s is true, and no tensor of %q is a matrix of numbers", j.from, ErrNoLMHead, tieKey, embeddings)
	case head == nil:
		j.head, j.total = embedding.Name, j.total+embedding.Bytes
		return nil
	case tied:
		if err := j.checkEqual(*head, *embedding); err != nil {
			return err
		}
	}
	j.head = headWeight
	return nil
}

// checkEqual refuses a head that differs from the embedding though the configuration says that they are one.
func (j *job) checkEqual(head, embedding weights.Entry) error {
	var sums [2][]byte
	for i, e := range []weights.Entry{head, embedding} {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		h := sha256.New()
		if err := j.checkpoint.Copy(h, e.Name, e.Bytes); err != nil {
			return err
		}
		sums[i] = fmt.Appendf(h.Sum(nil), "%s %v", e.Type, e.Shape)
	}
	if slices.Equal(sums[0], sums[1]) {
		return nil
	}
	return fmt.Errorf("%s: tensors %q and %q differ, but %s in config.json makes them one: the LM head is ambiguous", j.from, head.Name, embedding.Name, tieKey)
}
