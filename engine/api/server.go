package api

// Model is one served model.
type Model struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"` // "model"
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen int     `json:"max_model_len,omitempty"` // 0: not known yet

	// DefaultMaxTokens bounds a chat answer whose request gives no bound; 0: MaxModelLen does.
	DefaultMaxTokens int `json:"default_max_tokens,omitempty"`

	// Capabilities are what the model can be asked for; nil: not known.
	Capabilities []string `json:"capabilities,omitempty"`

	State  string `json:"state"`            // absent: it is loaded when a request needs it; loading, ready, unloading, failed
	Reason string `json:"reason,omitempty"` // of a failure, the last one where it is not in State
	Bytes  uint64 `json:"bytes,omitempty"`  // of its weights on one executor
}

// Models is the answer to GET /v1/models.
type Models struct {
	Object string  `json:"object"` // "list"
	Data   []Model `json:"data"`
}

// CacheReset is the answer to POST /reset_prefix_cache. It succeeds if no request held a block.
type CacheReset struct {
	Success       bool `json:"success"`
	DroppedBlocks int  `json:"dropped_blocks"`
	HeldBlocks    int  `json:"held_blocks"`
}
