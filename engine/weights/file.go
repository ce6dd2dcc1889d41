package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is one mapped safetensors file.
type file struct {
	path    string
	name    string // last element of path
	mapping []byte
	body    int64 // where the tensors' data begins
	entries []entry
}

func openFile(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping outlives the descriptor
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	size := info.Size()
	var prefix [8]byte
	n, _ := f.ReadAt(prefix[:], 0) // a short read shows in the length
	length, err := headerLength(prefix[:n], size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	mapping, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: map %d bytes: %w", path, size, err)
	}
	m := &file{path: path, name: filepath.Base(path), mapping: mapping, body: 8 + length}
	m.entries, err = parseHeader(mapping[8:m.body], size-m.body)
	if err != nil {
		_ = m.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	_ = unix.Madvise(mapping, unix.MADV_SEQUENTIAL) // advice only: a refusal changes no result
	return m, nil
}

func (f *file) data(e entry) []byte { return f.mapping[f.body+e.begin : f.body+e.end : f.body+e.end] }

func (f *file) close() error {
	mapping := f.mapping
	f.mapping = nil
	if mapping == nil {
		return nil
	}
	return unix.Munmap(mapping)
}

// adviseNeeded starts reading all pages that data touches.
func adviseNeeded(data []byte) {
	if lead := pageLead(data); len(data) > 0 {
		whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&data[0]), -lead)), len(data)+lead)
		_ = unix.Madvise(whole, unix.MADV_WILLNEED)
	}
}

// adviseDropped drops the pages that lie within data wholly, so that neighbours keep theirs.
func adviseDropped(data []byte) {
	page := os.Getpagesize()
	lead := (page - pageLead(data)) % page
	if n := (len(data) - lead) &^ (page - 1); n > 0 {
		_ = unix.Madvise(data[lead:lead+n], unix.MADV_DONTNEED)
	}
}

// pageLead is how far into its page data begins.
func pageLead(data []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(data))) & uintptr(os.Getpagesize()-1))
}
