package weights

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prefillonly/prefillonly/kernels"
)

var dtypeNames = map[kernels.DType]string{kernels.BF16: "BF16", kernels.F16: "F16", kernels.F32: "F32", kernels.F8E4M3: "F8_E4M3", kernels.I8: "I8"}

// WriteFile writes tensors to a safetensors file, in their order. A tensor of one row is written as
// a vector, and scales as a tensor after their weight.
func WriteFile(path string, tensors []kernels.HostTensor) error {
	var parts []Part
	for _, t := range tensors {
		all := []kernels.HostTensor{t}
		if t.Scale != nil {
			all = append(all, scaleTensor(t))
		}
		for _, t := range all {
			shape := []int{t.Rows, t.Cols}
			if t.Rows == 1 {
				shape = shape[1:]
			}
			parts = append(parts, Part{t.Name, dtypeNames[t.Type], shape, func(w io.Writer) error { _, err := w.Write(t.Data); return err }})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = Write(f, parts)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(err, f.Close())
}

// Part is a tensor that is to be written: its name, its type as the format writes it, such as BF16, and its shape.
type Part struct {
	Name, Type string
	Shape      []int
	Data       func(w io.Writer) error // writes the elements
}

// Bytes is what the elements take.
func (p *Part) Bytes() int64 { return elementBytes[p.Type] * int64(elementCount(p.Shape)) }

// Write writes a safetensors file with tensors in this order, and asks for the data of one after another.
func Write(to io.Writer, tensors []Part) error {
	w := bufio.NewWriterSize(to, 1<<20)
	if err := writeHeader(w, tensors); err != nil {
		return err
	}
	for i := range tensors {
		t := &tensors[i]
		counted := counter{w: w}
		if err := t.Data(&counted); err != nil {
			return err
		}
		if counted.n != t.Bytes() {
			return fmt.Errorf("tensor %q has %d bytes, shape %v of %s needs %d", t.Name, counted.n, t.Shape, t.Type, t.Bytes())
		}
	}
	return w.Flush()
}

// counter counts what it passes on.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func writeHeader(w io.Writer, tensors []Part) error {
	type spec struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	specs := map[string]spec{}
	var at int64
	for i := range tensors {
		t := &tensors[i]
		if _, ok := specs[t.Name]; ok {
			return fmt.Errorf("tensor %q is written twice", t.Name)
		}
		specs[t.Name] = spec{t.Type, t.Shape, [2]int64{at, at + t.Bytes()}}
		at += t.Bytes()
	}
	header, err := json.Marshal(specs)
	if err != nil {
		return err
	}
	for len(header)%8 != 0 { // keeps the data aligned, as the format's own writer does
		header = append(header, ' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	_, err = w.Write(header)
	return err
}
