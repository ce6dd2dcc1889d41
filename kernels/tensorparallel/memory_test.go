package tensorparallel_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// twin is a buffer on a reference backend alone and on ranks of it.
type twin struct {
	alone, ranks kernels.Backend
	a, r         kernels.Buffer
	bytes        int64
}

func newTwin(t *testing.T, alone, ranks kernels.Backend, bytes int64) *twin {
	t.Helper()
	a, err := alone.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ranks.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &twin{alone, ranks, a, r, bytes}
}

func (w *twin) write(off int64, data []byte) {
	w.alone.Write(w.a, off, data)
	w.ranks.Write(w.r, off, data)
}

// compare reads a random range from both.
func (w *twin) compare(t *testing.T, random *rand.Rand, step int) {
	t.Helper()
	from := random.Int64N(w.bytes)
	got := make([]byte, 1+random.Int64N(w.bytes-from))
	want := make([]byte, len(got))
	w.alone.Read(want, w.a, from)
	w.ranks.Read(got, w.r, from)
	for _, b := range []kernels.Backend{w.alone, w.ranks} {
		if err := b.Sync(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("step %d: bytes %d to %d differ from those of one device", step, from, from+int64(len(got)))
	}
}

// linears are matrices of equal width that are cut in different ways, alone and on ranks.
type linears struct{ alone, ranks kernels.Linear }

const (
	memoryRows, memoryStride = 12, 40
	memoryIn, memoryOut      = 8, 20
)

func newLinears(t *testing.T, random *rand.Rand, alone, ranks kernels.Backend) []linears {
	t.Helper()
	var all []linears
	for _, widths := range [][]int{{20}, {7, 5, 8}, {1, 19}, {10, 10}} {
		var parts []kernels.HostTensor
		for _, n := range widths {
			data := make([]byte, 4*n*memoryIn)
			for i := range data {
				data[i] = byte(random.IntN(64)) // small numbers
			}
			parts = append(parts, kernels.HostTensor{Name: "part", Rows: n, Cols: memoryIn, Data: data})
		}
		a, err := alone.NewLinear(parts, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ranks.NewLinear(parts, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, linears{a, r})
	}
	return all
}

// TestMemoryOfRanks writes from the host and computes into overlapping rows of one buffer, in random
// order: whoever reads it finds what one device has, wherever the ranks keep it. An output has one
// order of its sum on any number of ranks, so the bits are equal.
func TestMemoryOfRanks(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 5))
		alone, several := ref.New(), ranks(3, openRef)(t)
		w, x := newTwin(t, alone, several, 4*memoryRows*memoryStride), newTwin(t, alone, several, 4*memoryRows*memoryIn)
		x.write(0, bytes.Repeat([]byte{1, 2, 3, 60}, memoryRows*memoryIn))
		all := newLinears(t, random, alone, several)
		weights := kernels.HostTensor{Name: "ones", Rows: 1, Cols: memoryIn, Data: bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, memoryIn)}
		normAlone, err := alone.NewVector(weights)
		if err != nil {
			t.Fatal(err)
		}
		norm, err := several.NewVector(weights)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 40 {
			if random.IntN(3) == 0 {
				from := random.Int64N(w.bytes)
				data := make([]byte, 1+random.Int64N(w.bytes-from))
				for i := range data {
					data[i] = byte(random.Uint32())
				}
				w.write(from, data)
			} else {
				l := all[random.IntN(len(all))]
				first := random.IntN(memoryRows)
				dst := kernels.Mat{Off: 4 * int64(first) * memoryStride, Rows: 1 + random.IntN(memoryRows-first), Cols: memoryOut, Stride: memoryStride}
				in := kernels.Mat{Rows: dst.Rows, Cols: memoryIn, Stride: memoryIn}
				dst.Buf, in.Buf = w.a, x.a
				alone.NormLinear(dst, in, kernels.Norm{Weight: normAlone, Eps: 1e-5}, l.alone)
				dst.Buf, in.Buf = w.r, x.r
				several.NormLinear(dst, in, kernels.Norm{Weight: norm, Eps: 1e-5}, l.ranks)
			}
			w.compare(t, random, step)
		}
	}
}
