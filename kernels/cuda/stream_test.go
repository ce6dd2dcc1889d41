package cuda_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// file is a tensor's file that may fail after some parts.
type file struct {
	parts atomic.Int32
	fail  int32 // number of the part that cannot be read; 0 is none
}

func (f *file) ReadPart(dst, part []byte) error {
	if n := f.parts.Add(1); f.fail > 0 && n >= f.fail {
		return fmt.Errorf("part %d: %w", n, errCut)
	}
	copy(dst, part)
	return nil
}

var errCut = errors.New("cut short")

func streamed(t *testing.T, typ kernels.DType, rows, cols int, f *file) (kernels.HostTensor, []byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(rows)))
	var data, want []byte
	for range rows * cols {
		v := math.Float32bits(r.Float32()) &^ 0xffff // a bfloat16
		want = binary.LittleEndian.AppendUint16(want, uint16(v>>16))
		if typ == kernels.F32 {
			data = binary.LittleEndian.AppendUint32(data, v)
		}
	}
	if typ == kernels.BF16 {
		data = bytes.Clone(want)
	}
	return kernels.HostTensor{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: data, File: f}, want
}

// TestStream: tensors of any number of pieces arrive whole, one behind the other, although the device
// copies as late as it may and their memory is used again; reused without waiting it would be seen.
func TestStream(t *testing.T) {
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F32} {
		b := cuda.New(simt.New())
		defer b.Close()
		var tables []kernels.Table
		var wants [][]byte
		for _, rows := range []int{1, 1024, 1025, 7000} { // of 4096 columns: up to 7 pieces
			tensor, want := streamed(t, typ, rows, 4096, &file{})
			table, err := b.NewTable(tensor)
			if err != nil {
				t.Fatal(err)
			}
			clear(tensor.Data) // it has been read
			tables, wants = append(tables, table), append(wants, want)
		}
		if err := b.Sync(); err != nil {
			t.Fatal(err)
		}
		for i, table := range tables {
			got := make([]byte, len(wants[i]))
			b.Read(got, cuda.TableBuffer(table), 0)
			if !bytes.Equal(got, wants[i]) {
				t.Errorf("%v: table %d arrived changed", typ, i)
			}
			table.Free()
		}
	}
}

// TestStreamFails: a part that cannot be read fails the tensor, and what comes after it loads.
func TestStreamFails(t *testing.T) {
	b := cuda.New(simt.New())
	defer b.Close()
	for fail := range int32(8) {
		tensor, want := streamed(t, kernels.BF16, 7000, 4096, &file{fail: fail})
		table, err := b.NewTable(tensor)
		if fail == 0 {
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			b.Read(got, cuda.TableBuffer(table), 0)
			if !bytes.Equal(got, want) {
				t.Error("a whole tensor arrived changed")
			}
			table.Free()
		} else if !errors.Is(err, errCut) {
			t.Errorf("part %d fails: %v", fail, err)
		}
	}
	if free, total, err := b.Memory(); err != nil || free != total {
		t.Errorf("%d of %d bytes are free after all: %v", free, total, err)
	}
}
