package cublas

import (
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// good is an algorithm of the fake library that computes anything.
const good = "{.split = 1}"

// fake opens a library of testdata/fake.c with these algorithms.
func fake(t *testing.T, algorithms []string, flags ...string) *Library {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libfake.so")
	args := append([]string{"-shared", "-fPIC", "-w", "-o", path, "-DALGORITHMS={" + strings.Join(algorithms, ",") + "}", "testdata/fake.c"}, flags...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// record is what the fake library writes of a product.
type record struct{ Algorithm, Rows, Heuristics, Beta, Operand, Result, AScale, BScale, Bias int64 }

// memory is addressable as a device's is, aligned to a page.
func memory(t *testing.T) (raw []byte, address uint64) {
	t.Helper()
	raw, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(raw) })
	return raw, uint64(uintptr(unsafe.Pointer(&raw[0])))
}

func multiply(t *testing.T, l *Library, p Product) record {
	t.Helper()
	raw, address := memory(t)
	p.D += address
	if err := l.Multiply(p); err != nil {
		t.Fatal(err)
	}
	var r record
	if _, err := binary.Decode(raw[p.D-address:], binary.LittleEndian, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func square(rows int) Product {
	return Product{M: rows, N: 64, K: 32, A: 1 << 20, AStride: 32, W: 1 << 21, DStride: 64}
}

// TestOneAlgorithmForAllRows: split sums, in whatever way an algorithm admits to them, and algorithms
// that refuse some number of rows are passed over, and the choice does not depend on the rows.
func TestOneAlgorithmForAllRows(t *testing.T) {
	algorithms := []string{
		"{.split = 4}",
		"{.split = -1}",
		"{.split = 1, .scheme = 2}",
		"{.split = 1, .workspace = 1024}",
		"{.split = 1, .refused = 1}",
		"{.split = 1, .refused = 4096}",
		"{.split = 1, .wants_memory = 150}",
		good,
		good,
	}
	for _, rows := range [][]int{{1, 4096, 77}, {5000, 1, 2}, {150, 1000}} {
		l := fake(t, algorithms)
		for _, m := range rows {
			if r := multiply(t, l, square(m)); r.Algorithm != 7 || r.Rows != int64(m) || r.Heuristics != 1 {
				t.Errorf("%d rows of %v: %+v, want algorithm 7 after one question", m, rows, r)
			}
		}
	}
}

// TestAlgorithmsForFewerRows: where none that is named for many rows is fit, one for fewer is.
func TestAlgorithmsForFewerRows(t *testing.T) {
	l := fake(t, []string{"{.split = 2}", "{.split = 1, .asked_below = 512}", "{.split = 1, .asked_below = 64}"})
	for _, m := range []int{4096, 3} {
		if r := multiply(t, l, square(m)); r.Algorithm != 1 || r.Heuristics != 3 {
			t.Errorf("%d rows: %+v, want algorithm 1 after three questions", m, r)
		}
	}
}

// TestChoiceDependsOnLayout: another stride or alignment is another choice, each kept.
func TestChoiceDependsOnLayout(t *testing.T) {
	l := fake(t, []string{"{.split = 1, .alignment = 64}", good})
	odd, wide := square(10), square(10)
	odd.D, wide.DStride = 4, 100
	for _, c := range []struct {
		p               Product
		algorithm, asks int64
	}{{square(10), 0, 1}, {odd, 1, 2}, {square(11), 0, 2}, {wide, 0, 3}, {odd, 1, 3}} {
		if r := multiply(t, l, c.p); r.Algorithm != c.algorithm || r.Heuristics != c.asks {
			t.Errorf("D at %d, stride %d: %+v, want algorithm %d after %d questions", c.p.D, c.p.DStride, r, c.algorithm, c.asks)
		}
	}
}

func TestNoAlgorithm(t *testing.T) {
	l := fake(t, []string{"{.split = 2}", "{.split = 1, .refused = 33}", "{.split = 1, .workspace = 9}"})
	want := "product [10,32]x[32,64] of bfloat16 into bfloat16: status 15 of cuBLASLt; of 12 algorithms 8 sum in parts and 4 refuse some number of rows (the last 33, with status 15)"
	for range 2 { // a failure is not taken for a choice
		if err := l.Multiply(square(10)); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	l = fake(t, []string{good})
	if err := l.Multiply(square(4999)); err == nil || !strings.Contains(err.Error(), "product [4999,32]x[32,64] of bfloat16 into bfloat16: status 13") {
		t.Errorf("a product that fails: error %v", err)
	}
}

// TestFP8: operands' type, and the scales: W's rows are cuBLAS's first operand.
func TestFP8(t *testing.T) {
	l := fake(t, []string{good})
	p := square(3)
	p.Operands, p.AScale, p.WScale, p.Bias = FP8, 0x1000, 0x2000, 0x3000
	if r, want := multiply(t, l, p), (record{0, 3, 1, 0, 28, 14, 0x2000, 0x1000, 0x3000}); r != want {
		t.Errorf("scaled: %+v, want %+v", r, want)
	}
	p.AScale, p.Bias = 0x4000, 0x5000
	if r := multiply(t, l, p); r.BScale != 0x4000 || r.Bias != 0x5000 || r.Heuristics != 1 {
		t.Errorf("scaled by other vectors: %+v", r)
	}
	p.AScale, p.WScale, p.Bias, p.Float32, p.Accumulate = 0, 0, 0, true, true
	if r, want := multiply(t, l, p), (record{0, 3, 2, 1, 28, 0, 0, 0, 0}); r != want {
		t.Errorf("sums: %+v, want %+v", r, want)
	}
	p.N = 40
	if err := l.Multiply(p); err == nil || !strings.Contains(err.Error(), "product [3,32]x[32,40] of FP8 into float32: status 15") {
		t.Errorf("40 columns: error %v", err)
	}
}

// TestInt8: the types of operands, sums and factors; of rows, only numbers that are used are asked for, and others are refused.
func TestInt8(t *testing.T) {
	l := fake(t, []string{"{.split = 1, .refused = 128}", "{.split = 1, .refused = 150}"})
	p := square(64)
	p.Operands = Int8
	if err := l.Choose(p); err != nil {
		t.Fatal(err)
	}
	if r, want := multiply(t, l, p), (record{1, 64, 1, 0, 3, 10, 0, 0, 0}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	p.M = 33
	if err := l.Multiply(p); err == nil || !strings.Contains(err.Error(), "product [33,32]x[32,64] of int8 into int32: status 7") {
		t.Errorf("33 rows: error %v", err)
	}
	p.M, p.K, p.AStride = 64, 34, 36
	for what, err := range map[string]error{"choosing": l.Choose(p), "multiplying": l.Multiply(p)} {
		if err == nil || !strings.Contains(err.Error(), "product [64,34]x[34,64] of int8 into int32: status 15") {
			t.Errorf("%s with a depth of 34: error %v", what, err)
		}
	}
}

// TestOldLibrary: one without vectors of scales still multiplies codes.
func TestOldLibrary(t *testing.T) {
	l := fake(t, []string{good}, "-DNO_SCALE_MODES")
	p := square(3)
	p.Operands, p.AScale, p.WScale = FP8, 0x1000, 0x2000
	if err := l.Multiply(p); err == nil || !strings.Contains(err.Error(), "of FP8 with scales of rows and columns into bfloat16: status 7") {
		t.Errorf("scaled: error %v", err)
	}
	p.AScale, p.WScale = 0, 0
	if r := multiply(t, l, p); r.Operand != 28 {
		t.Errorf("sums: %+v", r)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open("/nowhere/libcublasLt.so"); err == nil || !strings.Contains(err.Error(), "cuBLASLt cannot be opened: /nowhere/libcublasLt.so") {
		t.Errorf("absent: error %v", err)
	}
	path := filepath.Join(t.TempDir(), "libempty.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", path, "-x", "c", "/dev/null").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	if _, err := Open(path); err == nil || err.Error() != "cuBLASLt has no cublasLtCreate" {
		t.Errorf("empty: error %v", err)
	}
}
