package gguf

import (
	"encoding/binary"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

func goldenFile(t testing.TB) ([]byte, *File) {
	t.Helper()
	data, err := os.ReadFile("testdata/types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, f
}

// TestTypesAgreeWithReference: every type's blocks become the values that llama.cpp's package makes of them, bit for bit.
func TestTypesAgreeWithReference(t *testing.T) {
	data, f := goldenFile(t)
	expanded := map[string]Tensor{}
	for _, x := range f.Tensors {
		expanded[x.Name] = x
	}
	checked := 0
	for _, x := range f.Tensors {
		want, ok := expanded[x.Name+".expanded"]
		if !ok {
			continue
		}
		checked++
		if x.Type.String() != x.Name || !reflect.DeepEqual(x.Shape, []int{3, 512}) {
			t.Errorf("%s is %s %v", x.Name, x.Type, x.Shape)
		}
		values := make([]float32, 3*512)
		x.Type.Expand(values, data[x.Begin:x.End])
		wrong := 0
		for i, got := range values {
			if right := math.Float32frombits(binary.LittleEndian.Uint32(data[want.Begin+4*int64(i):])); got != right {
				if wrong++; wrong < 5 {
					t.Errorf("%s: element %d is %v, want %v", x.Name, i, got, right)
				}
			}
		}
	}
	if len(strings.Split(supportedTypes(), ", ")) != checked {
		t.Errorf("%d types checked of %s", checked, supportedTypes())
	}
}

func TestMetadata(t *testing.T) {
	_, f := goldenFile(t)
	for key, want := range map[string]int{"u8": 200, "i8": -100, "u16": 60000, "i16": -30000, "u32": 4000000000, "i32": -2000000000, "u64": 1 << 50, "i64": -1 << 50, "general.alignment": 64} {
		if got, err := f.Int(key); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", key, got, err, want)
		}
	}
	for key, want := range map[string]float64{"f32": 0.5, "f64": 0.1, "u8": 200} {
		if got, err := f.Float(key); got != want || err != nil {
			t.Errorf("%s: %g, %v, want %g", key, got, err, want)
		}
	}
	yes, err := f.Bool("yes")
	text, err2 := f.String("text")
	texts, err3 := f.Strings("texts")
	numbers, err4 := f.Ints("numbers")
	floats, err5 := f.Floats("floats")
	got := []any{yes, err, text, err2, texts, err3, numbers, err4, floats, err5}
	want := []any{true, error(nil), "tëxt", error(nil), []string{"a", "", "日本"}, error(nil), []int{1, -2, 3}, error(nil), []float64{0.5, -0.25}, error(nil)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, err := range []error{second(f.Int("text")), second(f.Int("numbers")), second(f.Int("none")), second(f.String("texts")), second(f.Strings("numbers")), second(f.Ints("texts")), second(f.Bool("u8")), second(f.Float("text")), second(f.Ints("floats"))} {
		if err == nil || !strings.Contains(err.Error(), "key \"") {
			t.Errorf("%v names no key", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
