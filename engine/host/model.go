package host

import (
	"strings"
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
	MaxLen      int      // longest sequence in tokens; 0: the model's
	BlockTokens int      // tokens of a block of its prefix cache; 0: engine/model's
	Adapters    Adapters // of an LLM
	CacheShare  float64  // of the memory for prefix caches, up to 1; 0: an equal part of what others leave
}

// Frames say how a network is hosted.
type Frames struct {
	Height, Width int   // of the pictures that it is planned and measured for where its inputs may have any; 0: as dnn.Options
	WorkBytes     int64 // that a pass may compute in; 0: as dnn.Options
	Best          bool  // as dnn.Options
}

// Adapters are those of a model's weights, NAME=DIR, one a line: text, so that models can be compared.
type Adapters string

// With is the adapters and one more. Names have no =, and neither has line breaks.
func (a Adapters) With(name, dir string) Adapters { return a + Adapters(name+"="+dir+"\n") }

// each calls with every name and directory.
func (a Adapters) each(with func(name, dir string) error) error {
	for line := range strings.Lines(string(a)) {
		name, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if err := with(name, dir); err != nil {
			return err
		}
	}
	return nil
}
