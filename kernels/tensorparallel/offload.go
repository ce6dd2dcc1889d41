package tensorparallel

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Offloader = (*Backend)(nil)

// marks are what a rank calls the copies that Backend.Mark has named. A rank makes its copies in their
// order, so once it has waited for one mark it has waited for those before.
type marks struct {
	own  map[uint64]uint64
	past uint64
}

// hostBuffer is host memory of the same size for every rank, which keeps its own blocks there.
type hostBuffer struct {
	b     *Backend
	bytes int64
	ranks []kernels.Buffer
}

func (m *hostBuffer) Bytes() int64 { return m.bytes }
func (m *hostBuffer) Free()        { freeAll(m.b, m.ranks) }

// AllocHost reserves so many bytes for each rank, all of which must be kernels.Offloaders.
func (b *Backend) AllocHost(bytes int64) (kernels.Buffer, error) {
	m := &hostBuffer{b: b, bytes: bytes, ranks: make([]kernels.Buffer, len(b.workers))}
	err := b.callEachRank(func(i int, w *worker) (err error) {
		o, ok := w.Rank.(kernels.Offloader)
		if !ok {
			return fmt.Errorf("%s does not support KV blocks in host memory", w.Name())
		}
		w.marks.own = map[uint64]uint64{}
		m.ranks[i], err = o.AllocHost(bytes)
		return err
	})
	if err != nil {
		freeAll(b, m.ranks)
		return nil, err
	}
	return m, nil
}

// enqueueCopies enqueues what no failure of a pass may leave out: blocks that some ranks have saved and others
// have not would give wrong answers later. If it fails itself, the ranks are lost.
func (b *Backend) enqueueCopies(call func(i int, w *worker, o kernels.Offloader)) {
	for i, w := range b.workers {
		b.enqueueCall(w, func() {
			err := guardCall(i, w, func(i int, w *worker) error { call(i, w, w.Rank.(kernels.Offloader)); return nil })
			if err != nil {
				b.abortPass(&lostError{err})
			}
		})
	}
}

// ownCopy is a rank's part of a copy.
func ownCopy(c kernels.HostCopy, rank int) kernels.HostCopy {
	c.Device, c.Host = c.Device.(*buffer).ranks[rank], c.Host.(*hostBuffer).ranks[rank]
	return c
}

// Save copies each rank's part.
func (b *Backend) Save(c kernels.HostCopy) {
	b.enqueueCopies(func(i int, _ *worker, o kernels.Offloader) { o.Save(ownCopy(c, i)) })
}

// Load copies each rank's part.
func (b *Backend) Load(c kernels.HostCopy) {
	b.enqueueCopies(func(i int, _ *worker, o kernels.Offloader) { o.Load(ownCopy(c, i)) })
}

// Mark names the copies of all ranks.
func (b *Backend) Mark() uint64 {
	b.marked++
	mark := b.marked
	b.enqueueCopies(func(_ int, w *worker, o kernels.Offloader) { w.marks.own[mark] = o.Mark() })
	return mark
}

// Await makes each rank wait for its own copies.
func (b *Backend) Await(mark uint64) {
	b.enqueueCopies(func(_ int, w *worker, o kernels.Offloader) {
		if mark <= w.marks.past {
			return
		}
		o.Await(w.marks.own[mark])
		for m := w.marks.past + 1; m <= mark; m++ {
			delete(w.marks.own, m)
		}
		w.marks.past = mark
	})
}
