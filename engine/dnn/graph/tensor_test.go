package graph

import (
	"math"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// Each number of a format is itself again; between two neighbours the nearer one is taken, and half way the even one.
func TestHalfAndBrainRounding(t *testing.T) {
	for name, f := range map[string]small{"half": half, "brain": brain} {
		t.Run(name, func(t *testing.T) {
			for b := uint16(0); uint64(b) < f.infinity(); b++ {
				x, next := f.decodeBits(b), f.decodeBits(b+1)
				if uint64(b+1) == f.infinity() {
					next = 2*x - f.decodeBits(b-1)
				}
				even := b + b&1
				middle := x + (next-x)/2
				for _, c := range []struct {
					x    float64
					want uint16
				}{{x, b}, {-x, b | 1<<15}, {middle, even}, {math.Nextafter(middle, 0), b}, {math.Nextafter(middle, math.Inf(1)), b + 1}} {
					if c.x == 0 && c.want == 1<<15 {
						c.x = math.Copysign(0, -1)
					}
					if got := f.bits(c.x); got != c.want {
						t.Fatalf("%v: bits %#x, want %#x", c.x, got, c.want)
					}
				}
			}
			if f.bits(math.Inf(-1)) != 1<<15|uint16(f.infinity()) || f.bits(1e300) != uint16(f.infinity()) || !math.IsInf(f.decodeBits(f.bits(math.Inf(1))), 1) {
				t.Error("infinity is not itself")
			}
			if !math.IsNaN(f.decodeBits(f.bits(math.NaN()))) {
				t.Error("NaN is a number")
			}
		})
	}
	for bits, want := range map[uint16]float64{0x3c00: 1, 0x0001: 1. / (1 << 24), 0x7bff: 65504, 0xc000: -2} {
		if got := half.decodeBits(bits); got != want {
			t.Errorf("half %#x is %v, want %v", bits, got, want)
		}
	}
	if got := brain.decodeBits(0x3fc0); got != 1.5 {
		t.Errorf("bfloat16 0x3fc0 is %v, want 1.5", got)
	}
}

func TestElementsOfEachType(t *testing.T) {
	ints := []int64{0, 1, -1, 127, 255, 256, -129, 1 << 40}
	wants := map[engine.DType][]int64{
		engine.Bool:   {0, 1, 1, 1, 1, 1, 1, 1},
		engine.Uint8:  {0, 1, 255, 127, 255, 0, 127, 0},
		engine.Int8:   {0, 1, -1, 127, -1, 0, 127, 0},
		engine.Uint16: {0, 1, 65535, 127, 255, 256, 65536 - 129, 0},
		engine.Int16:  {0, 1, -1, 127, 255, 256, -129, 0},
		engine.Uint32: {0, 1, 1<<32 - 1, 127, 255, 256, 1<<32 - 129, 0},
		engine.Int32:  {0, 1, -1, 127, 255, 256, -129, 0},
		engine.Uint64: ints,
		engine.Int64:  ints,
		engine.FP16:   {0, 1, -1, 127, 255, 256, -129, math.MinInt64},
		engine.BF16:   {0, 1, -1, 127, 255, 256, -129, 1 << 40},
		engine.FP32:   ints,
		engine.FP64:   ints,
	}
	for typ, want := range wants {
		tensor := FromInts(typ, []int{2, 4}, ints)
		if len(tensor.Data) != 8*typ.Size() {
			t.Errorf("%v: %d bytes", typ, len(tensor.Data))
		}
		if got := tensor.Ints(); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v, want %v", typ, got, want)
		}
		if again := FromFloats(typ, tensor.Shape, tensor.Floats()); typ != engine.Uint64 && !reflect.DeepEqual(again, tensor) {
			t.Errorf("%v: %v is not itself by way of floats", typ, tensor.Floats())
		}
	}
	if got := FromInts(engine.Uint64, []int{1}, []int64{-1}).Floats()[0]; got != 1<<64 {
		t.Errorf("the greatest uint64 is %v", got)
	}
	if got := FromFloats(engine.Int64, []int{4}, []float64{-2.9, 2.9, math.NaN(), 1e30}).Ints(); !reflect.DeepEqual(got, []int64{-2, 2, math.MinInt64, math.MinInt64}) {
		t.Errorf("truncated: %v", got)
	}
}
