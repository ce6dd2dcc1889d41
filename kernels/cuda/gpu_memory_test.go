//go:build cuda

package cuda

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// TestGPUFill: a matrix made on the GPU has the host's bits.
func TestGPUFill(t *testing.T) {
	const rows, cols = 1031, 257
	b := openGPU(t).(*Backend)
	source := weights.Random{Seed: 1, Type: kernels.BF16}
	want, err := source.Tensor("lm_head.weight", rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := b.Alloc(int64(len(want.Data)))
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	key, scale := source.Stream(want.Name, cols)
	b.Fill(buf, 0, rows*cols, key, scale)
	got := make([]byte, len(want.Data))
	b.Read(got, buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Data) {
		t.Error("the GPU's matrix is not the host's")
	}
}

// TestGPUStaging: small uploads arrive in order and whole, though the ring they are staged in turns
// round several times and kernels run between them.
func TestGPUStaging(t *testing.T) {
	b := openGPU(t).(*Backend)
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
	b := openGPU(t).(*Backend)
	g := b.device.(*gpu)
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
