package model

import (
	"fmt"
	"runtime"

	"github.com/prefillonly/prefillonly/kernels"
)

// logitRows is how many rows go through the LM head in a step at most.
const logitRows = 64

// leastLogitRows is how many rows go through the LM head in a step at the least, however long that is: it reads all of the head for them.
// Fewer than 16 cost more each.
func leastLogitRows(lowest bool) int {
	if lowest {
		return 8
	}
	return 16
}

// hostRows is how many rows of logits are normalised at once.
func hostRows() int { return min(runtime.GOMAXPROCS(0), logitRows) }

// workspace is a model's view of the memory that passes compute in.
type workspace struct {
	residual streamSlots // lent to passes
	scratch  *scratch    // KV of the layer being computed, where no page is given; nil: there is no memory
	qkv      kernels.Mat // a chunk's queries, keys and values
	attn     kernels.Mat // a chunk's attention
	given    kernels.Mat // what a sub-layer gives of a chunk, before its norm; no rows where there is none
	routed   kernels.Mat // a chunk as it was before its experts, and behind it the rows of one of these; no rows where there are none
	choices  kernels.Mat // what a router says of a chunk's rows
	asked    kernels.Mat // rows of the residual stream that are asked about, side by side
	logits   kernels.Mat // float32

	rowOnHost  []byte      // of the residual stream
	rowsOnHost [][]float32 // of logits, one for each processor
}

// workspaceViews is a model's workspace without memory: the one place that says how large its matrices are.
func (m *Model) workspaceViews() workspace {
	s, o, act := &m.spec, m.opts, m.backend.ActType()
	mat := func(rows, cols int, typ kernels.DType) kernels.Mat {
		return kernels.Mat{Rows: rows, Cols: cols, Stride: cols, Type: typ}
	}
	given, routed := 0, 0
	if s.Mixture.Experts > 0 {
		routed = o.ChunkRows
	}
	if s.Norms.AttentionGave != "" || s.Norms.MLPGave != "" || routed > 0 {
		given = o.ChunkRows
	}
	return workspace{
		residual: streamSlots{Slot: mat(o.ChunkRows, s.Hidden, kernels.F32)},
		qkv:      mat(o.ChunkRows, s.Heads.QKVCols(), act),
		attn:     mat(o.ChunkRows, s.Heads.Q*s.Heads.Dim, act),
		given:    mat(given, s.Hidden, kernels.F32),
		routed:   mat(2*routed, s.Hidden, kernels.F32),
		choices:  mat(routed, s.Mixture.Experts, kernels.F32),
		asked:    mat(o.ChunkRows, s.Hidden, kernels.F32),
		logits:   mat(min(logitRows, o.ChunkRows), s.Columns(), kernels.F32),
	}
}

// regions are the buffers of a Workspace, by their place in it.
const (
	residualRegion = iota
	qkvRegion
	attnRegion
	givenRegion
	routedRegion
	choicesRegion
	askedRegion
	logitsRegion
	kvRegion
	regions
)

// workSize is how much memory a model's passes compute in, in bytes but for vocab.
type workSize struct {
	regions [regions]int64 // but for the residual streams
	streams streamSize
	row     int64 // of the residual stream
	vocab   int   // columns of logits
	scratch int64 // the backend's own
}

func (m *Model) workSize() workSize {
	s, o, b, v := &m.spec, m.opts, m.backend, m.workspaceViews()
	slots, resident, slot := residualSlots(o), residentSlots(o), matBytes(v.residual.Slot)
	size := workSize{
		streams: streamSize{Resident: int64(resident) * slot, Host: int64(slots-resident) * slot},
		row:     4 * int64(s.Hidden), vocab: s.Columns(),
		regions: [regions]int64{
			qkvRegion: matBytes(v.qkv), attnRegion: matBytes(v.attn), givenRegion: matBytes(v.given),
			routedRegion: matBytes(v.routed), choicesRegion: matBytes(v.choices), askedRegion: matBytes(v.asked), logitsRegion: matBytes(v.logits),
			kvRegion: int64(kvBlocks(o)) * b.KVBlockBytes(s.Heads, o.BlockTokens),
		},
	}
	if size.streams.Host > 0 {
		size.streams.Staged = slot
	}
	q := s.Heads.Q * s.Heads.Dim
	widest := max(2*s.WidestMLP(), s.Heads.QKVCols(), s.Hidden, s.Mixture.Experts)
	chunk := b.ScratchBytes(o.ChunkRows, max(s.Hidden, q, s.WidestMLP()), widest, s.LargestCodes())
	size.scratch = max(chunk, b.ScratchBytes(min(logitRows, o.ChunkRows), s.Hidden, s.Columns(), s.HeadCodes())) + m.adapterScratch()
	return size
}

func matBytes(m kernels.Mat) int64 { return int64(m.Rows) * int64(m.Cols) * m.Type.Size() }

// largestWorkSize is enough for passes of any of the plans.
func largestWorkSize(plans []Plan) workSize {
	var most workSize
	for _, p := range plans {
		z := p.size
		for i := range z.regions {
			most.regions[i] = max(most.regions[i], z.regions[i])
		}
		a, b := &most.streams, z.streams
		a.Resident, a.Staged, a.Host = max(a.Resident, b.Resident), max(a.Staged, b.Staged), max(a.Host, b.Host)
		most.row, most.vocab, most.scratch = max(most.row, z.row), max(most.vocab, z.vocab), max(most.scratch, z.scratch)
	}
	most.regions[residualRegion] = most.streams.Resident + streamStages*most.streams.Staged
	return most
}

// onDevice is what a workspace of this size takes beside host memory for residual streams.
func (z workSize) onDevice() int64 {
	z = largestWorkSize([]Plan{{size: z}})
	sum := z.scratch + 4*int64(hostRows())*int64(z.vocab)
	for _, bytes := range z.regions {
		sum += bytes
	}
	return sum
}

// Workspace is the memory that passes compute in. Models of one backend may share it, since one pass computes
// at a time: of everything but the residual streams of open passes there is as much as the largest model needs.
type Workspace struct {
	size       workSize
	backend    kernels.Backend
	buffers    [regions]kernels.Buffer
	streams    streamMemory
	rowOnHost  []byte
	rowsOnHost [][]float32
	scratch    scratch
}

// NewWorkspace takes memory for passes of models of these plans.
func NewWorkspace(b kernels.Backend, plans ...Plan) (*Workspace, error) {
	w := &Workspace{size: largestWorkSize(plans), backend: b}
	if err := w.allocBuffers(); err != nil {
		w.Free()
		return nil, fmt.Errorf("working memory: %w", err)
	}
	return w, nil
}

func (w *Workspace) allocBuffers() error {
	for i, bytes := range w.size.regions {
		buf, err := w.backend.Alloc(bytes)
		if err != nil {
			return fmt.Errorf("allocate %d bytes: %w", bytes, err)
		}
		w.buffers[i] = buf
	}
	w.scratch = scratch{buf: w.buffers[kvRegion], bytes: w.size.regions[kvRegion]}
	w.rowOnHost = make([]byte, w.size.row)
	for range hostRows() {
		w.rowsOnHost = append(w.rowsOnHost, make([]float32, w.size.vocab))
	}
	return w.streams.Prepare(w.backend, w.size.streams)
}

// Free gives the memory back. No model may use it any more.
func (w *Workspace) Free() {
	w.streams.Release(w.backend)
	for i, buf := range w.buffers {
		if buf != nil {
			buf.Free()
			w.buffers[i] = nil
		}
	}
}

// Use lets the model's passes compute in w, which must be enough for its Plan. No pass may be open.
func (m *Model) Use(w *Workspace) error {
	if largestWorkSize([]Plan{m.Plan(), {size: w.size}}) != w.size {
		return fmt.Errorf("working memory of %d bytes is not enough for a model that takes %d", w.size.onDevice(), m.Plan().Work)
	}
	v := m.workspaceViews()
	v.residual.streamMemory = &w.streams
	for i, at := range map[int]*kernels.Mat{
		residualRegion: &v.residual.Slot, qkvRegion: &v.qkv, attnRegion: &v.attn, givenRegion: &v.given,
		routedRegion: &v.routed, choicesRegion: &v.choices, askedRegion: &v.asked, logitsRegion: &v.logits,
	} {
		at.Buf = w.buffers[i]
	}
	v.scratch = &w.scratch
	v.rowOnHost = w.rowOnHost[:4*m.spec.Hidden]
	v.rowsOnHost = w.rowsOnHost
	m.work = v
	return nil
}
