//go:build cgo && linux && amd64

package cpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

func newBackend(t testing.TB) *cpu.Backend {
	b, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// upload makes a float32 matrix.
func upload(t testing.TB, b *cpu.Backend, rows, cols int, values []float32) kernels.Mat {
	raw, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := b.Alloc(int64(rows*cols) * 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(buf.Free)
	b.Write(buf, 0, raw)
	return kernels.Mat{Buf: buf, Rows: rows, Cols: cols, Stride: cols, Type: kernels.F32}
}

func download(t testing.TB, b *cpu.Backend, m kernels.Mat) []float32 {
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, m.Buf.Bytes())
	b.Read(raw, m.Buf, 0)
	values := make([]float32, len(raw)/4)
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestNewRefuses(t *testing.T) {
	if _, err := cpu.New(cpu.Config{ISA: "sse9"}); err == nil || !strings.Contains(err.Error(), "avx2") {
		t.Errorf("an unknown instruction set: %v; want an error that lists the known ones", err)
	}
	best := newBackend(t).Name()
	if best == "cpu "+cpu.ISAs[len(cpu.ISAs)-1] {
		return
	}
	if _, err := cpu.New(cpu.Config{ISA: "amx"}); err == nil || !strings.Contains(err.Error(), strings.Fields(best)[1]) {
		t.Errorf("amx on a machine of %q: %v; want an error that names what there is", best, err)
	}
}

func TestThreads(t *testing.T) {
	b, err := cpu.New(cpu.Config{Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Threads() != 3 {
		t.Errorf("%d threads, want 3", b.Threads())
	}
	if n := newBackend(t).Threads(); n < 1 {
		t.Errorf("%d threads by default", n)
	}
}

// Listed rows of a table, and rows of a part of it, give the bits that all rows give, at a vocabulary that fills no panel.
func TestLogitsOfListedRows(t *testing.T) {
	const vocabulary, width = 1001, 48
	b := newBackend(t)
	norm, err := b.NewVector(tensor(1, width))
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []kernels.HostTensor{tensor(vocabulary, width), quantised(kernels.I8, false)(vocabulary, width), quantised(kernels.I8, true)(vocabulary, width)} {
		for i := range head.Scale {
			head.Scale[i] = float32(1 + i%7)
		}
		for _, rows := range []int{1, 5, 600} {
			t.Run(fmt.Sprintf("%s-%t-%d", head.Type, head.WeightOnly, rows), func(t *testing.T) { testListedRows(t, b, head, norm, rows) })
		}
	}
}

func testListedRows(t *testing.T, b *cpu.Backend, head kernels.HostTensor, norm kernels.Vector, rows int) {
	table, err := b.NewTable(head)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Free()
	values := make([]float32, rows*head.Cols)
	for i := range values {
		values[i] = float32(i*i%17) - 8
	}
	x := upload(t, b, rows, head.Cols, values)
	logits := func(table kernels.Table, ids []uint32, n int) []float32 {
		dst := upload(t, b, rows, n, make([]float32, rows*n))
		b.Logits(dst, x, kernels.Norm{Weight: norm, Eps: 1e-6}, table, ids)
		return download(t, b, dst)
	}
	all := logits(table, nil, head.Rows)
	few, most := []uint32{1000, 0, 999, 31, 32, 33, 31}, []uint32{}
	for id := range head.Rows - 1 {
		if id%9 != 0 {
			most = append(most, uint32(id))
		}
	}
	check := func(what string, ids []uint32, got []float32, first int) {
		for i := range rows {
			for j, id := range ids {
				if got, want := got[i*len(ids)+j], all[i*head.Rows+first+int(id)]; got != want {
					t.Fatalf("%s: row %d, token %d: %v in a list, %v among all", what, i, id, got, want)
				}
			}
		}
	}
	for _, ids := range [][]uint32{few, most} {
		check("listed", ids, logits(table, ids, len(ids)), 0)
	}
	for _, from := range []int{0, 32, 45} {
		part, ids := b.SubTable(table, from, head.Rows-3), []uint32{}
		for id := range part.Rows() {
			ids = append(ids, uint32(id))
		}
		check("a part", ids, logits(part, nil, len(ids)), from)
		check("listed of a part", few[1:2], logits(part, few[1:2], 1), from)
	}
	zeros := 0
	for _, v := range all {
		if v == 0 {
			zeros++
		}
	}
	if zeros > len(all)/10 {
		t.Errorf("%d of %d logits are 0", zeros, len(all))
	}
}

// A NaN in the residual stream must not be lost on its way, nor reach other rows.
func TestNaNStaysVisible(t *testing.T) {
	const width, wide, rows = 64, 50, 20
	b := newBackend(t)
	gated, err := b.NewGatedLinear(tensor(wide, width), tensor(wide, width))
	if err != nil {
		t.Fatal(err)
	}
	defer gated.Free()
	down, err := b.NewLinear([]kernels.HostTensor{tensor(width, wide)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer down.Free()
	norm, err := b.NewVector(tensor(1, width))
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, rows*width)
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	values[7*width+3] = float32(math.NaN())
	x := upload(t, b, rows, width, values)
	b.MLP(x, kernels.Norm{Weight: norm, Eps: 1e-6}, kernels.SiLU, gated, down)
	for i, v := range download(t, b, x) {
		if isNaN := v != v; isNaN != (i/width == 7) {
			t.Fatalf("element %d of row %d is %v", i%width, i/width, v)
		}
	}
}

// Matrices that do not fit are reported by Sync, once, and nothing is written.
func TestMisfitsAreReported(t *testing.T) {
	b := newBackend(t)
	l, err := b.NewLinear([]kernels.HostTensor{tensor(32, 64)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	norm, err := b.NewVector(tensor(1, 64))
	if err != nil {
		t.Fatal(err)
	}
	x := upload(t, b, 2, 48, make([]float32, 96))
	dst := kernels.Mat{Buf: x.Buf, Rows: 2, Cols: 32, Stride: 32, Type: kernels.BF16}
	b.NormLinear(dst, x, kernels.Norm{Weight: norm, Eps: 1e-6}, l)
	if err := b.Sync(); err == nil || !strings.Contains(err.Error(), "[2, 48]") {
		t.Errorf("48 columns for a matrix of 64: %v", err)
	}
	if err := b.Sync(); err != nil {
		t.Errorf("the error is reported twice: %v", err)
	}
	table, err := b.NewTable(tensor(10, 48))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Free()
	b.Embed(x, table, []uint32{3, 10}, 1)
	if err := b.Sync(); err == nil || !strings.Contains(err.Error(), "token 10") {
		t.Errorf("a token beyond the table: %v", err)
	}
	long := x
	long.Rows = 3
	b.Embed(long, table, []uint32{1, 2, 3}, 1)
	if err := b.Sync(); err == nil || !strings.Contains(err.Error(), "buffer of 384") {
		t.Errorf("a matrix longer than its buffer: %v", err)
	}
}

// Thousands of small jobs, with pauses in which workers go to sleep, each give the whole result.
func TestPoolLosesNoTask(t *testing.T) {
	b, err := cpu.New(cpu.Config{Threads: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const width, rows = 32, 300
	table, err := b.NewTable(tensor(rows, width))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Free()
	ids := make([]uint32, rows)
	for i := range ids {
		ids[i] = uint32(rows - 1 - i)
	}
	x := upload(t, b, rows, width, make([]float32, rows*width))
	b.Embed(x, table, ids, 1)
	want := download(t, b, x)
	zero := make([]byte, x.Buf.Bytes())
	for round := range 3000 {
		b.Write(x.Buf, 0, zero)
		b.Embed(x, table, ids, 1)
		if round%100 == 0 {
			for i, v := range download(t, b, x) {
				if v != want[i] {
					t.Fatalf("round %d: element %d is %v, want %v", round, i, v, want[i])
				}
			}
		}
	}
}

// Memory that is not used must not be resident: huge pages end where a buffer does.
func TestBuffersTakeNoMoreThanTheirSize(t *testing.T) {
	b := newBackend(t)
	const size = 3 << 20
	ones := bytes.Repeat([]byte{1}, size)
	before := resident(t)
	for range 40 {
		buf, err := b.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(buf.Free)
		b.Write(buf, 0, ones)
	}
	if taken := resident(t) - before; taken > 40*size+(8<<20) {
		t.Errorf("40 buffers of %d bytes take %d bytes, %d each", size, taken, taken/40)
	}
}

// resident is this process's anonymous memory, in bytes.
func resident(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(after[:strings.Index(after, "kB")]))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// What a chunk makes resident beyond its own buffers is within ScratchBytes.
func TestScratchBytesIsTrue(t *testing.T) {
	const width, wide, rows = 512, 2048, 1000
	b := newBackend(t)
	gated, err := b.NewGatedLinear(tensor(wide, width), tensor(wide, width))
	if err != nil {
		t.Fatal(err)
	}
	defer gated.Free()
	down, err := b.NewLinear([]kernels.HostTensor{tensor(width, wide)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer down.Free()
	norm, err := b.NewVector(tensor(1, width))
	if err != nil {
		t.Fatal(err)
	}
	x := upload(t, b, rows, width, make([]float32, rows*width))
	before := resident(t)
	b.MLP(x, kernels.Norm{Weight: norm, Eps: 1e-6}, kernels.SiLU, gated, down)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	bound := int(b.ScratchBytes(rows, width, wide, kernels.LargestCodes{}))
	if taken := resident(t) - before; taken > bound || taken == 0 {
		t.Errorf("MLP took %d bytes, ScratchBytes says at most %d", taken, bound)
	}
}
