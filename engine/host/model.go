package host

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Model is a model to host: an LLM, an encoder or a network.
type Model struct {
	Name    string        // as requests name it
	Path    string        // of its files, which tell what it is: see dnn.File
	Keep    wire.Keep     // when its weights may be dropped
	Idle    time.Duration // with wire.KeepIdle
	Profile string        // file of what its passes cost, which must be there; empty: the one in the cache directory, if it fits

	Prompts Prompts // of an LLM or an encoder
	Frames  Frames  // of a network
}

// Prompts say how an LLM is hosted, and the first of them how an encoder is.
type Prompts struct {
	MaxLen      int     // longest sequence in tokens; 0: the model's
	BlockTokens int     // tokens of a block of its prefix cache; 0: engine/model's
	CacheShare  float64 // of the memory for prefix caches, up to 1; 0: an equal part of what others leave
}

// Frames say how a network is hosted.
type Frames struct {
	Height, Width int   // of the pictures that it is planned and measured for where its inputs may have any; 0: as dnn.Options
	WorkBytes     int64 // that a pass may compute in; 0: as dnn.Options
	Best          bool  // as dnn.Options
}
