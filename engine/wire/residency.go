package wire

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Load brings pieces of weights onto the device, in their order; Loaded answers for all of them, or for those
// before the one that failed. The executor works on it between the steps of passes, or beside them.
type Load struct {
	Serial  uint64
	Model   string   // for which; an error in it is that model's
	Weights []uint32 // raw frame; positions in ExecutorInfo.Weights
}

// Drop frees pieces of weights; no pass that needs one runs or stands still. Nothing answers. A Load that
// comes after it finds the room.
type Drop struct{ Weights []uint32 } // raw frame

// Loaded answers a Load.
type Loaded struct {
	Serial uint64
	Count  int           // of Load.Weights, from the first on, that are resident now
	Took   time.Duration // to bring them there
	Err    *engine.Error // why the next one is not
}
