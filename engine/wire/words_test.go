package wire

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
)

// TestListsAreNotCopied: a list is its frame, on both sides, wherever words may begin there; and it has no room behind
// it, so that what is appended is not written into the frame.
func TestListsAreNotCopied(t *testing.T) {
	ids := []engine.TokenID{1, 2, 1 << 31}
	frames := Encode(&Submit{engine.Job{ID: 1, Work: &engine.Tokens{IDs: ids}}})
	if len(frames) != 2 || unsafe.SliceData(frames[1]) != (*byte)(unsafe.Pointer(unsafe.SliceData(ids))) {
		t.Fatal("the frame is not the list's memory")
	}
	for shift := range 8 {
		room := make([]byte, 32)
		frame := room[shift : shift+12]
		copy(frame, frames[1])
		m, err := Decode([][]byte{frames[0], frame})
		if err != nil {
			t.Fatal(err)
		}
		got := m.(*Submit).Work.(*engine.Tokens).IDs
		if !slices.Equal(got, ids) || cap(got) != len(got) {
			t.Fatalf("%d bytes from a word's place: %v of %d, want %v", shift, got, cap(got), ids)
		}
		if same := unsafe.Pointer(unsafe.SliceData(got)) == unsafe.Pointer(unsafe.SliceData(frame)); same != (shift%4 == 0) {
			t.Errorf("%d bytes from a word's place: the list is the frame's memory: %t", shift, same)
		}
	}
}
