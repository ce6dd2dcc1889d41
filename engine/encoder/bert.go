package encoder

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// bert is BERT (Devlin et al. 2018). A classification head stands on the pooler: dense and tanh of the first token.
func bert(c *weights.Config, s *spec) (err error) {
	if err = learnedPositions(c, s); err != nil {
		return err
	}
	s.names.prefixes = trunkPrefixes(c, "bert.")
	s.names.trunkDense, s.names.dense, s.names.labels = true, "pooler.dense", "classifier"
	s.names.unused = []string{"pooler.", "cls.", "embeddings.position_ids"}
	return nil
}

// roberta is RoBERTa and XLM-RoBERTa (Liu et al. 2019; Conneau et al. 2019): BERT whose positions count from behind the
// padding token's.
func roberta(c *weights.Config, s *spec) error {
	if err := learnedPositions(c, s); err != nil {
		return err
	}
	s.first = valueOr(c.PadTokenID, 1) + 1
	if s.first < 1 || s.first >= s.positions {
		return fmt.Errorf("pad_token_id is %d, of %d positions", s.first-1, s.positions)
	}
	s.maxLen = s.positions - s.first
	s.names.prefixes = trunkPrefixes(c, "roberta.")
	s.names.dense, s.names.labels = "classifier.dense", "classifier.out_proj"
	s.names.unused = []string{"pooler.", "lm_head.", "embeddings.position_ids"}
	return nil
}

// learnedPositions is what models with learned positions have in common.
func learnedPositions(c *weights.Config, s *spec) (err error) {
	if kind := c.PositionEmbeddingType; kind != "" && kind != "absolute" {
		return fmt.Errorf("position_embedding_type is %q, want absolute", kind)
	}
	s.positions, s.types, s.after, s.bias, s.normBias = c.MaxPositionEmbeddings, valueOr(c.TypeVocabSize, 2), true, true, true
	s.eps = float32(valueOr(c.LayerNormEps, 1e-12))
	if s.types < 1 || s.types > 1<<16 {
		return fmt.Errorf("type_vocab_size is %d, want a number in 1..65536", s.types)
	}
	if isClassifier(c) {
		s.head = headSpec{labels: c.Labels(), tanh: true, bias: true}
	}
	s.names = names{
		word: "embeddings.word_embeddings", position: "embeddings.position_embeddings", typ: "embeddings.token_type_embeddings",
		norm: "embeddings.LayerNorm", layer: "encoder.layer.%d.",
		qkv: []string{"attention.self.query", "attention.self.key", "attention.self.value"},
		out: "attention.output.dense", attnNorm: "attention.output.LayerNorm",
		up: []string{"intermediate.dense"}, down: "output.dense", mlpNorm: "output.LayerNorm",
	}
	s.act, err = activationOf("hidden_act", c.HiddenAct)
	return err
}
