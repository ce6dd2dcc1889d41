//go:build cgo && linux && amd64

package cpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
)

func roundToBF16(v float32) uint16 {
	u := math.Float32bits(v)
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// groupedTensor is a matrix of random codes in groups, and what they are worth.
func groupedTensor(random *rand.Rand, rows, cols, group int) kernels.HostTensor {
	g := &kernels.Groups{Cols: group}
	for range rows * g.Count(cols) {
		scale := roundToBF16((random.Float32() + 0.1) / 64)
		g.Scale = append(g.Scale, math.Float32frombits(uint32(scale)<<16))
		g.Zero = append(g.Zero, byte(random.IntN(17)))
	}
	t := kernels.HostTensor{Name: "grouped", Type: kernels.BF16, Rows: rows, Cols: cols, Groups: g}
	for i := range rows {
		for j := range cols {
			code, at := random.IntN(16), i*g.Count(cols)+j/group
			g.Codes = append(g.Codes, byte(code))
			t.Data = binary.LittleEndian.AppendUint16(t.Data, roundToBF16(float32(code-int(g.Zero[at]))*g.Scale[at]))
		}
	}
	return t
}

// TestGroupsSameBits: matrices that are kept as codes in groups give the bits of what they were expanded to, in half to a third of the memory.
func TestGroupsSameBits(t *testing.T) {
	for _, isa := range cpu.ISAs {
		t.Run(isa, func(t *testing.T) {
			b := cputest.Open(t, cpu.Config{Threads: 2, ISA: isa})
			for _, c := range []struct{ in, out, group int }{{64, 48, 32}, {90, 33, 20}, {1101, 47, 1102}, {1, 1, 2}, {2000, 161, 128}} {
				for _, rows := range []int{1, 2, 7, 17, 70, 300} {
					groupsSameBits(t, b, rows, c.in, c.out, c.group)
				}
			}
		})
	}
}

func groupsSameBits(t *testing.T, b *cpu.Backend, rows, in, out, group int) {
	random := rand.New(rand.NewPCG(uint64(rows), uint64(in)))
	parts := []kernels.HostTensor{groupedTensor(random, out, in, group), groupedTensor(random, out+3, in, group)}
	gate, up, down := groupedTensor(random, out, in, group), groupedTensor(random, out, in, group), groupedTensor(random, in, out, 16)
	values := make([]float32, rows*in)
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	var bits [2][]float32
	for i := range bits {
		held := func(l kernels.Linear, err error) kernels.Linear {
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Free)
			return l
		}
		linear, gated, last := held(b.NewLinear(parts, nil)), held(b.NewGatedLinear(gate, up)), held(b.NewLinear([]kernels.HostTensor{down}, nil))
		sum := upload(t, b, rows, 2*out+3, make([]float32, rows*(2*out+3)))
		x := upload(t, b, rows, in, values)
		wide, err := b.Alloc(int64(rows*(2*out+3)) * 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(wide.Free)
		weight, err := b.NewVector(kernels.HostTensor{Name: "norm", Type: kernels.F32, Rows: 1, Cols: in, Data: slices.Repeat([]byte{0, 0, 0x80, 0x3f}, in)})
		if err != nil {
			t.Fatal(err)
		}
		norm := kernels.Norm{Weight: weight, Eps: 1e-6}
		b.NormLinear(kernels.Mat{Buf: wide, Rows: rows, Cols: 2*out + 3, Stride: 2*out + 3, Type: kernels.BF16}, x, norm, linear)
		raw := make([]byte, 2*rows*in)
		for j, v := range values {
			binary.LittleEndian.PutUint16(raw[2*j:], roundToBF16(v))
		}
		src, err := b.Alloc(int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(src.Free)
		b.Write(src, 0, raw)
		b.AddLinear(sum, kernels.Mat{Buf: src, Rows: rows, Cols: in, Stride: in, Type: kernels.BF16}, linear)
		b.MLP(x, norm, kernels.SiLU, gated, last)
		normalised := make([]byte, wide.Bytes())
		bits[i] = append(download(t, b, sum), download(t, b, x)...)
		b.Read(normalised, wide, 0)
		for j := 0; j < len(normalised); j += 2 {
			bits[i] = append(bits[i], math.Float32frombits(uint32(binary.LittleEndian.Uint16(normalised[j:]))<<16))
		}
		if kept := i == 0; kept && in == 2000 && linear.Bytes() > 6*int64(in)*int64(2*out+3)/10 {
			t.Errorf("%d x %d in groups of %d take %d bytes", 2*out+3, in, group, linear.Bytes())
		}
		for j := range parts {
			parts[j].Groups = nil
		}
		gate.Groups, up.Groups, down.Groups = nil, nil, nil
	}
	for i := range bits[0] {
		if math.Float32bits(bits[0][i]) != math.Float32bits(bits[1][i]) {
			t.Fatalf("%s: %d rows, %d x %d in groups of %d: element %d is %v, expanded %v", b.Name(), rows, out, in, group, i, bits[0][i], bits[1][i])
		}
	}
}

// grouped is a matrix of benchmarks in groups of 128, with codes that are the weights' bits.
func grouped(rows, cols int) kernels.HostTensor {
	t := tensor(rows, cols)
	t.Groups = &kernels.Groups{Codes: make([]byte, rows*cols), Cols: 128}
	for i := range t.Groups.Codes {
		t.Groups.Codes[i] = t.Data[2*i] & 15
	}
	n := rows * t.Groups.Count(cols)
	t.Groups.Scale, t.Groups.Zero = slices.Repeat([]float32{1e-3}, n), slices.Repeat([]byte{8}, n)
	return t
}
