package weights

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/kernels"
)

// coded is how the elements of a tensor of a GGUF file become a checkpoint's.
type coded struct {
	typ   gguf.Type
	heads int     // whose rows lie in pairs, and half a head apart in a checkpoint; 0: rows are as they are
	less  float32 // what is subtracted
}

// expanded is the type that the elements become: bfloat16 of those in blocks.
func (c *coded) expanded() kernels.DType {
	if plain, ok := gguf.Plain[c.typ]; ok {
		return plain
	}
	return kernels.BF16
}

// sourceRow is the row of the file that row i of the checkpoint is, of rows in all.
func (c *coded) sourceRow(i, rows int) int {
	if c.heads == 0 {
		return i
	}
	dim := rows / c.heads
	head, at := i/dim*dim, i%dim
	return head + 2*(at%(dim/2)) + at/(dim/2)
}

// openGGUF reads the headers of a GGUF model.
func (c *Checkpoint) openGGUF() error {
	var family ggufFamily
	var heads, keyHeads int
	return eachShard(c.dir, func(first bool, from *mapped.File, f *gguf.File) (err error) {
		if first {
			if family, heads, keyHeads, err = readHeads(f); err != nil {
				return err
			}
		}
		into := &file{File: mapped.File{Path: from.Path, Identity: from.Identity}, name: from.Path}
		for i := range f.Tensors {
			if err := into.addGGUF(&f.Tensors[i], &family, heads, keyHeads); err != nil {
				return err
			}
		}
		return c.addEntries(into)
	})
}

// readHeads is how a model's tensors are stored: its family, and its heads of queries and of keys.
func readHeads(f *gguf.File) (family ggufFamily, heads, keyHeads int, err error) {
	name, family, err := ggufFamilyOf(f)
	if err != nil || !family.paired {
		return family, 0, 0, err
	}
	if heads, err = f.Int(name + ".attention.head_count"); err != nil {
		return family, 0, 0, err
	}
	if keyHeads = heads; f.Has(name + ".attention.head_count_kv") {
		keyHeads, err = f.Int(name + ".attention.head_count_kv")
	}
	if err == nil && (heads < 1 || keyHeads < 1) {
		err = fmt.Errorf("%s.attention has %d heads and %d of keys, want at least 1", name, heads, keyHeads)
	}
	return family, heads, keyHeads, err
}

// addGGUF adds a tensor by a checkpoint's name, unless a checkpoint has none like it.
func (f *file) addGGUF(t *gguf.Tensor, family *ggufFamily, heads, keyHeads int) error {
	name, err := family.tensorName(t.Name)
	if err != nil || name == "" {
		return err
	}
	e := entry{name: name, dtype: t.Type.String(), shape: slices.Clone(t.Shape), begin: t.Begin, end: t.End}
	if e.coded, err = family.codedOf(t, name, heads, keyHeads); err != nil {
		return err
	}
	f.entries = append(f.entries, e)
	return nil
}

// kind is an entry's type and what else its bytes mean: tensors of one kind and of equal bytes are equal.
func (e *entry) kind() string {
	name := e.dtype
	if e.coded != nil && e.coded.heads > 0 {
		name += fmt.Sprintf(" in pairs of rows of %d heads", e.coded.heads)
	}
	if e.coded != nil && e.coded.less != 0 {
		name += fmt.Sprintf(" plus %g", e.coded.less)
	}
	return name
}

// expandTensor makes the elements of a coded tensor, in memory that Release frees.
func (c *Checkpoint) expandTensor(t located, rows, cols int) ([]byte, error) {
	typ, from := t.coded.expanded(), t.file.tensorData(t.entry)
	width, stored := cols*int(typ.Size()), int(t.coded.typ.Bytes(int64(cols)))
	return c.expandRows(rows, width, t.coded.partRows(rows, cols), func(memory []byte, begin, end int) error {
		raw, values := make([]byte, (end-begin)*stored), make([]float32, cols)
		if err := t.file.ReadPart(raw, from[begin*stored:end*stored]); err != nil {
			return err
		}
		for i := begin; i < end; i++ {
			at := (t.coded.sourceRow(i, rows) - begin) * stored
			t.coded.typ.Expand(values, raw[at:at+stored])
			t.coded.putRow(memory[(i-begin)*width:(i-begin+1)*width], typ, values)
		}
		return nil
	})
}

// expandRows makes rows of so many bytes in memory that Release frees: expand writes those of [begin, end), part rows at the most.
func (c *Checkpoint) expandRows(rows, width, part int, expand func(memory []byte, begin, end int) error) ([]byte, error) {
	memory, err := mapMemory(int64(rows) * int64(width))
	if err != nil {
		return nil, err
	}
	c.owned[unsafe.SliceData(memory)] = memory
	err = eachPart(rows, part, func(begin, end int) error { return expand(memory[begin*width:end*width], begin, end) })
	if err != nil {
		c.releaseMemory(memory)
		return nil, err
	}
	return memory, nil
}

// expandPart is about how many elements one goroutine expands at once.
const expandPart = 1 << 20

// partRows is how many rows that is, of whole heads, in which rows change places.
func (c *coded) partRows(rows, cols int) int {
	part := max(1, expandPart/cols)
	if c.heads > 0 {
		dim := rows / c.heads
		part = (part + dim - 1) / dim * dim
	}
	return part
}

// putRow writes a row's elements as typ.
func (c *coded) putRow(row []byte, typ kernels.DType, values []float32) {
	for j := range values {
		values[j] -= c.less
	}
	if typ == kernels.BF16 {
		putBF16(row, values)
		return
	}
	for j, v := range values {
		Put(typ, row, j, v)
	}
}

func putBF16(row []byte, values []float32) {
	for j, v := range values {
		binary.LittleEndian.PutUint16(row[2*j:], toBF16(v))
	}
}

// releaseMemory frees what expandRows made, and says whether data was that.
func (c *Checkpoint) releaseMemory(data []byte) bool {
	memory, ok := c.owned[unsafe.SliceData(data)]
	if ok {
		delete(c.owned, unsafe.SliceData(data))
		_ = unix.Munmap(memory) // which is a mapping: that was checked when it was made
	}
	return ok
}
