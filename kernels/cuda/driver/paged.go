//go:build cuda

package driver

import (
	"fmt"

	"gorgonia.org/cu"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// openAttention opens cuDNN for the current context.
func (g *gpu) openAttention(device cu.Device, o Options) error {
	name, err := device.Name()
	if err != nil {
		return err
	}
	processors, err := device.Attribute(cu.MultiprocessorCount)
	if err != nil {
		return err
	}
	so := cudnn.AttentionOptions{Dir: o.PlanDir, Note: o.Note, Device: fmt.Sprintf("%s with %d processors", name, processors)}
	g.attentions, err = cudnn.OpenAttentions(o.AttentionBackend, g.cudnn, so)
	return err
}

// allocAligned takes more than is wanted where the driver's own address is not aligned.
func (g *gpu) allocAligned(bytes, alignment int64) (cuda.Ptr, error) {
	p, err := cu.MemAlloc(bytes)
	if err != nil || int64(p)%alignment == 0 {
		return cuda.Ptr(p), err
	}
	g.check("free", cu.MemFree(p))
	whole, err := cu.MemAlloc(bytes + alignment)
	if err != nil {
		return 0, err
	}
	aligned := (cuda.Ptr(whole) + cuda.Ptr(alignment-1)) &^ cuda.Ptr(alignment-1)
	g.within[aligned] = whole
	return aligned, nil
}

func shapeOf(p cuda.Paged) cudnn.AttentionShape {
	return cudnn.AttentionShape{
		QHeads: p.Heads.Q, KVHeads: p.Heads.KV, Dim: p.Heads.Dim, QStride: p.QStride, OStride: p.OStride,
		PageTokens: p.BlockTokens, Window: p.Window,
	}
}

// CoversPaged asks cuDNN, whose loads move 16 bytes, and tries what it gives.
func (g *gpu) CoversPaged(p cuda.Paged) bool {
	g.enter()
	if p.QStride%8 != 0 || p.OStride%8 != 0 || p.Heads.Dim%8 != 0 {
		return false
	}
	return g.attentions.Covers(shapeOf(p), func() error {
		before := g.Sync() // what failed before is not the trial's
		err := trial(g, p)
		g.err = before
		return err
	})
}

func (g *gpu) Paged(p cuda.Paged) {
	g.enter()
	b := cudnn.AttentionBucket{Batch: p.Batch, Rows: p.MaxRows, Keys: p.MaxKeys}
	g.check("attention", g.attentions.Run(shapeOf(p), b, cudnn.AttentionCall{
		Q: uint64(p.Q), K: uint64(p.K), V: uint64(p.V), O: uint64(p.O), Rows: uint64(p.Rows), Keys: uint64(p.Keys), Table: uint64(p.Table),
		QOffset: uint64(p.QOffset), OOffset: uint64(p.OOffset), Workspace: uint64(g.workspace), Scale: p.Scale,
	}, workspace))
}
