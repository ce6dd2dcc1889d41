// Package dnn runs networks for an executor: it plans them for the shapes that jobs bring, keeps their weights in a
// store, and steps passes of tensors and of gradients.
package dnn

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Blobs is where jobs' tensors are, by name. Its methods are safe for concurrent use.
type Blobs interface {
	Read(blob string, dst []byte) error       // a blob of that size
	Put(data []byte) (blob string, err error) // a copy, for who asked for the job to take
}

// Model is a network of which all, some or none of the weights are on a device. One goroutine uses it at a time,
// that of the store, but for Time and what a Pass is prepared by.
type Model struct {
	network *Network
	backend kernels.Backend
	device  kernels.Networks // the backend; nil if it is none: the host computes then
	blobs   Blobs

	weights *store.Weights
	held    map[string]kernels.Held // of resident chunks, by their keys
	plans   *plans
	work    *Workspace
}

// Open describes a network to a store: it has no weights or working memory yet.
func Open(n *Network, st *store.Store, blobs Blobs) (*Model, error) {
	m := &Model{network: n, backend: st.Backend(), blobs: blobs, held: map[string]kernels.Held{}}
	m.device, _ = m.backend.(kernels.Networks)
	m.plans = newPlans(n, m.device)
	shapes := n.inputShapes(1)
	first, err := m.plans.getPlan(m.plans.newRecipe(shapes, nil))
	if err != nil {
		return nil, err
	}
	defer m.plans.release(first)
	m.plans.limit = m.passMemoryLimit(first, shapes)
	if first.ArenaBytes > m.plans.limit {
		return nil, m.tooLarge(first.ArenaBytes, shapes)
	}
	m.weights = st.Weights(source{n}, m.weightChunks(first))
	return m, nil
}

// passMemoryLimit is how much memory a pass may compute in: enough for one frame's gradient, unless the options say otherwise.
func (m *Model) passMemoryLimit(first *compiled, shapes map[string][]int) int64 {
	n := m.network
	switch {
	case n.options.WorkBytes > 0:
		return n.options.WorkBytes
	case n.limits.Backward == 0:
		return n.enoughMemory(first.ArenaBytes)
	}
	if c, err := m.plans.getPlan(m.plans.newRecipe(shapes, &n.whole)); err == nil {
		defer m.plans.release(c)
		return max(n.enoughMemory(first.ArenaBytes), c.ArenaBytes)
	}
	return n.enoughMemory(first.ArenaBytes)
}

// tooLarge says that passes of these shapes need more memory than there is.
func (m *Model) tooLarge(bytes int64, shapes map[string][]int) error {
	return engine.Errorf(engine.CodeTooLong, "inputs of %s take %d MiB to compute in, and the model has %d MiB: make them smaller, or raise its work-memory",
		m.network.describeShapes(shapes), bytes>>20, m.plans.limit>>20)
}

// Chunks lists what can be loaded and dropped.
func (m *Model) Chunks() []store.Info { return m.weights.Chunks() }

// LoadChunk makes a chunk resident; passes of other models may be open meanwhile. After an error it is not.
func (m *Model) LoadChunk(i int) error { return m.weights.Load(i) }

// DropChunk gives a chunk's memory back, but for what other models use. No pass of the model may be open.
func (m *Model) DropChunk(i int) { m.weights.Drop(i) }

// Ready says whether all chunks are resident, and there is memory to compute in: passes may begin.
func (m *Model) Ready() bool { return m.work != nil && m.weights.Ready() }

// Close frees all the model holds; it can be loaded again. Passes must be closed before.
func (m *Model) Close() {
	m.work = nil
	m.weights.DropAll()
	m.plans.unbind()
}

// Info describes what the model can run; its name, its weights and when they may be dropped are the caller's.
func (m *Model) Info() wire.ModelInfo {
	limits := m.network.limits
	return wire.ModelInfo{Fingerprint: m.network.print, Tensors: &limits}
}

// Weights is how many bytes all weights take.
func (m *Model) Weights() int64 { return m.weights.Bytes() }

// describeShapes tells the shapes of inputs.
func (n *Network) describeShapes(shapes map[string][]int) string {
	var list []string
	for _, in := range n.graph.Inputs {
		list = append(list, fmt.Sprintf("%s %v", in.Name, shapes[in.Name]))
	}
	return strings.Join(list, ", ")
}
