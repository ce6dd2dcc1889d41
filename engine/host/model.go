package host

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Model is a model to host.
type Model struct {
	Name        string        // as requests name it
	Dir         string        // of its checkpoint
	MaxLen      int           // longest sequence in tokens; 0: the model's
	BlockTokens int           // tokens of a block of its prefix cache; 0: engine/model's
	CacheShare  float64       // of the memory for prefix caches, up to 1; 0: an equal part of what others leave
	Keep        wire.Keep     // when its weights may be dropped
	Idle        time.Duration // with wire.KeepIdle
	Profile     string        // file of what its passes cost, which must be there; empty: the one in the cache directory, if it fits
}
