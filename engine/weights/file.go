package weights

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// file is one safetensors file. It is open, and mapped, only while tensors of it are in use.
type file struct {
	path     string
	name     string // last element of path
	identity Identity
	body     int64 // where the tensors' data begins
	entries  []entry

	opened  *os.File // nil while closed
	mapping []byte
}

// Identity is what tells a file from the one that was at its path before, or from its own content before.
type Identity struct {
	Device, Inode  uint64
	Size, Modified int64 // Modified in nanoseconds
}

func identityOf(f *os.File) (Identity, error) {
	info, err := f.Stat()
	if err != nil {
		return Identity{}, err
	}
	sys := info.Sys().(*syscall.Stat_t)
	return Identity{uint64(sys.Dev), sys.Ino, info.Size(), info.ModTime().UnixNano()}, nil
}

// readFile reads a file's header.
func readFile(path string) (*file, error) {
	opened, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	f := &file{path: path, name: filepath.Base(path)}
	if err := f.readHeader(opened); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (f *file) readHeader(opened *os.File) error {
	var err error
	if f.identity, err = identityOf(opened); err != nil {
		return err
	}
	var prefix [8]byte
	n, _ := opened.ReadAt(prefix[:], 0) // a short read shows in the length
	length, err := headerLength(prefix[:n], f.identity.Size)
	if err != nil {
		return err
	}
	f.body = 8 + length
	header := make([]byte, length)
	if _, err := opened.ReadAt(header, 8); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	f.entries, err = parseHeader(header, f.identity.Size-f.body)
	return err
}

// openAgain opens the file that the header was read from, or says that it is no longer there.
func (f *file) openAgain() (*os.File, error) {
	opened, err := regular.Open(f.path)
	if err != nil {
		return nil, err
	}
	if err := f.unchanged(opened); err != nil {
		_ = opened.Close()
		return nil, err
	}
	return opened, nil
}

// unchanged refuses a file that is not, or no longer, the one that the header was read from.
func (f *file) unchanged(opened *os.File) error {
	now, err := identityOf(opened)
	switch was := f.identity; {
	case err != nil || now == was:
		return err
	case now.Size != was.Size:
		return fmt.Errorf("%s has changed since it was opened: it had %d bytes and has %d", f.path, was.Size, now.Size)
	case now.Modified != was.Modified:
		return fmt.Errorf("%s has changed since it was opened: it was of %v and is of %v", f.path, time.Unix(0, was.Modified).UTC(), time.Unix(0, now.Modified).UTC())
	}
	return fmt.Errorf("%s has changed since it was opened: another file is in its place", f.path)
}

// use maps the file, unless it is mapped.
func (f *file) use() error {
	if f.mapping != nil {
		return nil
	}
	opened, err := f.openAgain()
	if err != nil {
		return err
	}
	mapping, err := unix.Mmap(int(opened.Fd()), 0, int(f.identity.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: map %d bytes: %w", f.path, f.identity.Size, err), opened.Close())
	}
	_ = unix.Madvise(mapping, unix.MADV_SEQUENTIAL) // advice only: a refusal changes no result
	f.opened, f.mapping = opened, mapping
	return nil
}

// ReadPart implements kernels.File. Memory that is not of the mapping is copied.
func (f *file) ReadPart(dst, part []byte) error {
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(part)))) - int64(uintptr(unsafe.Pointer(unsafe.SliceData(f.mapping))))
	if at < 0 || at+int64(len(part)) > int64(len(f.mapping)) {
		copy(dst, part)
		return nil
	}
	if n, err := f.opened.ReadAt(dst[:len(part)], at); err != nil {
		return fmt.Errorf("%s: %d bytes at offset %d: read %d: %w; was the file changed while it was loaded? download it again", f.path, len(part), at, n, noEOF(err))
	}
	return nil
}

// data is a tensor in the mapping.
func (f *file) data(e entry) []byte { return f.mapping[f.body+e.begin : f.body+e.end : f.body+e.end] }

// close unmaps the file until its next use.
func (f *file) close() error {
	if f.mapping == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(f.mapping), f.opened.Close())
	f.opened, f.mapping = nil, nil
	return err
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
