package cuda

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// FuzzAssemble runs programs of sums, whose registers all differ, by their slots and by their registers.
func FuzzAssemble(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(10))
	f.Add(uint64(2), uint8(0), uint8(1))
	f.Add(uint64(3), uint8(30), uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, operands, length uint8) {
		random := rand.New(rand.NewPCG(seed, 1))
		p, registers := &kernels.Program{Operands: int(operands)}, make([]float32, operands)
		for i := range registers {
			registers[i] = random.Float32()
		}
		for i := range int(length) + 1 {
			in, n := kernels.Instruction{Op: kernels.Constant, X: random.Float32()}, int(operands)+i
			value := in.X
			if n > 0 && i%5 > 0 {
				in = kernels.Instruction{Op: kernels.Add, A: random.IntN(n), B: n - 1 - random.IntN(min(n, 4))}
				value = registers[in.A] + registers[in.B]
			}
			p.Code, registers = append(p.Code, in), append(registers, value)
		}
		a, err := assembleProgram(p, int(seed%2))
		if err != nil {
			t.Fatal(err)
		}
		slots, result := make([]float32, a.slots), float32(0)
		for _, in := range a.code {
			switch in.op {
			case given:
				result = registers[0]
			case load:
				result = registers[int(in.x)+int(seed%2)]
			case uint16(kernels.Constant):
				result = math.Float32frombits(in.x)
			default:
				result = slots[in.a] + slots[in.b]
			}
			slots[in.slot] = result
		}
		if want := registers[len(registers)-1]; result != want {
			t.Fatalf("%v, want %v, by %+v", result, want, a.code)
		}
	})
}

// TestAssembleReusesSlots: a chain of any length takes as many slots as it has numbers at a time.
func TestAssembleReusesSlots(t *testing.T) {
	p := &kernels.Program{Operands: 2}
	for i := range 1000 {
		p.Code = append(p.Code, kernels.Instruction{Op: kernels.Add, A: 0, B: 1 + i})
	}
	a, err := assembleProgram(p, 0)
	if err != nil || a.slots != 2 {
		t.Errorf("%d slots, want 2 (%v)", a.slots, err)
	}
}

// TestWithAffine: a shift, or a scale and a shift, applied first leave a program's results what they are of the sum.
func TestWithAffine(t *testing.T) {
	add, mul := kernels.Add, kernels.Mul
	then := &kernels.Program{Operands: 2, Code: []kernels.Instruction{{Op: mul, A: 0, B: 1}, {Op: add, A: 2, B: 0}}, Also: []int{0, 1, 2}}
	for scaled, want := range map[bool]*kernels.Program{
		false: {Operands: 3, Code: []kernels.Instruction{{Op: add, A: 0, B: 1}, {Op: mul, A: 3, B: 2, C: 3}, {Op: add, A: 4, B: 3, C: 3}}, Also: []int{3, 2, 4}},
		true: {Operands: 4, Code: []kernels.Instruction{
			{Op: mul, A: 0, B: 1}, {Op: add, A: 4, B: 2}, {Op: mul, A: 5, B: 3, C: 5}, {Op: add, A: 6, B: 5, C: 5},
		}, Also: []int{5, 3, 6}},
	} {
		if got := withAffine(then, scaled); !reflect.DeepEqual(got, want) {
			t.Errorf("scaled %t: %+v, want %+v", scaled, got, want)
		}
	}
}
