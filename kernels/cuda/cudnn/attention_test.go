package cudnn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
)

// openFake builds the fake library and opens it.
func openFake(t *testing.T) *Library {
	t.Helper()
	return opened(t, cudatest.BuildCudnn(t))
}

func opened(t *testing.T, library string) *Library {
	t.Helper()
	l, err := Open(Options{Library: library})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func bfloat16(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) }

func widen(b uint16) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }

func normals(random *rand.Rand, n int) []uint16 {
	v := make([]uint16, n)
	for i := range v {
		v[i] = bfloat16(float32(random.NormFloat64()))
	}
	return v
}

// sequence is one of a call: its rows begin at row at of the matrices.
type sequence struct{ at, rows, keys int }

// problem is a call in host memory, which the fake computes on.
type problem struct {
	shape  AttentionShape
	bucket AttentionBucket
	seqs   []sequence
	q, kv  []uint16
	table  []int32
}

func newProblem(s AttentionShape, b AttentionBucket, seqs []sequence) problem {
	random := rand.New(rand.NewPCG(1, uint64(s.Window)))
	last := seqs[len(seqs)-1]
	p := problem{shape: s, bucket: b, seqs: seqs, q: normals(random, (last.at+last.rows)*s.QStride)}
	wide := b.Keys / s.PageTokens
	pages := random.Perm(b.Batch*wide + 3)
	p.table = make([]int32, b.Batch*wide)
	for i := range p.table {
		p.table[i] = int32(pages[i])
	}
	p.kv = normals(random, len(pages)*2*s.KVHeads*s.PageTokens*s.Dim)
	return p
}

// run computes with the library; rows that belong to no sequence stay 0x7fff.
func (p problem) run(t *testing.T, a *Attention, scale float32) []uint16 {
	t.Helper()
	plan, err := a.Plan(p.bucket)
	if err != nil {
		t.Fatal(err)
	}
	s := p.shape
	o := make([]uint16, len(p.q)/s.QStride*s.OStride)
	for i := range o {
		o[i] = 0x7fff
	}
	rows, keys := make([]int32, p.bucket.Batch), make([]int32, p.bucket.Batch)
	qOffset, oOffset := make([]int64, p.bucket.Batch+1), make([]int64, p.bucket.Batch+1)
	for i := range qOffset {
		at := len(p.q) / s.QStride
		if i < len(p.seqs) {
			at = p.seqs[i].at
			rows[i], keys[i] = int32(p.seqs[i].rows), int32(p.seqs[i].keys)
		}
		qOffset[i], oOffset[i] = int64(at*s.QStride), int64(at*s.OStride)
	}
	workspace := make([]byte, plan.Workspace())
	var pinned runtime.Pinner
	defer pinned.Unpin()
	at := func(p unsafe.Pointer) uint64 { pinned.Pin(p); return uint64(uintptr(p)) }
	err = plan.Run(AttentionCall{
		Q: at(unsafe.Pointer(&p.q[0])), K: at(unsafe.Pointer(&p.kv[0])), V: at(unsafe.Pointer(&p.kv[s.KVHeads*s.PageTokens*s.Dim])), O: at(unsafe.Pointer(&o[0])),
		Rows: at(unsafe.Pointer(&rows[0])), Keys: at(unsafe.Pointer(&keys[0])), Table: at(unsafe.Pointer(&p.table[0])),
		QOffset: at(unsafe.Pointer(&qOffset[0])), OOffset: at(unsafe.Pointer(&oOffset[0])), Workspace: at(unsafe.Pointer(&workspace[0])), Scale: scale,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// want is a query's output by the definition.
func (p problem) want(seq, row, head, d int, scale float64) float64 {
	s, q := p.shape, p.seqs[seq]
	group := head / (s.QHeads / s.KVHeads)
	position := q.keys - q.rows + row
	sum, out := 0.0, 0.0
	for key := range position + 1 {
		if s.Window > 0 && key <= position-s.Window {
			continue
		}
		page := int(p.table[seq*p.bucket.Keys/s.PageTokens+key/s.PageTokens])
		at := func(plane int) []uint16 {
			return p.kv[((page*2*s.KVHeads+plane*s.KVHeads+group)*s.PageTokens+key%s.PageTokens)*s.Dim:]
		}
		score := 0.0
		for i := range s.Dim {
			score += widen(p.q[(q.at+row)*s.QStride+head*s.Dim+i]) * widen(at(0)[i])
		}
		weight := math.Exp(score * scale)
		sum, out = sum+weight, out+weight*widen(at(1)[d])
	}
	return out / sum
}

// TestAttention holds the graph that we describe to cuDNN, as the fake understands it, against the
// definition: heads that share keys, sequences packed into one call over scattered pages, a window.
// Old versions get another graph.
func TestAttention(t *testing.T) {
	for _, version := range []string{"91900", "92100"} {
		t.Setenv("FAKE_CUDNN_VERSION", version)
		testAttention(t, AttentionShape{QHeads: 4, KVHeads: 2, Dim: 16, QStride: 8 * 16, OStride: 4 * 16, PageTokens: 16})
		testAttention(t, AttentionShape{QHeads: 3, KVHeads: 3, Dim: 8, QStride: 9*8 + 8, OStride: 32, PageTokens: 32, Window: 5})
	}
}

func testAttention(t *testing.T, s AttentionShape) {
	t.Helper()
	p := newProblem(s, AttentionBucket{Batch: 4, Rows: 16, Keys: 96}, []sequence{{0, 5, 5}, {5, 1, 70}, {6, 16, 96}})
	l := openFake(t)
	a, err := NewAttention(l, AttentionOptions{}, s, p.bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got := p.run(t, a, 0.25)
	for i, q := range p.seqs {
		for row := range q.rows {
			for at := range s.QHeads * s.Dim {
				g, w := widen(got[(q.at+row)*s.OStride+at]), p.want(i, row, at/s.Dim, at%s.Dim, 0.25)
				if math.Abs(g-w) > 0.01*math.Abs(w)+0.001 {
					t.Fatalf("%+v: sequence %d, row %d, element %d is %v, want %v", s, i, row, at, g, w)
				}
			}
		}
	}
}

var anyShape = AttentionShape{QHeads: 4, KVHeads: 2, Dim: 16, QStride: 8 * 16, OStride: 4 * 16, PageTokens: 16}

// TestRefusals: an engine that splits sums, a bucket that cuDNN refuses, and one that gets another
// kernel give errors that say so, and the plans that were made stay.
func TestAttentionRefusals(t *testing.T) {
	l := openFake(t)
	t.Setenv("FAKE_CUDNN_STREAM_K", "1")
	if _, err := NewAttention(l, AttentionOptions{}, anyShape, AttentionBucket{1, 64, 128}); err == nil || !strings.Contains(err.Error(), "bits") {
		t.Errorf("with stream-k: %v", err)
	}
	t.Setenv("FAKE_CUDNN_STREAM_K", "")
	t.Setenv("FAKE_CUDNN_REFUSE", "64")
	if _, err := NewAttention(l, AttentionOptions{}, anyShape, AttentionBucket{1, 64, 128}); err == nil || !strings.Contains(err.Error(), "FAKE_NOT_SUPPORTED") || !strings.Contains(err.Error(), "the fake's reason") {
		t.Errorf("refused: %v", err)
	}
	t.Setenv("FAKE_CUDNN_REFUSE", "")
	a, err := NewAttention(l, AttentionOptions{}, anyShape, AttentionBucket{1, 64, 128})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	t.Setenv("FAKE_CUDNN_CODE", "32")
	if _, err := a.Plan(AttentionBucket{1, 32, 128}); err == nil || !strings.Contains(err.Error(), "another kernel") {
		t.Errorf("with other code: %v", err)
	}
	if _, err := a.Plan(AttentionBucket{1, 16, 128}); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	if k := a.Kernel(); k != "fake_kernel (engine 9 40=3 38=0)" {
		t.Errorf("kernel %q", k)
	}
}

// TestStore: plans are compiled once for a device and version, restored afterwards, and compiled
// again where a file is truncated, changed, or another's.
func TestStoreOfPlans(t *testing.T) {
	dir, log := filepath.Join(t.TempDir(), "plans"), filepath.Join(t.TempDir(), "log")
	t.Setenv("FAKE_CUDNN_LOG", log)
	library, o := cudatest.BuildCudnn(t), AttentionOptions{Dir: dir, Device: "GPU A"}
	b := AttentionBucket{1, 64, 128}
	// made says whether opening anew compiles or restores the plan.
	made := func(o AttentionOptions) string {
		t.Helper()
		_ = os.Remove(log)
		a, err := NewAttention(opened(t, library), o, anyShape, b)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if p, err := a.Plan(b); err != nil || p.Workspace() != 512 {
			t.Errorf("a plan with workspace, %v", err)
		}
		content, _ := os.ReadFile(log)
		return strings.TrimSpace(string(content))
	}
	if first, second := made(o), made(o); first != "compiled" || second != "restored" {
		t.Fatalf("at first %q, then %q", first, second)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "truncated": whole[:len(whole)-1], "no plan": whole[:len(whole)-300], "a bit changed": flipped(whole, len(whole)-20),
		"foreign": bytes.Replace(whole, []byte("GPU A"), []byte("GPU B"), 1),
		// Whole, but nothing that cuDNN takes.
		"not a plan": EncodePlan([]byte(`{"program":1,2,3}`), fmt.Sprintf("cuDNN 9.28.0 on GPU A: %+v %+v engine 9 40=3 38=0", anyShape, b)),
	} {
		if err := os.WriteFile(files[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := made(o); !strings.HasSuffix(got, "compiled") {
			t.Errorf("%s: %q, want it compiled again", name, got)
		}
		if got := made(o); got != "restored" {
			t.Errorf("after %s: %q, want it repaired", name, got)
		}
	}
	other := o
	other.Device = "GPU B"
	if got := made(other); got != "compiled" {
		t.Errorf("on another device: %q", got)
	}
	t.Setenv("FAKE_CUDNN_VERSION", "92900")
	if got := made(o); got != "compiled" {
		t.Errorf("of another version: %q", got)
	}
	var notes []string
	other.Dir, other.Note = "/dev/null/plans", func(s string) { notes = append(notes, s) }
	if got := made(other); got != "compiled" || len(notes) != 1 || !strings.Contains(notes[0], "/dev/null") {
		t.Errorf("where nothing can be kept: %q, notes %q", got, notes)
	}
}

func flipped(b []byte, at int) []byte {
	c := bytes.Clone(b)
	c[at] ^= 1
	return c
}
