package dnn

import (
	"crypto/sha256"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/kernels"
)

// At most so many bytes and weights are loaded at a time, about: what takes more is loaded alone.
const (
	chunkBytes   = 1 << 20
	chunkWeights = 256
)

// weightChunks are the weights of a plan for the store, where networks find what they have in common by its content.
// Weights do not depend on the shapes that a plan is for, but for those of constants that do: plans for other shapes
// make these themselves.
func (m *Model) weightChunks(c *compiled) []store.Chunk {
	var list []store.Chunk
	var bytes int64
	for i := range c.Weights {
		w := &c.Weights[i]
		if list == nil || bytes+w.Bytes > chunkBytes || len(list[len(list)-1].Parts) == chunkWeights {
			list, bytes = append(list, store.Chunk{Name: fmt.Sprintf("part %d", len(list))}), 0
		}
		bytes += w.Bytes
		last := &list[len(list)-1]
		last.Parts = append(last.Parts, m.weightPart(w, c.keys[i]))
	}
	if list == nil {
		list = []store.Chunk{{Name: "nothing", Parts: []store.Part{m.emptyPart()}}}
	}
	return list
}

// emptyPart is what is loaded of a network without weights, so that it is loaded at all.
func (m *Model) emptyPart() store.Part {
	return store.Part{
		Kind: "network " + m.network.print,
		Make: func([]kernels.HostTensor) (kernels.Held, error) { return none{}, nil },
		Set:  func(kernels.Held) {},
	}
}

type none struct{}

func (none) Bytes() int64 { return 0 }
func (none) Free()        {}

func (m *Model) weightPart(w *plan.Weight, key string) store.Part {
	return store.Part{
		Kind: key, Bytes: w.Bytes,
		Make: func([]kernels.HostTensor) (kernels.Held, error) { return m.pack(w) },
		Set: func(h kernels.Held) {
			m.plans.unbind()
			if m.held[key] = h; h == nil {
				delete(m.held, key)
			}
		},
	}
}

// keyOf tells a weight by the content of its constants.
func keyOf(w *plan.Weight) string {
	h := sha256.New()
	for _, v := range w.Constants {
		fmt.Fprintf(h, "%v %v ", v.Const.Type, v.Const.Shape)
		h.Write(v.Const.Data)
	}
	return fmt.Sprintf("%s %x", w.Kind, h.Sum(nil))
}

// pack makes a weight on the device.
func (m *Model) pack(w *plan.Weight) (kernels.Held, error) {
	constants := make([]*graph.Tensor, len(w.Constants))
	for i, v := range w.Constants {
		constants[i] = v.Const
	}
	var held kernels.Held
	err := mapped.Guard(func() (err error) {
		held, err = w.Make(m.device, constants)
		return err
	})
	return held, err
}

// bind is a plan that is ready to run in an area, with weights of the store or its own. All chunks are resident.
func (m *Model) bind(c *compiled, w *Workspace, area int) (*plan.Run, error) {
	if c.runs[area] != nil {
		return c.runs[area], nil
	}
	if err := m.holdWeights(c); err != nil {
		c.unbindRuns()
		return nil, err
	}
	var err error
	c.runs[area], err = c.Bind(m.backend, w.areas[area], 0, c.held)
	return c.runs[area], err
}

// holdWeights finds or makes the weights of a plan.
func (m *Model) holdWeights(c *compiled) error {
	if c.held != nil {
		return nil
	}
	held := make([]kernels.Held, len(c.Weights))
	for i := range c.Weights {
		if held[i] = m.held[c.keys[i]]; held[i] != nil {
			continue
		}
		var err error
		if held[i], err = m.pack(&c.Weights[i]); err != nil {
			return err
		}
		c.own = append(c.own, held[i])
	}
	c.held = held
	return nil
}

// source is what the store asks of a network, whose weights make themselves: whether its files are what they were.
type source struct{ *Network }

func (source) Tensor(name string, _ ...int) (kernels.HostTensor, error) {
	return kernels.HostTensor{}, fmt.Errorf("the network has no tensor %q", name)
}
func (source) Release(kernels.HostTensor) {}
func (source) Ahead(string)               {}
func (source) ID(string) weights.ID       { return weights.ID{} }
func (source) Close() error               { return nil } // the network's files stay open
