//go:build cgo && linux && amd64

package cpu

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// resident is how many bytes of memory are backed.
func resident(t *testing.T, memory []byte) int64 {
	t.Helper()
	pages := make([]byte, (len(memory)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, e := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)), uintptr(unsafe.Pointer(&pages[0]))); e != 0 {
		t.Skipf("mincore: %v", e)
	}
	return int64(bytes.Count(pages, []byte{1}) * os.Getpagesize())
}

// TestPopulate: memory is backed before it is used, not much further, keeps what is written to it, and may be freed at any time.
func TestPopulate(t *testing.T) {
	b, err := New(Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	probe, err := newBuffer(populateStep)
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Free()
	if err := syscall.Madvise(probe.data, advPopulate); err != nil {
		t.Skipf("this system backs memory on the first write alone: %v", err)
	}
	const size, used = 4 * populateAhead, populateAhead / 2
	for turn := range 3 {
		buf, err := b.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		memory := buf.(*buffer).data
		memory[0], memory[size-1] = 1, 2
		for end := time.Now().Add(time.Minute); resident(t, memory) < used+populateAhead; time.Sleep(time.Millisecond) {
			if b.Populate(buf, used); time.Now().After(end) {
				t.Fatalf("%d bytes are backed after a minute, want %d", resident(t, memory), used+populateAhead)
			}
			if turn == 1 {
				break // and free it meanwhile
			}
		}
		if got := resident(t, memory); got > used+populateAhead+2*hugePage {
			t.Errorf("%d bytes are backed, want %d", got, used+populateAhead)
		}
		if memory[0] != 1 || memory[size-1] != 2 {
			t.Error("what was written is gone")
		}
		if b.Populate(buf, size); turn == 2 {
			b.Populate(buf, size) // past the end, and again
		}
		buf.Free()
	}
}
