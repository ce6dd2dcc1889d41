package cuda

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// recorder is a Device that computes nothing and writes down what it is asked for.
type recorder struct {
	HostCopies // nil: none are asked for
	next       Ptr
	covers     bool
	inPlace    bool
	library    *cudnn.Convolutions
	launches   []launch
	flashes    []Flash
	calls      []pagedCall
	uploaded   map[Ptr][]byte
}

type launch struct {
	kernel string
	grid   [2]int
	args   []uint64
}

func (r *recorder) Convolutions() *cudnn.Convolutions { return r.library }

func (r *recorder) Name() string                         { return "recorder" }
func (r *recorder) Close()                               {}
func (r *recorder) Memory() (free, total int64, e error) { return 1 << 30, 1 << 30, nil }
func (r *recorder) Free(Ptr)                             {}
func (r *recorder) Download([]byte, Ptr)                 {}
func (r *recorder) Copy(Ptr, Ptr, int64)                 {}
func (r *recorder) FP8() FP8                             { return NoFP8 }
func (r *recorder) Int8(int, int) error                  { return nil }
func (r *recorder) Gemm(Gemm)                            {}
func (r *recorder) Covers(Flash) bool                    { return r.covers }
func (r *recorder) Flash(f Flash)                        { r.flashes = append(r.flashes, f) }
func (r *recorder) CoversPaged(Paged) bool               { return r.inPlace }
func (r *recorder) Sync() error                          { return nil }

func (r *recorder) Upload(p Ptr, b []byte) {
	if r.uploaded == nil {
		r.uploaded = map[Ptr][]byte{}
	}
	r.uploaded[p] = b
}

func (r *recorder) UploadPinned(p Ptr, b []byte) (done func()) {
	r.Upload(p, b)
	return func() {}
}

func (r *recorder) Alloc(bytes int64) (Ptr, error) {
	p := r.next + 1<<20
	r.next = p + Ptr(bytes)
	return p, nil
}

func (r *recorder) Launch(kernel string, grid [2]int, _ int, args ...uint64) {
	r.launches = append(r.launches, launch{kernel, grid, args})
}

// blocks of a recorder: 16 tokens of 2 heads of 64.
var flashHeads = kernels.Heads{Q: 8, KV: 2, Dim: 64}

func flashBlocks(t *testing.T, b *Backend, n int) []kernels.KVBlock {
	t.Helper()
	size := b.KVBlockBytes(flashHeads, 16)
	buf, err := b.Alloc(size * int64(n))
	if err != nil {
		t.Fatal(err)
	}
	blocks := make([]kernels.KVBlock, n)
	for i := range blocks {
		blocks[i] = kernels.KVBlock{Buf: buf, Off: size * int64(i)}
	}
	return blocks
}

// attendRecorded runs Attention of the segments, whose rows lie one after another.
func attendRecorded(t *testing.T, r *recorder, window int, segs []kernels.Segment, without ...Candidate) {
	t.Helper()
	b := New(r, without...)
	rows := 0
	for i := range segs {
		segs[i].Row = rows
		rows += segs[i].Rows
	}
	memory, err := b.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	qkv := kernels.Mat{Buf: memory, Rows: rows, Cols: flashHeads.QKVCols(), Stride: flashHeads.QKVCols(), Type: kernels.BF16}
	dst := kernels.Mat{Buf: memory, Rows: rows, Cols: 512, Stride: 512, Type: kernels.BF16}
	b.Attention(dst, qkv, kernels.AttentionSpec{Heads: flashHeads, Scale: 0.125, Window: window}, 16, segs)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
}

// TestFlashGathersOnce: packed segments over one cached prefix copy its blocks once, and then only
// what differs.
func TestFlashGathersOnce(t *testing.T) {
	r := &recorder{covers: true}
	blocks := flashBlocks(t, New(r), 20)
	prefix := blocks[:10]
	over := func(own ...kernels.KVBlock) []kernels.KVBlock { return append(slices.Clone(prefix), own...) }
	attendRecorded(t, r, 0, []kernels.Segment{
		{Rows: 20, Pos: 160, Blocks: over(blocks[10], blocks[11])},
		{Rows: 0, Pos: 160, Blocks: over(blocks[19])},
		{Rows: 5, Pos: 160, Blocks: over(blocks[12], blocks[13])}, // the last block is not reached
		{Rows: 1, Pos: 0, Blocks: blocks[14:15]},
		{Rows: 1, Pos: 0, Blocks: blocks[14:15]},
	})
	var copied [][2]int // from, count
	for _, l := range r.launches {
		if l.kernel != "pf_gather_kv" || l.grid[1] != 2*flashHeads.KV || l.args[3] != 12*16 {
			t.Errorf("launched %+v", l)
		}
		copied = append(copied, [2]int{int(l.args[2]), l.grid[0]})
	}
	if want := [][2]int{{0, 12}, {10, 1}, {0, 1}}; !slices.Equal(copied, want) {
		t.Errorf("copied from and count %v, want %v", copied, want)
	}
	var shapes [][2]int // rows, keys
	for i, f := range r.flashes {
		shapes = append(shapes, [2]int{f.Rows, f.Keys})
		if f.V != f.K+Ptr(2*2*12*16*64) || f.HeadStride != 12*16*64 || f.KeyStride != 64 {
			t.Errorf("segment %d: keys %#x, values %#x, strides %d and %d", i, f.K, f.V, f.KeyStride, f.HeadStride)
		}
		if i > 0 && f.Q-r.flashes[0].Q != Ptr(2*flashHeads.QKVCols()*[]int{0, 20, 25, 26}[i]) {
			t.Errorf("segment %d reads queries at %#x", i, f.Q)
		}
	}
	if want := [][2]int{{20, 180}, {5, 165}, {1, 1}, {1, 1}}; !slices.Equal(shapes, want) {
		t.Errorf("rows and keys %v, want %v", shapes, want)
	}
}

// TestFlashLeavesOthers: windows, and what the device does not cover, go to the general kernel.
func TestFlashLeavesOthers(t *testing.T) {
	for _, c := range []struct {
		covers bool
		window int
		want   string
	}{{true, 0, "pf_gather_kv"}, {true, 4096, "pf_attention"}, {false, 0, "pf_attention"}} {
		r := &recorder{covers: c.covers}
		attendRecorded(t, r, c.window, []kernels.Segment{{Rows: 3, Pos: 4, Blocks: flashBlocks(t, New(r), 1)}})
		if len(r.launches) != 1 || r.launches[0].kernel != c.want {
			t.Errorf("covers %v, window %d: launched %+v, want %s", c.covers, c.window, r.launches, c.want)
		}
	}
}

// TestCandidatesDisabled: a candidate that a backend does without gives way to the next, and at last to kernels of our own.
func TestCandidatesDisabled(t *testing.T) {
	for _, c := range []struct {
		without []Candidate
		want    string // the kernel that is launched; none: attention in place
	}{{nil, ""}, {[]Candidate{PagedAttention}, "pf_gather_kv"}, {[]Candidate{FlashAttention}, ""}, {[]Candidate{PagedAttention, FlashAttention}, "pf_attention"}} {
		r := &recorder{covers: true, inPlace: true}
		attendRecorded(t, r, 0, []kernels.Segment{{Rows: 3, Pos: 4, Blocks: flashBlocks(t, New(r), 1)}}, c.without...)
		got := ""
		if len(r.launches) == 1 {
			got = r.launches[0].kernel
		}
		if got != c.want || (len(r.calls) == 1) != (c.want == "") {
			t.Errorf("without %v: launched %+v and %d calls in place, want %q", c.without, r.launches, len(r.calls), c.want)
		}
	}
	library := cudnn.NewConvolutions(cudnn.ConvolutionOptions{})
	if New(&recorder{library: library}).convolutions() != library || New(&recorder{library: library}, LibraryConvolutions).convolutions() != nil {
		t.Error("the library for convolutions is asked where it is disabled, or not where it is not")
	}
}
