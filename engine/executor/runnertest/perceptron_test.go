package runnertest

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

func TestPerceptronsConform(t *testing.T) {
	Run(t, func(*testing.T) executor.Runner { return perceptrons(&Memory{}) })
}

// TestPerceptronsConformWithBlobs takes the tensors through shared memory.
func TestPerceptronsConformWithBlobs(t *testing.T) {
	dir := t.TempDir()
	store, err := blob.NewStore(blob.Config{Limit: 64 << 20, Hold: time.Minute, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	reader := blob.NewReader(dir)
	defer reader.Close()
	Run(t, func(*testing.T) executor.Runner {
		return perceptrons(struct {
			*blob.Store
			*blob.Reader
		}{store, reader})
	})
}

func perceptrons(blobs Blobs) *Perceptrons {
	return NewPerceptrons(blobs,
		Perceptron{Name: "edges", In: 6, Hidden: 10, Out: 3, A: 1, B: 2},
		Perceptron{Name: "edges, tuned", In: 6, Hidden: 10, Out: 3, A: 1, B: 3},
		Perceptron{Name: "faces", In: 5, Hidden: 4, Out: 7, A: 4, B: 5})
}

// TestJoinedConform has tokens and tensors on one runner, the latter nested into the former.
func TestJoinedConform(t *testing.T) {
	Run(t, func(*testing.T) executor.Runner {
		limits := &wire.TokenLimits{VocabSize: 100, MaxModelLen: 1000, BlockTokens: 16, NumBlocks: 10, MaxPassRows: 100}
		null := executor.NewNull(wire.ExecutorInfo{
			Device: "joined", CanPause: true, Weights: make([]wire.Weight, 3),
			Models: []wire.ModelInfo{{Name: "text", Fingerprint: "1", Weights: []uint32{0, 2}, Tokens: limits}, {Name: "more", Fingerprint: "2", Weights: []uint32{2, 1}, Tokens: limits}},
		})
		return Join(null, perceptrons(&Memory{}))
	})
}
