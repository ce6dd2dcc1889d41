package model

import (
	"fmt"
	"runtime"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// logitRows is how many rows go through the LM head at a time.
const logitRows = 64

// Plan is a model's memory, in bytes, on each rank where the backend has several. Nothing beyond it is
// allocated but small change of the Go heap.
type Plan struct {
	Weights int64 // packed weights, tables and rotary angles
	Work    int64 // residual streams, one layer's KV, chunks, logits, the backend's scratch
	Block   int64 // one KV block over all layers
	Host    int64 // residual streams in host memory, beside the device's
}

// Predict is the plan of a model that is not loaded; its Weights count every parameter in the
// backend's own type, or in FP8 where the checkpoint has that, which packing may exceed slightly.
func Predict(config weights.Config, b kernels.Backend, opts Options) (Plan, error) {
	s, err := newSpec(&config)
	if err != nil {
		return Plan{}, err
	}
	if opts, err = opts.withDefaults(&s); err != nil {
		return Plan{}, err
	}
	element := b.ActType().Size()
	packed := s.packedBytes(element)
	if r, ok := b.(severalRanks); ok {
		tables := s.tableBytes(element)
		packed = tables + (packed-tables)/int64(r.Ranks())
	}
	return newPlan(b, &s, opts, packed), nil
}

// severalRanks is a backend over several ranks. Its plan is that of one of them, which has its part of every
// matrix and the tables whole.
type severalRanks interface{ Ranks() int }

// Plan is the memory the model holds, beside Block for each page.
func (m *Model) Plan() Plan { return newPlan(m.backend, &m.spec, m.opts, m.weights) }

func newPlan(b kernels.Backend, s *spec, o Options, packed int64) Plan {
	p := Plan{
		Weights: packed + ropeBytes(s, o),
		Work:    scratchBytes(b, s, o) + 4*int64(hostRows())*int64(s.vocab),
		Block:   int64(s.layers) * b.KVBlockBytes(s.heads, o.BlockTokens),
	}
	for _, r := range workRegions(b, s, o) {
		p.Work += r.bytes
	}
	resident, _ := residentSlots(o)
	p.Host = 4 * int64(residualSlots(o)-resident) * int64(o.ChunkRows) * int64(s.hidden)
	return p
}

// ropeBytes is a cosine and a sine for half of a head's dimension at every position.
func ropeBytes(s *spec, o Options) int64 { return 4 * int64(s.heads.Dim) * int64(o.MaxLen) }

func scratchBytes(b kernels.Backend, s *spec, o Options) int64 {
	q := s.heads.Q * s.heads.Dim
	widest := max(2*s.intermediate, s.heads.QKVCols(), s.hidden)
	chunk := b.ScratchBytes(o.ChunkRows, max(s.hidden, q, s.intermediate), widest, s.largestFP8())
	return max(chunk, b.ScratchBytes(min(logitRows, o.ChunkRows), s.hidden, s.vocab, 0))
}

// hostRows is how many rows of logits are normalised at once.
func hostRows() int { return min(runtime.GOMAXPROCS(0), logitRows) }

// workspace is the memory all passes share.
type workspace struct {
	residual residuals      // lent to passes
	scratch  kernels.Buffer // KV of the layer being computed, where no page is given
	qkv      kernels.Mat    // a chunk's queries, keys and values
	attn     kernels.Mat    // a chunk's attention
	asked    kernels.Mat    // a chunk's asked rows of the residual stream in the last layer
	logits   kernels.Mat    // float32

	rowOnHost  []byte      // of the residual stream
	rowsOnHost [][]float32 // of logits, one for each processor
}

// chunks is how many chunks hold so many rows.
func (o Options) chunks(rows int) int { return (rows + o.ChunkRows - 1) / o.ChunkRows }

// evenly is how many rows a chunk takes for so many rows to need the fewest chunks, without a short
// one left over: each reads all of a layer's weights. Multiples of 32 suit the kernels' tiles.
func (o Options) evenly(rows int) int {
	n := max(1, o.chunks(rows))
	return min(o.ChunkRows, ((rows+n-1)/n+31)&^31)
}

// scratchBlocks is enough for a longest prompt without pages, and for as many rows cut into
// MaxItems items, each of which rounds up to a whole block.
func scratchBlocks(o Options) int { return o.MaxLen/o.BlockTokens + o.MaxItems }

type region struct {
	into  func(w *workspace, buf kernels.Buffer)
	bytes int64
}

// workRegions lists the buffers of a workspace: the one place that says how large they are.
func workRegions(b kernels.Backend, s *spec, o Options) []region {
	matrix := func(at func(*workspace) *kernels.Mat, rows, cols int, typ kernels.DType) region {
		view := kernels.Mat{Rows: rows, Cols: cols, Stride: cols, Type: typ}
		return region{func(w *workspace, buf kernels.Buffer) {
			view.Buf = buf
			*at(w) = view
		}, int64(rows) * int64(cols) * typ.Size()}
	}
	act := b.ActType()
	_, places := residentSlots(o)
	return []region{
		matrix(func(w *workspace) *kernels.Mat { return &w.residual.mat }, places*o.ChunkRows, s.hidden, kernels.F32),
		matrix(func(w *workspace) *kernels.Mat { return &w.qkv }, o.ChunkRows, s.heads.QKVCols(), act),
		matrix(func(w *workspace) *kernels.Mat { return &w.attn }, o.ChunkRows, s.heads.Q*s.heads.Dim, act),
		matrix(func(w *workspace) *kernels.Mat { return &w.asked }, o.ChunkRows, s.hidden, kernels.F32),
		matrix(func(w *workspace) *kernels.Mat { return &w.logits }, min(logitRows, o.ChunkRows), s.vocab, kernels.F32),
		{func(w *workspace, buf kernels.Buffer) { w.scratch = buf },
			int64(scratchBlocks(o)) * b.KVBlockBytes(s.heads, o.BlockTokens)},
	}
}

func (w *workspace) alloc(b kernels.Backend, s *spec, o Options) error {
	for _, r := range workRegions(b, s, o) {
		buf, err := b.Alloc(r.bytes)
		if err != nil {
			return fmt.Errorf("allocate %d bytes: %w", r.bytes, err)
		}
		r.into(w, buf)
	}
	if err := w.residual.prepare(b, o); err != nil {
		return err
	}
	w.rowOnHost = make([]byte, 4*s.hidden)
	for range hostRows() {
		w.rowsOnHost = append(w.rowsOnHost, make([]float32, s.vocab))
	}
	return nil
}

func (w *workspace) free(b kernels.Backend) {
	w.residual.release(b)
	for _, buf := range []kernels.Buffer{w.residual.mat.Buf, w.qkv.Buf, w.attn.Buf, w.asked.Buf, w.logits.Buf, w.scratch} {
		if buf != nil {
			buf.Free()
		}
	}
}
