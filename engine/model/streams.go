package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// streamStages is how many chunks of host memory's part have a place on the device at once: one is loaded and one is saved
// while one is computed.
const streamStages = 3

// streamMemory is that of the residual streams of all open passes, float32, of whatever models: addresses below Resident are
// bytes of the device's buffer, those from there on bytes of host memory. Chunks of passes in host memory take
// turns at the stages, which come after the resident bytes on the device.
type streamMemory struct {
	resident, staged int64 // bytes on the device, and of a stage
	offloader        kernels.Offloader
	host             kernels.Buffer // nil if all is resident
	free             []extent       // by address, apart from each other

	turn  int                  // chunks that have come through the stages
	saved [streamStages]uint64 // marks of the last copies out of each
}

// streamSize is how many bytes of residual streams the device holds, those of a stage, and those that host memory holds.
type streamSize struct{ Resident, Staged, Host int64 }

// extent is addresses [from, to).
type extent struct{ from, to int64 }

// Prepare lends all of it; what is on the device is allocated.
func (m *streamMemory) Prepare(b kernels.Backend, size streamSize) error {
	m.resident, m.staged = size.Resident, size.Staged
	m.free = []extent{{0, size.Resident}}
	if size.Host == 0 {
		return nil
	}
	var ok bool
	if m.offloader, ok = b.(kernels.Offloader); !ok {
		return fmt.Errorf("%s cannot keep residual streams in host memory beside its own; let all rows be resident", b.Name())
	}
	var err error
	if m.host, err = m.offloader.AllocHost(size.Host); err != nil {
		return fmt.Errorf("residual streams of %d bytes in host memory: %w", size.Host, err)
	}
	m.free = append(m.free, extent{size.Resident, size.Resident + size.Host})
	return nil
}

// Release frees what is in host memory, once the copies on their way are done.
func (m *streamMemory) Release(b kernels.Backend) {
	if m.host == nil {
		return
	}
	for _, mark := range m.saved {
		m.offloader.Await(mark)
	}
	_ = b.Sync() // what failed has nobody left to be told
	m.host.Free()
	m.host = nil
}

// lendBytes lends so many bytes at the least address that has them.
func (m *streamMemory) lendBytes(bytes int64) (at int64, ok bool) {
	for i := range m.free {
		if e := &m.free[i]; e.to-e.from >= bytes {
			at = e.from
			if e.from += bytes; e.from == e.to {
				m.free = slices.Delete(m.free, i, i+1)
			}
			return at, true
		}
	}
	return 0, false
}

// returnBytes takes bytes back.
func (m *streamMemory) returnBytes(at, bytes int64) {
	back := extent{at, at + bytes}
	i, _ := slices.BinarySearchFunc(m.free, at, func(e extent, at int64) int { return cmp.Compare(e.from, at) })
	if i < len(m.free) && m.free[i].from == back.to && back.to != m.resident {
		back.to = m.free[i].to
		m.free = slices.Delete(m.free, i, i+1)
	}
	if i > 0 && m.free[i-1].to == at && at != m.resident {
		m.free[i-1].to = back.to
		return
	}
	m.free = slices.Insert(m.free, i, back)
}
