package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Model is one of the models to serve. The table in modelparams.go says what each field means.
type Model struct {
	Names        []string // the first is the executors' name for it; empty: after Path
	Path         string
	Revision     string // of a model of the hub; empty: main
	Task         string
	Devices      string // as --device has them; empty: all
	Keep         Keep
	CacheShare   float64 // 0: an equal part of what the others leave
	MaxModelLen  Length
	ChatTemplate string
	Overrides    Overrides
	LoRAModules  LoRAModules // adapters of its weights
	Profile      string
	Image        Image  // of a network that takes pictures
	Decoder      string // of a network's outputs
	Pipeline     string // that the model is; empty: it is one network or checkpoint
	Networks     Networks
	Alphabet     string // file of the symbols that a pipeline's network recognizes; empty: as the network's file says
	WorkMemory   Bytes  // of a network; 0: as it needs
	Merged       string // directory of a merge that the network at Path is in; empty: none
	Drift        Drift  // how it is watched there
}

// The tasks of models, which their files decide.
const (
	TaskGenerate = "generate" // of an LLM that is asked for its next tokens
	TaskInfer    = "infer"    // of a network that is asked for tensors
)

// DecoderCTC adds to a network's outputs which symbol is the likeliest at each step, and how likely.
const DecoderCTC = "ctc"

// Keep says when a model's weights may leave a device. The zero value is KeepAlways for one model, and
// KeepOnDemand for several.
type Keep struct {
	When string        // one of the constants below
	Idle time.Duration // with KeepIdle
}

// When a model's weights may leave a device.
const (
	KeepAlways   = "always"    // never
	KeepOnDemand = "on-demand" // when others need the room
	KeepIdle     = "idle"      // also after some time without a request
)

// Check says which value is out of range, of those that nothing else decides.
func (m *Model) Check() error {
	for i := range ModelParams {
		p := &ModelParams[i]
		if text := p.text(m); p.Choices != nil && text != "" && !slices.Contains(p.Choices, text) {
			return fmt.Errorf("invalid %s %q: want %s", p.Name, text, strings.Join(p.Choices, " or "))
		}
	}
	switch {
	case !(m.CacheShare >= 0 && m.CacheShare <= 1):
		return fmt.Errorf("invalid cache-share %v: want 0 to 1", m.CacheShare)
	case m.Keep.When == KeepIdle && m.Keep.Idle <= 0:
		return fmt.Errorf("invalid keep {idle: %v}: want a time above 0", m.Keep.Idle)
	}
	if err := m.Image.check(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return errors.Join(m.checkMerge(), m.checkPipeline())
}
