package weights

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// file is one mapped safetensors file.
type file struct {
	*os.File
	path    string
	name    string // last element of path
	mapping []byte
	body    int64 // where the tensors' data begins
	entries []entry
}

func openFile(path string) (*file, error) {
	opened, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	f := &file{File: opened, path: path, name: filepath.Base(path)}
	if err := f.open(); err != nil {
		_ = f.close()
		return nil, err
	}
	return f, nil
}

func (f *file) open() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	var prefix [8]byte
	n, _ := f.ReadAt(prefix[:], 0) // a short read shows in the length
	length, err := headerLength(prefix[:n], size)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.body = 8 + length
	header := make([]byte, length)
	if _, err := f.ReadAt(header, 8); err != nil {
		return fmt.Errorf("%s: header: %w", f.path, err)
	}
	if f.entries, err = parseHeader(header, size-f.body); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if f.mapping, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("%s: map %d bytes: %w", f.path, size, err)
	}
	_ = unix.Madvise(f.mapping, unix.MADV_SEQUENTIAL) // advice only: a refusal changes no result
	return nil
}

// ReadPart implements kernels.File. Memory that is not of the mapping is copied.
func (f *file) ReadPart(dst, part []byte) error {
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(part)))) - int64(uintptr(unsafe.Pointer(unsafe.SliceData(f.mapping))))
	if at < 0 || at+int64(len(part)) > int64(len(f.mapping)) {
		copy(dst, part)
		return nil
	}
	if n, err := f.ReadAt(dst[:len(part)], at); err != nil {
		return fmt.Errorf("%s: %d bytes at offset %d: read %d: %w; was the file changed while it was loaded? download it again", f.path, len(part), at, n, noEOF(err))
	}
	return nil
}

func (f *file) data(e entry) []byte { return f.mapping[f.body+e.begin : f.body+e.end : f.body+e.end] }

func (f *file) close() error {
	mapping := f.mapping
	f.mapping = nil
	if mapping == nil {
		return f.Close()
	}
	return errors.Join(unix.Munmap(mapping), f.Close())
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
