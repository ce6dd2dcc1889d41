// Package gguf reads the container that llama.cpp keeps models in: metadata, and tensors in blocks of few bits,
// which it expands. It takes a file's bytes, and touches no file.
//
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Magic begins a file.
const Magic = "GGUF"

// Bounds of what a file may claim, far beyond any model's.
const (
	maxKeys       = 1 << 16
	maxKeyBytes   = 1<<16 - 1
	maxTensors    = 1 << 20
	maxNameBytes  = 1 << 10
	maxDims       = 4
	maxElements   = 1 << 40 // of a tensor
	maxAlignment  = 1 << 20
	usualAlign    = 32
	alignmentKey  = "general.alignment"
	leastKeyBytes = 8 + 4 + 1     // the length of a name, a type, and a value of one byte
	leastInfo     = 8 + 4 + 4 + 8 // the length of a name, the count of dimensions, a type, an offset
)

// File is what the header of a file says. Metadata is a view of the bytes that Parse was given.
type File struct {
	Metadata
	Tensors []Tensor // in the order of their data
}

// Tensor is where a tensor is. Its shape has the rows first, as in safetensors.
type Tensor struct {
	Name       string
	Type       Type
	Shape      []int
	Begin, End int64 // in the file
}

// Parse reads the header of a file, and checks that its tensors lie in the file beside each other.
func Parse(data []byte) (*File, error) {
	c := &cursor{data: data}
	tensors, keys, err := c.readCounts()
	if err != nil {
		return nil, err
	}
	f := &File{Metadata: Metadata{values: make(map[string]Value, keys)}}
	for range keys {
		if err := f.readKey(c); err != nil {
			return nil, err
		}
	}
	align, err := f.alignment()
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, tensors)
	for range tensors {
		t, err := c.readTensor()
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("tensor %q is named twice", t.Name)
		}
		if err != nil {
			return nil, err
		}
		seen[t.Name] = true
		f.Tensors = append(f.Tensors, t)
	}
	return f, f.placeTensors(int64(c.at), int64(len(data)), align)
}

// readCounts reads what is before the metadata.
func (c *cursor) readCounts() (tensors, keys int, err error) {
	if string(c.data[:min(len(c.data), len(Magic))]) != Magic {
		return 0, 0, fmt.Errorf("begins with %.4q, want %q: not a GGUF file", c.data[:min(len(c.data), len(Magic))], Magic)
	}
	c.at = len(Magic)
	version, err := c.uint32("version")
	switch {
	case err != nil:
		return 0, 0, err
	case version == 2 || version == 3:
	case version != 0 && bits.ReverseBytes32(version) <= 3:
		return 0, 0, errors.New("is of a big-endian machine, want a little-endian GGUF file")
	default:
		return 0, 0, fmt.Errorf("unsupported version %d of GGUF, want 2 or 3", version)
	}
	if tensors, err = c.count("tensors", maxTensors, leastInfo); err == nil {
		keys, err = c.count("keys of metadata", maxKeys, leastKeyBytes)
	}
	return tensors, keys, err
}

// alignment is what the offsets of tensors are multiples of.
func (f *File) alignment() (int64, error) {
	if !f.Has(alignmentKey) {
		return usualAlign, nil
	}
	n, err := f.Int(alignmentKey)
	if err == nil && (n < 1 || n > maxAlignment || n&(n-1) != 0) {
		err = fmt.Errorf("key %q is %d, want a power of two up to %d", alignmentKey, n, maxAlignment)
	}
	return int64(n), err
}

// readTensor reads where a tensor is, relative to the first one's place.
func (c *cursor) readTensor() (Tensor, error) {
	name, err := c.string("a tensor's name", maxNameBytes)
	if err != nil {
		return Tensor{}, err
	}
	at := c.at
	t := Tensor{Name: string(name)}
	if err := c.readInfo(&t); err != nil {
		return t, fmt.Errorf("tensor %q at offset %d: %w", t.Name, at, err)
	}
	return t, nil
}

func (c *cursor) readInfo(t *Tensor) error {
	dims, err := c.uint32("the number of dimensions")
	if err != nil {
		return err
	}
	if dims < 1 || dims > maxDims {
		return fmt.Errorf("has %d dimensions, want 1 to %d", dims, maxDims)
	}
	elements := uint64(1)
	for range dims {
		n, err := c.uint64("a dimension")
		if err != nil {
			return err
		}
		over, product := bits.Mul64(elements, n)
		if n == 0 || over != 0 || product > maxElements {
			return fmt.Errorf("has a dimension of %d after %v, want 1 to %d elements in all", n, t.Shape, uint64(maxElements))
		}
		elements = product
		t.Shape = append(t.Shape, int(n))
	}
	typ, err := c.uint32("the type")
	if err != nil {
		return err
	}
	if t.Type = Type(typ); layouts[t.Type].bytes == 0 {
		return fmt.Errorf("unsupported type %s, want one of %s", t.Type, supportedTypes())
	}
	if unit := t.Type.BlockLen(); t.Shape[0]%unit != 0 {
		return fmt.Errorf("rows have %d elements, want a multiple of the %d of a block of %s", t.Shape[0], unit, t.Type)
	}
	slices.Reverse(t.Shape)
	offset, err := c.uint64("the offset")
	if err == nil && offset > uint64(len(c.data)) {
		err = fmt.Errorf("is at %d of the tensors' data, beyond the file's %d bytes (truncated?)", offset, len(c.data))
	}
	t.Begin, t.End = int64(offset), int64(offset)+t.Type.Bytes(int64(elements))
	return err
}

// placeTensors makes offsets those of the file, whose header ends at end, and sorts the tensors by them.
func (f *File) placeTensors(end, size, align int64) error {
	begin := (end + align - 1) &^ (align - 1)
	slices.SortStableFunc(f.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Begin, b.Begin) })
	var before Tensor
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Begin%align != 0 {
			return fmt.Errorf("tensor %q is at %d of the tensors' data, want a multiple of %d (%s)", t.Name, t.Begin, align, alignmentKey)
		}
		t.Begin, t.End = t.Begin+begin, t.End+begin
		switch {
		case t.End > size:
			return fmt.Errorf("tensor %q at offsets %d to %d ends beyond the file's %d bytes (truncated?)", t.Name, t.Begin, t.End, size)
		case t.Begin < before.End:
			return fmt.Errorf("tensor %q at offsets %d to %d overlaps %q, which ends at %d", t.Name, t.Begin, t.End, before.Name, before.End)
		}
		before = *t
	}
	return nil
}

// cursor reads a header from its beginning.
type cursor struct {
	data []byte
	at   int
}

// readBytes returns the next n bytes.
func (c *cursor) readBytes(n uint64, what string) ([]byte, error) {
	if left := uint64(len(c.data) - c.at); n > left {
		return nil, fmt.Errorf("at offset %d: %s takes %d bytes, and %d follow (truncated?)", c.at, what, n, left)
	}
	part := c.data[c.at : c.at+int(n)]
	c.at += int(n)
	return part, nil
}

func (c *cursor) uint32(what string) (uint32, error) {
	raw, err := c.readBytes(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(raw), nil
}

func (c *cursor) uint64(what string) (uint64, error) {
	raw, err := c.readBytes(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(raw), nil
}

// count reads how many of something follow, which takes at least so many bytes each.
func (c *cursor) count(what string, most, each uint64) (int, error) {
	at := c.at
	n, err := c.uint64("the number of " + what)
	if err != nil {
		return 0, err
	}
	if n > most {
		return 0, fmt.Errorf("at offset %d: %d %s, want at most %d", at, n, what, most)
	}
	if left := uint64(len(c.data)-c.at) / each; n > left {
		return 0, fmt.Errorf("at offset %d: %d %s, and the file has bytes for %d (truncated?)", at, n, what, left)
	}
	return int(n), nil
}

// string reads a text of at most so many bytes.
func (c *cursor) string(what string, most uint64) ([]byte, error) {
	at := c.at
	n, err := c.uint64("the length of " + what)
	if err == nil && n > most {
		err = fmt.Errorf("at offset %d: %s has %d bytes, want at most %d", at, what, n, most)
	}
	if err != nil {
		return nil, err
	}
	return c.readBytes(n, what)
}
