package cuda

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// maxBlocks is what plans of sdpa are made for.
var _ = [1]struct{}{}[maxBlocks-cudnn.MaxPages]

// pagedCall is a call with its tables.
type pagedCall struct {
	Paged
	tables []byte // from QOffset on
}

func (r *recorder) Paged(p Paged) {
	var tables []byte
	for at := p.QOffset; ; {
		slice, ok := r.uploaded[at]
		if !ok {
			break
		}
		tables = append(tables, slice...)
		at += Ptr(len(slice))
	}
	r.calls = append(r.calls, pagedCall{p, tables})
}

// int32s and int64s read n numbers of a table.
func (c pagedCall) int32s(at Ptr, n int) []int {
	var v []int
	for i := range n {
		v = append(v, int(int32(binary.LittleEndian.Uint32(c.tables[int(at-c.QOffset)+4*i:]))))
	}
	return v
}

func (c pagedCall) int64s(at Ptr, n int) []int {
	var v []int
	for i := range n {
		v = append(v, int(binary.LittleEndian.Uint64(c.tables[int(at-c.QOffset)+8*i:])))
	}
	return v
}

// TestPagedPacks: short suffixes of one size over a cached prefix are one call, a long segment is its
// own, and the tables say where each one's rows and blocks are.
func TestPagedPacks(t *testing.T) {
	r := &recorder{inPlace: true, covers: true}
	blocks := flashBlocks(t, New(r), 200)
	over := func(own ...kernels.KVBlock) []kernels.KVBlock { return append(slices.Clone(blocks[:10]), own...) }
	attendRecorded(t, r, 7, []kernels.Segment{
		{Rows: 20, Pos: 160, Blocks: over(blocks[12], blocks[11])},
		{Rows: 0, Pos: 160, Blocks: over(blocks[19])},
		{Rows: 5, Pos: 160, Blocks: over(blocks[13], blocks[14])}, // the last block is not reached
		{Rows: 1300, Pos: 0, Blocks: blocks[100:]},
		{Rows: 300, Pos: 4, Blocks: blocks[50:]},
		{Rows: 1, Pos: 0, Blocks: blocks[15:16]},
	})
	if len(r.launches)+len(r.flashes) > 0 || len(r.calls) != 4 {
		t.Fatalf("%d calls, launches %+v, flashes %+v", len(r.calls), r.launches, r.flashes)
	}
	var sizes [][3]int
	for _, c := range r.calls {
		sizes = append(sizes, [3]int{c.Batch, c.MaxRows, c.MaxKeys})
		if c.Window != 7 || c.Heads != flashHeads || c.QStride != flashHeads.QKVCols() || c.OStride != 512 || c.V-c.K != Ptr(2*2*16*64) {
			t.Errorf("call %+v", c.Paged)
		}
		for _, at := range []Ptr{c.QOffset, c.OOffset, c.Rows, c.Keys, c.Table} {
			if at%16 != 0 {
				t.Errorf("a table at %#x, want a multiple of 16", at)
			}
		}
	}
	if want := [][3]int{{8, 256, 8192}, {1, 2048, 8192}, {1, 1024, 8192}, {1, 256, 8192}}; !slices.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
	first := r.calls[0]
	wide := flashHeads.QKVCols()
	if got, want := first.int64s(first.QOffset, 9), []int{0, 20 * wide, 25 * wide, 25 * wide, 25 * wide, 25 * wide, 25 * wide, 25 * wide, 25 * wide}; !slices.Equal(got, want) {
		t.Errorf("queries begin at %v, want %v", got, want)
	}
	if got := first.int64s(first.OOffset, 3); !slices.Equal(got, []int{0, 20 * 512, 25 * 512}) {
		t.Errorf("outputs begin at %v", got)
	}
	if got := first.int32s(first.Rows, 8); !slices.Equal(got, []int{20, 5, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("rows %v", got)
	}
	if got := first.int32s(first.Keys, 8); !slices.Equal(got, []int{180, 165, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("keys %v", got)
	}
	if first.K != blockAddress(blocks[0]) {
		t.Errorf("blocks are counted from %#x, want %#x", first.K, blockAddress(blocks[0]))
	}
	table := first.int32s(first.Table, 2*512)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 11, 0}; !slices.Equal(table[:13], want) {
		t.Errorf("blocks of the first %v, want %v", table[:13], want)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 0}; !slices.Equal(table[512:524], want) {
		t.Errorf("blocks of the second %v, want %v", table[512:524], want)
	}
	if last := r.calls[3]; last.int64s(last.QOffset, 2)[0] != 1625*wide || last.K != blockAddress(blocks[15]) {
		t.Errorf("the last begins at %v, blocks at %#x", last.int64s(last.QOffset, 2), last.K)
	}
}

// TestRuns: a call holds no more than 32 segments, of one size, whose rows follow one another.
func TestRuns(t *testing.T) {
	for _, c := range []struct {
		rows []int
		gap  bool
		want string
	}{
		{nil, false, "[]"},
		{[]int{0, 0}, false, "[]"},
		{[]int{5000}, false, "[1]"},
		{[]int{5000, 5000}, false, "[1 1]"},
		{[]int{10, 256, 257, 1024, 1}, false, "[2 2 1]"},
		{[]int{10, 0, 20}, false, "[2]"},
		{[]int{10, 20}, true, "[1 1]"},
		{slices.Repeat([]int{9}, 70), false, "[32 32 6]"},
	} {
		var segs []kernels.Segment
		row := 0
		for _, n := range c.rows {
			segs = append(segs, kernels.Segment{Row: row, Rows: n})
			if row += n; c.gap {
				row++
			}
		}
		sizes := []int{}
		for _, call := range runs(segs) {
			sizes = append(sizes, len(call))
		}
		if got := fmt.Sprint(sizes); got != c.want {
			t.Errorf("rows %v: calls of %s, want %s", c.rows, got, c.want)
		}
	}
}

// TestPagedBuckets: a bucket holds what it is for, and there are few of them.
func TestPagedBuckets(t *testing.T) {
	rows, keys := map[int]bool{}, map[int]bool{}
	for n := 1; n <= 1<<17; n++ {
		r, k := rowsBucket(n), keysBucket(n)
		if rows[r], keys[k] = true, true; r < n || k < n {
			t.Fatalf("%d rows or keys in a bucket of %d or %d", n, r, k)
		}
	}
	if len(rows) != 9 || len(keys) != 3 || !keys[128<<10] {
		t.Errorf("buckets of rows %v, of keys %v", rows, keys)
	}
	for n := 1; n <= 32; n++ {
		if packBucket(n) < n || n == 1 && packBucket(n) != 1 {
			t.Errorf("%d segments in a call for %d", n, packBucket(n))
		}
	}
}

// TestPagedLeavesOthers: blocks whose size is not a power of two, or too large, and what the device
// does not cover, are gathered.
func TestPagedLeavesOthers(t *testing.T) {
	for _, c := range []struct {
		inPlace     bool
		heads       kernels.Heads
		blockTokens int
		want        bool
	}{
		{true, flashHeads, 16, true},
		{false, flashHeads, 16, false},
		{true, flashHeads, 48, false},
		{true, kernels.Heads{Q: 6, KV: 3, Dim: 64}, 16, false},
		{true, kernels.Heads{Q: 8, KV: 8, Dim: 128}, 512, true},
		{true, kernels.Heads{Q: 8, KV: 8, Dim: 128}, 1024, false},
	} {
		r := &recorder{inPlace: c.inPlace, covers: true}
		b := New(r)
		memory, err := b.Alloc(8 << 20)
		if err != nil {
			t.Fatal(err)
		}
		qkv := kernels.Mat{Buf: memory, Rows: 3, Cols: c.heads.QKVCols(), Stride: c.heads.QKVCols(), Type: kernels.BF16}
		segs := []kernels.Segment{{Rows: 3, Blocks: []kernels.KVBlock{{Buf: memory}}}}
		b.Attention(qkv, qkv, kernels.AttentionSpec{Heads: c.heads}, c.blockTokens, segs)
		if err := b.Sync(); err != nil || (len(r.calls) == 1) != c.want || (len(r.flashes) == 1) == c.want {
			t.Errorf("%+v: %d calls in place, %d gathered, %v", c, len(r.calls), len(r.flashes), err)
		}
	}
}

// TestPagedRefusesStrayBlocks: blocks that no number of blocks separates are an error, not other memory.
func TestPagedRefusesStrayBlocks(t *testing.T) {
	r := &recorder{inPlace: true}
	blocks := flashBlocks(t, New(r), 3)
	blocks[2].Off += 512
	b := New(r)
	mat := kernels.Mat{Buf: blocks[0].Buf, Rows: 33, Cols: flashHeads.QKVCols(), Stride: flashHeads.QKVCols(), Type: kernels.BF16}
	b.Attention(mat, mat, kernels.AttentionSpec{Heads: flashHeads}, 16, []kernels.Segment{{Rows: 33, Blocks: blocks}})
	if err := b.Sync(); err == nil || len(r.calls) != 0 {
		t.Errorf("%d calls, %v", len(r.calls), err)
	}
}

func TestAlignment(t *testing.T) {
	for bytes, want := range map[int64]int64{0: 256, 256: 256, 257: 512, 8 << 10: 8 << 10, 1<<20 + 1: 2 << 20, 1 << 40: 2 << 20} {
		if got := Alignment(bytes); got != want {
			t.Errorf("memory of %d bytes is aligned to %d, want %d", bytes, got, want)
		}
	}
}
