package merging

import "context"

// TrainedModel is a network that is to share weights with others, and what it looks at.
type TrainedModel struct {
	Name    string
	File    string // ONNX
	Decoder string // of its outputs
	Clip    string // a video of its feed
}

// Trainer opens sessions. Sessions of equal models, seeds and calls end in equal weights.
type Trainer interface {
	Open(ctx context.Context, models []TrainedModel, seed uint64) (Session, error)
}

// Tie is layers that have one copy of weights. Layers of a donor keep the donor's file's, bit for bit; without one all members train the copy,
// which begins as the first member's, or have the mean.
type Tie struct {
	Members []Member
	Donor   int // among the models; or NoDonor, or Mean
}

// What a Donor may be that is no model.
const (
	NoDonor   = -1 // members train the copy together
	MeanDonor = -2 // the copy is the mean of the members' files' weights, and stays so
)

// Split says which frames of a model's feed.
type Split int

// The frames of a feed: none that is trained on is among those held out, by which a model is judged. Altered ones are held to what the file's own network
// finds in them, altered as they are.
const (
	Training Split = iota
	HeldOut
	HeldOutDark     // half as bright
	HeldOutMirrored // left is right
	HeldOutNoisy    // with noise, of a standard deviation of 20 of 255
)

// Score is how well a model finds what its own file's network finds, which is the truth: 1 is all of it and nothing else.
type Score struct {
	Value     float64
	Low, High float64 // of a 90 % interval
	Frames    int
	Objects   int // that the truth has
}

// Session trains models together. One goroutine uses it at a time.
type Session interface {
	// Tie makes layers share weights from now on. Before the first call none does. What was trained before and goes on being trained has the values that
	// it had; all else is its own file's. A model trains if it adopts a layer or is in a tie without a donor, alone even: such a copy, and all that is
	// its own beside, biases and layers of no tie. A model that is a donor and adopts nothing is not trained at all.
	Tie(ties []Tie) error
	// Train takes the next part of an epoch of the frames of each of some models that the ties have trained, 1 the whole, by steps of a rate, and gives
	// each model's mean loss. The others stay as they are.
	Train(ctx context.Context, models []int, epochs, rate float64) (losses []float64, err error)
	Evaluate(ctx context.Context, model int, split Split) (Score, error)
	// Snapshot is all that training changes: weights, the trainer's moments, random numbers. Restore goes on from there under the ties of then.
	Snapshot() ([]byte, error)
	Restore(snapshot []byte) error
	// Constants are those of a model's file that have other elements now, by name.
	Constants(model int) map[string][]float32
	Close()
}
