package encoder

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

const (
	// blockTokens is how many keys and values lie together: a step of the kernels' tiles.
	blockTokens = 32
	// rowsOnHost is how many rows of hidden states leave the device at a time.
	rowsOnHost = 64
)

// workspace is a model's view of the memory that passes compute in, for one group of prompts.
type workspace struct {
	x      kernels.Mat // residual stream; behind the layers, what goes through the classification head
	qkv    kernels.Mat
	attn   kernels.Mat
	given  kernels.Mat    // what a sub-layer adds, float32, where that is normalised
	logits kernels.Mat    // of the classification head, float32
	kv     kernels.Buffer // keys and values of one layer
	kvOff  int64

	rows []float32 // of x, on the host
}

// Size is how much memory a model's passes compute in, in bytes.
type Size struct {
	Views   int64 // of a Workspace
	Scratch int64 // the backend's own, and what is read to the host
}

// Larger is enough for passes of either.
func (z Size) Larger(other Size) Size {
	return Size{max(z.Views, other.Views), max(z.Scratch, other.Scratch)}
}

// Total is what passes take.
func (z Size) Total() int64 { return z.Views + z.Scratch }

// groupRows is how many rows go through the model together at the most: a longest prompt, or several.
func (m *Model) groupRows() int { return max(m.opts.ChunkRows, m.opts.MaxLen) }

// groupBlocks bounds the blocks of a group: each prompt has its own, so that many short ones take more than their rows.
func (m *Model) groupBlocks() int { return max(blocksOf(m.opts.MaxLen), m.opts.ChunkRows/8, 1) }

func blocksOf(tokens int) int { return (tokens + blockTokens - 1) / blockTokens }

// layoutWorkspace lays the workspace out in a buffer, from a byte on, and says where it ends.
func (m *Model) layoutWorkspace(buf kernels.Buffer, from int64) (w workspace, to int64) {
	to = from
	s, act, rows := &m.spec, m.backend.ActType(), m.groupRows()
	mat := func(rows, cols int, typ kernels.DType) kernels.Mat {
		at := kernels.Mat{Buf: buf, Off: to, Rows: rows, Cols: cols, Stride: cols, Type: typ}
		to += alignBytes(int64(rows) * int64(cols) * typ.Size())
		return at
	}
	given := 0
	if s.names.attnGave != "" {
		given = rows
	}
	w = workspace{
		x:      mat(rows, s.hidden, kernels.F32),
		qkv:    mat(rows, s.heads.QKVCols(), act),
		attn:   mat(rows, s.heads.Q*s.heads.Dim, act),
		given:  mat(given, s.hidden, kernels.F32),
		logits: mat(m.groupBlocks(), s.head.labels, kernels.F32),
		kv:     buf, kvOff: to,
	}
	return w, to + alignBytes(int64(m.groupBlocks())*m.backend.KVBlockBytes(s.heads, blockTokens))
}

// alignBytes rounds up to a multiple of 64 bytes.
func alignBytes(bytes int64) int64 { return (bytes + 63) &^ 63 }

// Size is what the model's passes take.
func (m *Model) Size() Size {
	s := &m.spec
	_, views := m.layoutWorkspace(nil, 0)
	widest := max(2*s.intermediate, s.heads.QKVCols())
	return Size{2 * views, m.backend.ScratchBytes(m.groupRows(), max(s.hidden, s.intermediate), widest, kernels.LargestCodes{}) + 4*rowsOnHost*int64(s.hidden)}
}

// Workspace is the memory that passes compute in. Models of one backend share it, since one pass computes at a time, and
// between groups of prompts a pass keeps nothing there. The second half of it is for the one lowest pass.
type Workspace struct{ buf kernels.Buffer }

// NewWorkspace takes memory of so many bytes, which Size.Views is of a model.
func NewWorkspace(b kernels.Backend, bytes int64) (*Workspace, error) {
	buf, err := b.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("working memory: allocate %d bytes: %w", bytes, err)
	}
	return &Workspace{buf}, nil
}

// Free gives the memory back. No model may use it any more.
func (w *Workspace) Free() { w.buf.Free() }

// Use lets the model's passes compute in w. No pass may be open.
func (m *Model) Use(w *Workspace) error {
	half := w.buf.Bytes() / 2 &^ 63
	views, bytes := m.layoutWorkspace(w.buf, 0)
	if bytes > half {
		return fmt.Errorf("working memory of %d bytes is not enough for a model that takes %d", w.buf.Bytes(), 2*bytes)
	}
	m.work = views
	m.lowest, _ = m.layoutWorkspace(w.buf, half)
	rows := make([]float32, rowsOnHost*m.spec.hidden)
	m.work.rows, m.lowest.rows = rows, rows
	return nil
}
