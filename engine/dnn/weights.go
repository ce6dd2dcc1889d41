package dnn

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/kernels"
)

// A part of at least so many bytes, and of this share of a network's, is a chunk of its own: networks that have it in common share
// it whatever else differs. Of smaller ones, filters and others apart, so many bytes and weights are loaded at a time, about.
const (
	aloneBytes   = 16 << 10
	aloneShare   = 256
	chunkBytes   = 1 << 20
	chunkWeights = 256
)

// weightChunks are the weights of a plan for the store, where networks find what they have in common by its content.
// Weights do not depend on the shapes that a plan is for, but for those of constants that do: plans for other shapes
// make these themselves.
func (m *Model) weightChunks(c *compiled) []store.Chunk {
	var total int64
	for i := range c.Weights {
		total += c.Weights[i].Bytes
	}
	least, seen := max(aloneBytes, total/aloneShare), map[string]bool{}
	var large, filters, others smallParts
	for i := range c.Weights {
		w, key := &c.Weights[i], c.keys[i]
		if seen[key] {
			continue
		}
		seen[key] = true
		switch p := m.weightPart(w, key); {
		case w.Bytes >= least:
			large.list = append(large.list, []store.Part{p})
		case w.Filter:
			filters.add(p)
		default:
			others.add(p)
		}
	}
	var list []store.Chunk
	for _, parts := range slices.Concat(large.list, filters.list, others.list) {
		list = append(list, store.Chunk{Name: fmt.Sprintf("part %d", len(list)), Parts: parts})
	}
	if list == nil {
		list = []store.Chunk{{Name: "nothing", Parts: []store.Part{m.emptyPart()}}}
	}
	return list
}

// smallParts are rows of parts that are loaded together.
type smallParts struct {
	list  [][]store.Part
	bytes int64 // of the last row
}

func (r *smallParts) add(p store.Part) {
	if n := len(r.list); n == 0 || r.bytes+p.Bytes > chunkBytes || len(r.list[n-1]) == chunkWeights {
		r.list, r.bytes = append(r.list, nil), 0
	}
	last := &r.list[len(r.list)-1]
	*last = append(*last, p)
	r.bytes += p.Bytes
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
