package weights

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/prefillonly/prefillonly/internal/mapped"
)

// Entry is a tensor as its file's header has it, computable or not.
type Entry struct {
	Name  string
	Type  string // as the format writes it, such as BF16
	Shape []int
	Bytes int64
	File  int // its place in Files
}

// File is one of a checkpoint's files.
type File struct {
	Path string
	mapped.Identity
}

// Entries lists all tensors, by file and in the files' order.
func (c *Checkpoint) Entries() []Entry {
	var list []Entry
	for i, f := range c.files {
		for _, e := range f.entries {
			list = append(list, Entry{Name: e.name, Type: e.kind(), Shape: e.shape, Bytes: e.end - e.begin, File: i})
		}
	}
	return list
}

// Files lists the files that have the tensors.
func (c *Checkpoint) Files() []File {
	list := make([]File, len(c.files))
	for i, f := range c.files {
		list[i] = File{f.Path, f.Identity}
	}
	return list
}

// copyPart is the most that Copy reads at once, in bytes.
const copyPart = 1 << 20

// Copy writes a tensor's first bytes, at most so many, to w. It fails where the file is not the one that Open
// read, before or after. Unlike other methods it may be called by several goroutines, beside any other.
func (c *Checkpoint) Copy(w io.Writer, name string, most int64) error {
	t := c.tensors[name]
	opened, err := t.file.OpenAgain()
	if err != nil {
		return err
	}
	n := min(most, t.end-t.begin)
	got, err := io.CopyBuffer(w, io.NewSectionReader(opened, t.file.body+t.begin, n), make([]byte, max(1, min(n, copyPart))))
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = fmt.Errorf("%s: tensor %q: %w", t.file.Path, name, err)
	}
	return errors.Join(cmp.Or(err, t.file.IsSameFile(opened)), opened.Close())
}
