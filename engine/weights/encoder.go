package weights

// EncoderConfig is what of config.json encoders alone depend on.
type EncoderConfig struct {
	BothWays              bool     `json:"use_bidirectional_attention"`
	IsDecoder             bool     `json:"is_decoder"`
	PadTokenID            *int     `json:"pad_token_id"`
	PositionEmbeddingType string   `json:"position_embedding_type"`
	TypeVocabSize         *int     `json:"type_vocab_size"`
	LayerNormEps          *float64 `json:"layer_norm_eps"`

	NormEps                *float64 `json:"norm_eps"`
	NormBias               bool     `json:"norm_bias"`
	HiddenActivation       string   `json:"hidden_activation"`
	GlobalAttnEveryNLayers *int     `json:"global_attn_every_n_layers"`
	LocalAttention         *int     `json:"local_attention"`
	GlobalRopeTheta        *float64 `json:"global_rope_theta"` // as written by transformers 4
	LocalRopeTheta         *float64 `json:"local_rope_theta"`

	ClassifierBias       bool   `json:"classifier_bias"`
	ClassifierActivation string `json:"classifier_activation"`
}
