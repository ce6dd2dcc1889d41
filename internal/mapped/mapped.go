// Package mapped reads regular files by memory mapping, and makes errors of what happens to them meanwhile:
// changed, replaced, cut short.
package mapped

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// File is a file that is open, and mapped, only while it is in use. It is not safe for concurrent use, but for
// ReadPart.
type File struct {
	Path     string
	Identity Identity // of the file that Of was given

	opened  *os.File // nil while not in use
	mapping []byte
}

// Identity is what tells a file from the one that was at its path before, or from its own content before.
type Identity struct {
	Device, Inode  uint64
	Size, Modified int64 // Modified in nanoseconds
}

// Of is the open file at path, which it leaves open and does not keep.
func MapFile(path string, opened *os.File) (File, error) {
	id, err := identityOf(opened)
	return File{Path: path, Identity: id}, err
}

// Read calls read with the file at path, which is in use until it returns. What is missing of it, because it was cut short meanwhile, is an error.
func Read(path string, read func(f *File) error) error {
	opened, err := regular.Open(path)
	if err != nil {
		return err
	}
	f, err := MapFile(path, opened)
	if err = errors.Join(err, opened.Close()); err != nil {
		return err
	}
	if err := f.Use(); err != nil {
		return err
	}
	return errors.Join(Guard(func() error { return read(&f) }), f.Close())
}

func identityOf(f *os.File) (Identity, error) {
	info, err := f.Stat()
	if err != nil {
		return Identity{}, err
	}
	sys := info.Sys().(*syscall.Stat_t)
	return Identity{uint64(sys.Dev), sys.Ino, info.Size(), info.ModTime().UnixNano()}, nil
}

// OpenAgain opens the file, or says that it is no longer there.
func (f *File) OpenAgain() (*os.File, error) {
	opened, err := regular.Open(f.Path)
	if err != nil {
		return nil, err
	}
	if err := f.IsSameFile(opened); err != nil {
		_ = opened.Close()
		return nil, err
	}
	return opened, nil
}

// Is refuses an open file that is not, or no longer, this one.
func (f *File) IsSameFile(opened *os.File) error {
	now, err := identityOf(opened)
	switch was := f.Identity; {
	case err != nil || now == was:
		return err
	case now.Size != was.Size:
		return fmt.Errorf("%s has changed since it was opened: it had %d bytes and has %d", f.Path, was.Size, now.Size)
	case now.Modified != was.Modified:
		return fmt.Errorf("%s has changed since it was opened: it was of %v and is of %v", f.Path, time.Unix(0, was.Modified).UTC(), time.Unix(0, now.Modified).UTC())
	}
	return fmt.Errorf("%s has changed since it was opened: another file is in its place", f.Path)
}

// Unchanged refuses a file that has changed, if it is in use.
func (f *File) Unchanged() error {
	if f.opened == nil {
		return nil
	}
	return f.IsSameFile(f.opened)
}

// Use maps the file, unless it is mapped.
func (f *File) Use() error {
	if f.opened != nil {
		return nil
	}
	opened, err := f.OpenAgain()
	if err != nil {
		return err
	}
	if f.Identity.Size > 0 {
		f.mapping, err = unix.Mmap(int(opened.Fd()), 0, int(f.Identity.Size), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: map %d bytes: %w", f.Path, f.Identity.Size, err), opened.Close())
	}
	_ = unix.Madvise(f.mapping, unix.MADV_SEQUENTIAL) // advice only: a refusal changes no result
	f.opened = opened
	return nil
}

// Data is the content of a file in use: valid until Close, and only under Guard safe from a fault.
func (f *File) Data() []byte { return f.mapping }

// ReadPart implements kernels.File. Memory that is not of the mapping is copied.
func (f *File) ReadPart(dst, part []byte) error {
	at, ok := f.placeOf(part)
	if !ok {
		copy(dst, part)
		return nil
	}
	if n, err := f.opened.ReadAt(dst[:len(part)], at); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s: %d bytes at offset %d: read %d: %w; was the file changed while it was loaded? download it again", f.Path, len(part), at, n, err)
	}
	return nil
}

// Holds says whether part is of the mapping.
func (f *File) Holds(part []byte) bool {
	_, ok := f.placeOf(part)
	return ok
}

func (f *File) placeOf(part []byte) (at int64, ok bool) {
	at = int64(uintptr(unsafe.Pointer(unsafe.SliceData(part)))) - int64(uintptr(unsafe.Pointer(unsafe.SliceData(f.mapping))))
	return at, at >= 0 && at+int64(len(part)) <= int64(len(f.mapping))
}

// Close unmaps the file until its next use.
func (f *File) Close() error {
	if f.opened == nil {
		return nil
	}
	var err error
	if f.mapping != nil {
		err = unix.Munmap(f.mapping)
	}
	err = errors.Join(err, f.opened.Close())
	f.opened, f.mapping = nil, nil
	return err
}

// Guard calls read, which reads mapped files, in this goroutine. What is missing of them, because they were cut
// short, is an error and not the end of the process.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = errors.New("the file was cut short, or its device failed, while it was read; download it again")
		default:
			panic(fault)
		}
	}()
	return read()
}

// AdviseNeeded asks the system to read all pages that data touches, and does not wait.
func AdviseNeeded(data []byte) {
	if lead := pageLead(data); len(data) > 0 {
		whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&data[0]), -lead)), len(data)+lead)
		_ = unix.Madvise(whole, unix.MADV_WILLNEED)
	}
}

// AdviseDropped drops the pages that lie within data wholly, so that neighbours keep theirs.
func AdviseDropped(data []byte) {
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
