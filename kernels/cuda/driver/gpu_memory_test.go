//go:build cuda

package driver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// TestGPUFill: matrices made on the GPU have the host's bits.
func TestGPUFill(t *testing.T) {
	const rows, cols = 1031, 257
	for _, typ := range []kernels.DType{kernels.BF16, kernels.F8E4M3, kernels.I8} {
		t.Run(typ.String(), func(t *testing.T) {
			b := openGPU(t).(*cuda.Backend)
			source := weights.Random{Seed: 1, Type: typ}
			want, err := source.Tensor("model.layers.0.mlp.up_proj.weight", rows, cols)
			if err != nil {
				t.Fatal(err)
			}
			matrix, err := b.Alloc(int64(len(want.Data)))
			if err != nil {
				t.Fatal(err)
			}
			defer matrix.Free()
			read := func(buf kernels.Buffer) []byte {
				raw := make([]byte, buf.Bytes())
				b.Read(raw, buf, 0)
				if err := b.Sync(); err != nil {
					t.Fatal(err)
				}
				return raw
			}
			key, scale := source.Stream(want.Name, cols)
			if !typ.Scaled() {
				b.Fill(matrix, 0, rows*cols, key, scale)
				if !bytes.Equal(read(matrix), want.Data) {
					t.Error("the GPU's matrix is not the host's")
				}
				return
			}
			rowScales, err := b.Alloc(4 * rows)
			if err != nil {
				t.Fatal(err)
			}
			defer rowScales.Free()
			b.FillCodes(cuda.Codes{Type: typ, Codes: matrix, Scales: rowScales, Rows: rows, Cols: cols, Stride: cols}, key, scale)
			if !bytes.Equal(read(matrix), want.Data) {
				t.Error("the GPU's matrix is not the host's")
			}
			scales := read(rowScales)
			for i, v := range want.Scale {
				if got := math.Float32frombits(binary.LittleEndian.Uint32(scales[4*i:])); got != v {
					t.Fatalf("row %d has the scale %v, the host's %v", i, got, v)
				}
			}
		})
	}
}

// TestGPUStaging: small uploads arrive in order and whole, though the ring they are staged in turns
// round several times and kernels run between them.
func TestGPUStaging(t *testing.T) {
	b := openGPU(t).(*cuda.Backend)
	const size, count = 48 << 10, 4 * stagingBytes / (48 << 10)
	buf, err := b.Alloc(size * count)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	piece := make([]byte, size)
	want := make([]byte, 0, size*count)
	for i := range count {
		b.Fill(buf, int64(i)*size/2, size/2, uint64(i), 1)
		for at := 0; at < size; at += 4 {
			binary.LittleEndian.PutUint32(piece[at:], uint32(i*size+at))
		}
		b.Write(buf, int64(i)*size, piece)
		want = append(want, piece...)
	}
	got := make([]byte, len(want))
	b.Read(got, buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("uploads were lost or out of order")
	}
}

// TestGPULaps: ten times the work takes about ten times as long by the device's clock.
func TestGPULaps(t *testing.T) {
	device := openDevice(t)
	g, b := device.(*gpu), backend(t, device)
	const count = 64 << 20
	buf, err := b.Alloc(2 * count)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	fill := func(times int) {
		for range times {
			b.Fill(buf, 0, count, 1, 1)
		}
		g.Mark()
	}
	fill(1)
	g.Mark()
	fill(2)
	fill(20)
	laps, err := g.Laps()
	if err != nil {
		t.Fatal(err)
	}
	if len(laps) != 3 || laps[1] <= 0 {
		t.Fatalf("laps %v", laps)
	}
	if ratio := laps[2].Seconds() / laps[1].Seconds(); ratio < 7 || ratio > 13 {
		t.Errorf("twenty fills take %.1f times as long as two: %v", ratio, laps)
	}
}

// TestGPUCopyFails: a device that is lost while a copy is enqueued is known to be; what else is wrong with a
// copy costs its pass alone. The driver answers what the environment says.
func TestGPUCopyFails(t *testing.T) {
	status, err := strconv.Atoi(os.Getenv("FAKE_COPY"))
	if err != nil {
		t.Skip("this driver does not fail at will")
	}
	b := openGPU(t).(*cuda.Backend)
	device, err := b.Alloc(1024)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Free()
	host, err := b.AllocHost(1024)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Free()
	b.Save(kernels.HostCopy{Device: device, Host: host, Bytes: 1024, Stride: 1024, Count: 1})
	err = b.Sync()
	if err == nil || !strings.Contains(err.Error(), "CUDA error "+strconv.Itoa(status)) {
		t.Errorf("a copy failed with status %d: %v", status, err)
	}
	_, lost := lostCodes[status]
	var gone *cuda.LostError
	if got := errors.As(err, &gone); got != lost {
		t.Errorf("after status %d the device is taken to be lost: %v, want %v", status, got, lost)
	}
}
