package tensorparallel

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// buffer is memory of the same size on every rank. What the ranks hold of it is the same, but for
// blocks of keys and values and for matrices that are cut.
type buffer struct {
	b     *Backend
	bytes int64
	ranks []kernels.Buffer
	cuts  []region // in the order in which operations wrote them
}

// region is a matrix of which each rank holds its own columns.
type region struct {
	mat    kernels.Mat
	layout layout
}

func (m *buffer) Bytes() int64 { return m.bytes }

func (m *buffer) Free() {
	if err := m.b.callEachRank(func(i int, _ *worker) error { m.ranks[i].Free(); return nil }); err != nil {
		m.b.recordFailure("free: %v", err)
	}
}

// Alloc returns so many zeroed bytes on every rank.
func (b *Backend) Alloc(bytes int64) (kernels.Buffer, error) {
	m := &buffer{b: b, bytes: bytes, ranks: make([]kernels.Buffer, len(b.workers))}
	err := b.callEachRank(func(i int, w *worker) (err error) {
		m.ranks[i], err = w.Alloc(bytes)
		return err
	})
	if err != nil {
		freeAll(b, m.ranks)
		return nil, err
	}
	return m, nil
}

// freeAll frees what ranks hold of something of which not all could be made.
func freeAll[T interface{ Free() }](b *Backend, held []T) {
	_ = b.callEachRank(func(i int, _ *worker) error {
		if any(held[i]) != nil {
			held[i].Free()
		}
		return nil
	})
}

// rankMatrix is a rank's matrix of so many columns at the place of m.
func rankMatrix(m kernels.Mat, rank, cols int) kernels.Mat {
	m.Buf, m.Cols = m.Buf.(*buffer).ranks[rank], cols
	return m
}

// rowAt is where row i of m begins.
func rowAt(m kernels.Mat, i int) int64 { return m.Off + int64(i)*int64(m.Stride)*m.Type.Size() }

// matrixEnd is where the last row of m ends.
func matrixEnd(m kernels.Mat) int64 { return rowAt(m, m.Rows-1) + int64(m.Cols)*m.Type.Size() }

// coversMatrix says whether r's rows and columns are those of m and more.
func (r *region) coversMatrix(m kernels.Mat) bool {
	return r.mat.Off == m.Off && r.mat.Stride == m.Stride && r.mat.Type == m.Type && r.mat.Rows >= m.Rows && r.mat.Cols >= m.Cols
}

// overlapsBytes says whether r has bytes in [from, to) of its buffer.
func (r *region) overlapsBytes(from, to int64) bool { return r.mat.Off < to && matrixEnd(r.mat) > from }

// cutTo says that an operation has written m so that each rank holds its own columns. Where m is
// narrower than a matrix that was cut at its place before, the rest of that one's rows is lost.
func cutTo(m kernels.Mat, l layout) {
	if m.Rows == 0 {
		return
	}
	buf := m.Buf.(*buffer)
	next := region{m, l}
	buf.cuts = slices.DeleteFunc(buf.cuts, func(r region) bool { return next.coversMatrix(r.mat) })
	buf.cuts = append(buf.cuts, next)
}

// ensureLayout lays m out as an operation wants it. Matrices that an operation has written are so already; one
// that the host has written goes through the host again.
func (b *Backend) ensureLayout(m kernels.Mat, want layout) {
	if m.Rows == 0 {
		return
	}
	buf := m.Buf.(*buffer)
	for _, r := range slices.Backward(buf.cuts) {
		if r.overlapsBytes(m.Off, matrixEnd(m)) {
			if r.coversMatrix(m) && r.layout.satisfiesLayout(want) {
				return
			}
			break
		}
	}
	raw := make([]byte, matrixEnd(m)-m.Off)
	b.Read(raw, buf, m.Off)
	size := m.Type.Size()
	b.enqueueEachRank(func(rank int, w *worker) error {
		for i := range m.Rows {
			at := rowAt(m, i)
			for _, s := range want[rank] {
				from := at - m.Off + int64(s.at)*size
				w.Write(buf.ranks[rank], at+int64(s.own)*size, raw[from:from+int64(s.n)*size])
			}
		}
		return nil
	})
	cutTo(m, want)
}

// Write puts the bytes on every rank. It is not meant for blocks of keys and values, of which each
// rank has its own.
func (b *Backend) Write(dst kernels.Buffer, off int64, src []byte) {
	buf := dst.(*buffer)
	if off < 0 || off+int64(len(src)) > buf.bytes {
		b.recordFailure("cannot write %d bytes at %d of a buffer of %d", len(src), off, buf.bytes)
		return
	}
	b.joinCutMatrices(buf, off, off+int64(len(src)))
	src = slices.Clone(src) // the ranks copy it later
	b.enqueueEachRank(func(i int, w *worker) error { w.Write(buf.ranks[i], off, src); return nil })
}

// joinCutMatrices makes matrices that are cut whole again before the host writes bytes [from, to) into them, and
// with them those that share their memory.
func (b *Backend) joinCutMatrices(buf *buffer, from, to int64) {
	first, last := from, to
	for changed := true; changed; {
		changed = false
		for _, r := range buf.cuts {
			if r.overlapsBytes(first, last) && (r.mat.Off < first || matrixEnd(r.mat) > last) {
				first, last, changed = min(first, r.mat.Off), max(last, matrixEnd(r.mat)), true
			}
		}
	}
	if first < from || last > to {
		whole := make([]byte, last-first)
		b.Read(whole, buf, first)
		b.enqueueEachRank(func(rank int, w *worker) error { w.Write(buf.ranks[rank], first, whole); return nil })
	}
	buf.cuts = slices.DeleteFunc(buf.cuts, func(r region) bool { return r.overlapsBytes(first, last) })
}

// Read waits, copies what the first rank holds, and lays over it the columns that each rank holds.
func (b *Backend) Read(dst []byte, src kernels.Buffer, off int64) {
	buf := src.(*buffer)
	to := off + int64(len(dst))
	if off < 0 || to > buf.bytes {
		b.recordFailure("cannot read %d bytes at %d of a buffer of %d", len(dst), off, buf.bytes)
		return
	}
	err := b.waitFor([]int{0}, func(_ int, w *worker) error { w.Read(dst, buf.ranks[0], off); return nil })
	for _, r := range buf.cuts {
		if err == nil && r.overlapsBytes(off, to) {
			err = b.callEachRank(func(rank int, w *worker) error { r.read(w, rank, dst, off); return nil })
		}
	}
	if err != nil {
		b.recordFailure("read: %v", err)
	}
}

// read copies a rank's columns that lie in the bytes of dst, which begin at byte off of the buffer.
func (r *region) read(w *worker, rank int, dst []byte, off int64) {
	size := r.mat.Type.Size()
	pitch := int64(r.mat.Stride) * size
	last := min(int64(r.mat.Rows), (off+int64(len(dst))-r.mat.Off+pitch-1)/pitch)
	for i := max(0, (off-r.mat.Off)/pitch); i < last; i++ {
		row := rowAt(r.mat, int(i))
		for _, s := range r.layout[rank] {
			at := row + int64(s.at)*size
			from, to := max(at, off), min(at+int64(s.n)*size, off+int64(len(dst)))
			if from < to {
				w.Read(dst[from-off:to-off], rankMatrix(r.mat, rank, 0).Buf, row+int64(s.own)*size+from-at)
			}
		}
	}
}

// nextPartial is the matrix that a rank's next partial sums go to. Two take turns, so that a rank may
// go on while another still reads the one before.
func (w *worker) nextPartial(rows, cols int, typ kernels.DType) (kernels.Mat, error) {
	w.turn = 1 - w.turn
	held := &w.partials[w.turn]
	need := typ.Size() * int64(rows) * int64(cols)
	if *held == nil || (*held).Bytes() < need {
		if *held != nil {
			(*held).Free()
		}
		var err error
		if *held, err = w.Alloc(need); err != nil {
			return kernels.Mat{}, fmt.Errorf("partial sums: %w", err)
		}
	}
	return kernels.Mat{Buf: *held, Rows: rows, Cols: cols, Stride: cols, Type: typ}, nil
}
