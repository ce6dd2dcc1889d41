package weights

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// Format pack-quantized keeps int8 codes four to an I32 word, each 128 more than it is, which in a little-endian
// file is the codes' own bytes with the highest bit turned over. Rows are filled up to whole words with anything. The
// names of the words and of the shape follow that of the weight.
const (
	packedSuffix = "_packed"
	shapeSuffix  = "_shape"
	perWord      = 4
	flipped      = 0x80
)

// packedFile gives the codes of packed tensors as they are read, so that there is no other copy of them.
type packedFile struct{ *file }

// ReadPart implements kernels.File.
func (f packedFile) ReadPart(dst, part []byte) error {
	if err := f.file.ReadPart(dst, part); err != nil {
		return err
	}
	for i := range dst[:len(part)] {
		dst[i] ^= flipped
	}
	return nil
}

// wordsOf is how many words a row of so many codes takes.
func wordsOf(cols int) int { return (cols + perWord - 1) / perWord }

// unpadMatrix is a packed matrix whose rows were filled up: its codes, in memory of their own.
func (c *Checkpoint) unpadMatrix(t located, rows, cols int) ([]byte, error) {
	from, padded := packedFile{t.file}, perWord*wordsOf(cols)
	all := make([]byte, t.end-t.begin)
	if err := from.ReadPart(all, t.file.tensorData(t.entry)); err != nil {
		return nil, err
	}
	for i := range rows {
		copy(all[i*cols:], all[i*padded:i*padded+cols])
	}
	return all[:rows*cols], nil
}

// storedTensor is the tensor in which the named one is, and whether it is packed.
func (c *Checkpoint) storedTensor(name string) (t located, packed, ok bool) {
	if t, ok = c.tensors[name]; ok {
		return t, false, true
	}
	t, ok = c.tensors[name+packedSuffix]
	return t, ok, ok
}

// findPacked checks the words of a packed matrix, and the shape beside them.
func (c *Checkpoint) findPacked(name string, shape []int) error {
	words := c.tensors[name+packedSuffix]
	if words.dtype != "I32" {
		return fmt.Errorf("%s: tensor %q is %s, want I32", words.file.Path, name+packedSuffix, words.dtype)
	}
	if len(shape) != 2 {
		return fmt.Errorf("%s: tensor %q packs shape %v, want a matrix", words.file.Path, name+packedSuffix, shape)
	}
	if want := []int{shape[0], wordsOf(shape[1])}; !slices.Equal(words.shape, want) {
		return fmt.Errorf("%s: tensor %q has shape %v, want %v: %v in 8 bits, by config.json", words.file.Path, name+packedSuffix, words.shape, want, shape)
	}
	c.taken[name+packedSuffix] = true
	return c.findShape(name+shapeSuffix, shape)
}

// findShape checks that the named tensor says that a packed matrix has this shape.
func (c *Checkpoint) findShape(name string, shape []int) error {
	t, ok := c.tensors[name]
	if !ok {
		return fmt.Errorf("checkpoint %s: missing tensor %q, the shape of a packed weight", c.dir, name)
	}
	if t.dtype != "I64" || !slices.Equal(t.shape, []int{2}) {
		return fmt.Errorf("%s: tensor %q is %s %v, want I64 [2]", t.file.Path, name, t.dtype, t.shape)
	}
	raw, err := c.readOpened(t)
	if err != nil {
		return err
	}
	got := []int{int(binary.LittleEndian.Uint64(raw)), int(binary.LittleEndian.Uint64(raw[8:]))}
	if !slices.Equal(got, shape) {
		return fmt.Errorf("%s: tensor %q is %v, want %v by config.json", t.file.Path, name, got, shape)
	}
	c.taken[name] = true
	return nil
}

// readOpened reads a small tensor from its file, which need not be in use.
func (c *Checkpoint) readOpened(t located) ([]byte, error) {
	opened, err := t.file.OpenAgain()
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	raw := make([]byte, t.end-t.begin)
	if _, err := opened.ReadAt(raw, t.file.body+t.begin); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", t.file.Path, t.name, err)
	}
	return raw, nil
}

// findStored is Find for what is stored, packed or as it is.
func (c *Checkpoint) findStored(t located, packed bool, name string, shape []int) (kernels.DType, error) {
	if packed {
		return kernels.I8, c.findPacked(name, shape)
	}
	if !slices.Equal(t.shape, shape) {
		return 0, fmt.Errorf("%s: tensor %q has shape %v, want %v by config.json", t.file.Path, name, t.shape, shape)
	}
	typ, ok := t.computed()
	if !ok {
		return 0, fmt.Errorf("%s: unsupported type %[3]s of tensor %[2]q: want BF16, F16, F32, or F8_E4M3 or I8 in linear layers", t.file.Path, name, t.dtype)
	}
	c.taken[name] = true
	return typ, nil
}
