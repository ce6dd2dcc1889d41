package weights

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/kernels"
)

// readers is how many goroutines read parts of a tensor at a time: one alone does not keep a
// solid-state disk busy, nor several processors with copying from the page cache.
const readers = 4

// readPart is the most that one of them reads at once, in bytes.
const readPart = 8 << 20

// Stage is memory into which tensors are read from their files, for backends that take them from
// memory: touching a mapping instead would be slower, and a fault where the file was cut short. One
// goroutine uses it.
type Stage struct{ memory []byte }

// Read returns the tensors with Data in the stage's memory, which the next Read overwrites. Tensors
// that no file is behind are returned as they are.
func (s *Stage) Read(tensors ...kernels.HostTensor) ([]kernels.HostTensor, error) {
	var total int64
	for _, t := range tensors {
		if t.File != nil {
			total += alignTo64(len(t.Data))
		}
	}
	if err := s.growMemory(total); err != nil {
		return nil, err
	}
	staged := make([]kernels.HostTensor, len(tensors))
	rest := s.memory
	for i, t := range tensors {
		staged[i] = t
		if t.File == nil {
			continue
		}
		if err := readAll(t, rest[:len(t.Data)]); err != nil {
			return nil, err
		}
		staged[i].File, staged[i].Data = nil, rest[:len(t.Data):len(t.Data)]
		rest = rest[alignTo64(len(t.Data)):]
	}
	return staged, nil
}

// alignTo64 keeps tensors that lie side by side on addresses that any kernel may load from.
func alignTo64(n int) int64 { return (int64(n) + 63) &^ 63 }

// growMemory makes the memory anonymous pages, which go back to the system at once when they are not needed.
func (s *Stage) growMemory(bytes int64) error {
	if bytes <= int64(len(s.memory)) {
		return nil
	}
	s.Free()
	memory, err := mapMemory(bytes)
	s.memory = memory
	return err
}

// mapMemory returns anonymous pages.
func mapMemory(bytes int64) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("cannot allocate %d MiB to read weights into: %w", bytes>>20, err)
	}
	return memory, nil
}

// Free gives the memory back.
func (s *Stage) Free() {
	if s.memory != nil {
		_ = unix.Munmap(s.memory)
		s.memory = nil
	}
}

// readAll reads all of t into dst, several parts at a time.
func readAll(t kernels.HostTensor, dst []byte) error {
	return eachPart(len(dst), readPart, func(from, to int) error { return t.ReadPart(dst[from:to], t.Data[from:to]) })
}

// Check reads t through, so that what is later used in its mapping is known to be there and is in the
// page cache.
func Check(t kernels.HostTensor) error {
	if t.File == nil {
		return nil
	}
	buffers := sync.Pool{New: func() any { b := make([]byte, readPart); return &b }}
	return eachPart(len(t.Data), readPart, func(from, to int) error {
		b := buffers.Get().(*[]byte)
		defer buffers.Put(b)
		return t.ReadPart((*b)[:to-from], t.Data[from:to])
	})
}

// eachPart calls read for the parts of n bytes or rows, each of so many at the most, by several goroutines that end before it does, and
// returns an error of one of them.
func eachPart(n, part int, read func(from, to int) error) error {
	var group sync.WaitGroup
	var once sync.Once
	var failed error
	next := make(chan int)
	for range min(readers, runtime.GOMAXPROCS(0), (n+part-1)/part) {
		group.Go(func() { // ends with next
			for from := range next {
				if err := read(from, min(from+part, n)); err != nil {
					once.Do(func() { failed = err })
				}
			}
		})
	}
	for from := 0; from < n; from += part {
		next <- from
	}
	close(next)
	group.Wait()
	return failed
}
