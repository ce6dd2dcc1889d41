package wire

import "unsafe"

// word is an element of a list that travels as it lies in memory. On the wire it is little-endian, as the hosts of all
// backends are.
type word interface{ ~uint32 | ~float32 }

// bytesOf is the memory of a list.
func bytesOf[T word](list []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), 4*len(list))
}

// wordsOf is the list that lies in b, of which it takes the memory, without room to grow; nil of an empty one. Where b
// does not begin where a word may, it is a copy.
func wordsOf[T word](b []byte) []T {
	n := len(b) / 4
	if n == 0 {
		return nil
	}
	start := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(start)%unsafe.Alignof(*new(T)) == 0 {
		return unsafe.Slice((*T)(start), n)
	}
	list := make([]T, n)
	copy(bytesOf(list), b)
	return list
}
