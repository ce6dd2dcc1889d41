package blob

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// header is what a slot begins with.
type header struct {
	Secret secret // of the blob in it; 0: there is none
	Size   uint64
}

// headerBytes is where a slot's blob begins.
const headerBytes = 64

// slot is a part of an arena that holds one blob, or is kept for the next.
type slot struct {
	offset int64
	bytes  int    // header and room
	memory []byte // of as many bytes, mapped
	header header
	holder string    // of its blob
	since  time.Time // it is held, or kept
	pins   int       // goroutines that send it to readers
}

func (s *slot) data() []byte { return s.memory[headerBytes:][:s.header.Size] }

// writeHeader writes the header. A reader takes nothing from a slot whose header is not that of its blob, before and
// after it has read.
func (s *slot) writeHeader(h header) {
	s.header = h
	_, _ = binary.Encode(s.memory, binary.LittleEndian, &h)
}

// arena is memory for slots, in a memfd that grows at its end and is given back in holes: offsets are never
// used again for a slot of another size.
type arena struct {
	file  *os.File
	limit int64
	end   int64   // of the file
	taken int64   // bytes of all slots; at most limit
	kept  []*slot // for reuse; those kept the longest first
}

func newArena(limit int64) (*arena, error) {
	fd, err := unix.MemfdCreate("prefillonly-blobs", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	a := &arena{file: os.NewFile(uintptr(fd), "blobs"), limit: limit}
	// Nobody can take the memory from under this process's mappings.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		a.file.Close()
		return nil, fmt.Errorf("seal a memfd: %w", err)
	}
	return a, nil
}

// slotBytes is the size of a slot for n bytes: of few sizes, so that slots fit again, and at most an eighth, or
// 4 kB, more than is needed.
func slotBytes(n int) int {
	n += headerBytes
	unit := max(1<<max(bits.Len(uint(n))-4, 0), 4096)
	return (n + unit - 1) / unit * unit
}

// takeSlot gives out a slot for n bytes: one that was kept, or a new one. Its errors are ErrFull, and that the machine
// has no memory.
func (a *arena) takeSlot(n int) (*slot, error) {
	bytes := slotBytes(n)
	for i := len(a.kept) - 1; i >= 0; i-- {
		if s := a.kept[i]; s.bytes == bytes {
			a.kept = slices.Delete(a.kept, i, i+1)
			return s, nil
		}
	}
	for a.taken+int64(bytes) > a.limit {
		if len(a.kept) == 0 {
			return nil, fmt.Errorf("%w: %d bytes are held, and the limit is %d", ErrFull, a.taken, a.limit)
		}
		a.dropOldest()
	}
	fd := int(a.file.Fd())
	s := &slot{offset: a.end, bytes: bytes}
	err := unix.Fallocate(fd, 0, s.offset, int64(bytes)) // memory that is not there is an error here, and no SIGBUS later
	if err == nil {
		s.memory, err = unix.Mmap(fd, s.offset, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err != nil {
		return nil, fmt.Errorf("%d bytes of shared memory: %w", bytes, err)
	}
	a.end += int64(bytes)
	a.taken += int64(bytes)
	return s, nil
}

// keepSlot takes back a slot.
func (a *arena) keepSlot(s *slot, now time.Time) {
	s.since = now
	a.kept = append(a.kept, s)
}

// dropOldest gives back the memory of the slot that was kept the longest.
func (a *arena) dropOldest() {
	s := a.kept[0]
	a.kept = slices.Delete(a.kept, 0, 1)
	a.taken -= int64(s.bytes)
	_ = unix.Munmap(s.memory)
	_ = unix.Fallocate(int(a.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.offset, int64(s.bytes))
}

// close gives everything back; no slot is held any more.
func (a *arena) close() {
	for len(a.kept) > 0 {
		a.dropOldest()
	}
	_ = a.file.Close()
}
