package weights

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/prefillonly/prefillonly/kernels"
)

var dtypeNames = map[kernels.DType]string{kernels.BF16: "BF16", kernels.F16: "F16", kernels.F32: "F32", kernels.F8E4M3: "F8_E4M3"}

// WriteFile writes tensors to a safetensors file, in their order. A tensor of one row is written as
// a vector, and scales as a tensor after their weight.
func WriteFile(path string, tensors []kernels.HostTensor) error {
	var all []kernels.HostTensor
	for _, t := range tensors {
		if all = append(all, t); t.Scale != nil {
			all = append(all, scaleTensor(t))
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w, all); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func write(w io.Writer, tensors []kernels.HostTensor) error {
	type spec struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	specs := map[string]spec{}
	var at int64
	for _, t := range tensors {
		shape := []int{t.Rows, t.Cols}
		if t.Rows == 1 {
			shape = shape[1:]
		}
		if want := int64(t.Rows) * int64(t.Cols) * t.Type.Size(); int64(len(t.Data)) != want {
			return fmt.Errorf("tensor %q has %d bytes, shape %v of %s needs %d", t.Name, len(t.Data), shape, t.Type, want)
		}
		if _, ok := specs[t.Name]; ok {
			return fmt.Errorf("tensor %q is given twice", t.Name)
		}
		specs[t.Name] = spec{dtypeNames[t.Type], shape, [2]int64{at, at + int64(len(t.Data))}}
		at += int64(len(t.Data))
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
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return err
		}
	}
	return nil
}
