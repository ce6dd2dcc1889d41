package model

import (
	"errors"
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// hostPages are the pages of host memory, laid out as those of the device.
type hostPages struct {
	offloader kernels.Offloader
	buf       kernels.Buffer
	count     int
	last      uint64        // mark of the last copies
	load      time.Duration // of a page
}

// NewHostPages gives the model n pages of host memory for blocks that the device has to evict, and
// measures what it takes to load one. The device must have its pages.
func (m *Model) NewHostPages(n int) error {
	offloader, ok := m.backend.(kernels.Offloader)
	if !ok {
		return fmt.Errorf("%s cannot keep KV blocks in host memory beside its own", m.backend.Name())
	}
	if n < 1 || m.pages.count < 1 {
		return fmt.Errorf("%d pages of host memory for a prefix cache of %d blocks: want at least one of each", n, m.pages.count)
	}
	buf, err := offloader.AllocHost(int64(n) * m.pageBytes())
	if err != nil {
		return fmt.Errorf("%d KV blocks of %d bytes in host memory: %w", n, m.pageBytes(), err)
	}
	m.freeHost()
	m.host = hostPages{offloader: offloader, buf: buf, count: n}
	return m.measureLoad()
}

// pageBytes is the size of a page over all layers.
func (m *Model) pageBytes() int64 { return int64(m.spec.Layers) * m.pages.bytes }

// freeHost waits for the copies that may be on their way.
func (m *Model) freeHost() {
	if m.host.buf == nil {
		return
	}
	m.host.offloader.Await(m.host.last)
	_ = m.backend.Sync() // what failed has nobody left to be told
	m.host.buf.Free()
	m.host = hostPages{}
}

// measureLoad times loads of empty pages into empty pages, the second time round.
func (m *Model) measureLoad() error {
	var copies []wire.Copy
	for i := range min(m.host.count, m.pages.count, 32) {
		copies = append(copies, wire.Copy{Device: wire.BlockID(i), Host: wire.BlockID(i)})
	}
	for range 2 {
		start := time.Now()
		m.host.offloader.Await(m.loadPages(copies)[m.spec.Layers-1])
		if err := m.backend.Sync(); err != nil {
			return fmt.Errorf("loading from host memory: %w", err)
		}
		m.host.load = time.Since(start) / time.Duration(len(copies))
	}
	return nil
}

// Save copies pages of the device to host memory, in order; it does not wait.
func (m *Model) Save(copies []wire.Copy) error {
	if err := m.checkCopies(copies); err != nil {
		return err
	}
	for _, r := range mergePageRuns(copies) {
		m.host.offloader.Save(m.copyOf(r, 0, m.pageBytes()))
	}
	m.host.last = m.host.offloader.Mark()
	return nil
}

// loadPages enqueues the loads, layer by layer, and returns the marks of the layers: the copies of one
// go on while those before it are computed.
func (m *Model) loadPages(copies []wire.Copy) []uint64 {
	marks, together := make([]uint64, m.spec.Layers), mergePageRuns(copies)
	for layer := range marks {
		for _, r := range together {
			m.host.offloader.Load(m.copyOf(r, int64(layer)*m.pages.bytes, m.pages.bytes))
		}
		marks[layer] = m.host.offloader.Mark()
	}
	m.host.last = marks[len(marks)-1]
	return marks
}

func (m *Model) checkCopies(copies []wire.Copy) error {
	if m.host.buf == nil {
		return errors.New("there are no pages of host memory")
	}
	for _, c := range copies {
		if int64(c.Device) >= int64(m.pages.count) || int64(c.Host) >= int64(m.host.count) {
			return fmt.Errorf("a copy between block %d of %d and page %d of %d in host memory", c.Device, m.pages.count, c.Host, m.host.count)
		}
	}
	return nil
}

// pageRun is pages that follow each other in both memories.
type pageRun struct {
	first wire.Copy // the lowest ones
	count int
}

// copyOf is the copy of a part of each page of a run.
func (m *Model) copyOf(r pageRun, off, bytes int64) kernels.HostCopy {
	size := m.pageBytes()
	return kernels.HostCopy{
		Device: m.pages.buf, DeviceOff: int64(r.first.Device)*size + off,
		Host: m.host.buf, HostOff: int64(r.first.Host)*size + off,
		Bytes: bytes, Stride: size, Count: r.count,
	}
}

// mergePageRuns puts neighbours together, ascending or descending in both memories: a copy of many pieces
// takes less time to enqueue than many copies.
func mergePageRuns(copies []wire.Copy) []pageRun {
	var list []pageRun
	step := 0 // of the last run; 0: it has one page
	for i, c := range copies {
		if i > 0 {
			before := copies[i-1]
			by := int(c.Device) - int(before.Device)
			if (by == 1 || by == -1) && by == int(c.Host)-int(before.Host) && (step == 0 || step == by) {
				r := &list[len(list)-1]
				r.count++
				if step = by; by < 0 {
					r.first = c
				}
				continue
			}
		}
		list, step = append(list, pageRun{c, 1}), 0
	}
	return list
}
