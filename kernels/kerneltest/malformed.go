package kerneltest

import (
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// testMalformed checks that tensors which do not fit are refused with an error.
func (s suite) testMalformed(t *testing.T) {
	d := newFixture(t, s.open(t))
	tensor := func(name string, rows, cols, bytes int) kernels.HostTensor {
		return kernels.HostTensor{Name: name, Type: kernels.BF16, Rows: rows, Cols: cols, Data: make([]byte, bytes)}
	}
	square, wide, truncated := tensor("square", 4, 4, 32), tensor("wide", 4, 6, 48), tensor("truncated", 4, 4, 31)
	linear := func(parts, bias []kernels.HostTensor) error {
		_, err := d.NewLinear(parts, bias)
		return err
	}
	one := []kernels.HostTensor{square}
	fp8 := kernels.HostTensor{Name: "FP8", Type: kernels.F8E4M3, Rows: 4, Cols: 4, Data: make([]byte, 16), Scale: make([]float32, 4)}
	unscaled := fp8
	unscaled.Scale = nil
	integers := fp8
	integers.Name, integers.Type = "int8", kernels.I8
	alone := integers
	alone.Name, alone.WeightOnly = "int8 alone", true
	_, unscaledTable := d.NewTable(kernels.HostTensor{Name: "int8", Type: kernels.I8, Rows: 4, Cols: 4, Data: make([]byte, 16)})
	_, int8Vector := d.NewVector(integers)
	_, fp8Table := d.NewTable(fp8)
	_, fp8Vector := d.NewVector(fp8)
	_, truncatedTable := d.NewTable(truncated)
	_, truncatedVector := d.NewVector(tensor("vector", 1, 4, 7))
	_, uneven := d.NewGatedLinear(square, wide)
	for what, err := range map[string]error{
		"no parts":            linear(nil, nil),
		"truncated part":      linear([]kernels.HostTensor{truncated}, nil),
		"parts unlike":        linear([]kernels.HostTensor{square, wide}, nil),
		"bias of other width": linear(one, []kernels.HostTensor{tensor("bias", 1, 3, 6)}),
		"truncated table":     truncatedTable,
		"truncated vector":    truncatedVector,
		"gate and up unlike":  uneven,
		"no scales":           linear([]kernels.HostTensor{unscaled}, nil),
		"FP8 beside bfloat16": linear([]kernels.HostTensor{fp8, square}, nil),
		"FP8 embedding":       fp8Table,
		"FP8 vector":          fp8Vector,
		"int8 beside others":  linear([]kernels.HostTensor{square, integers}, nil),
		"int8 beside FP8":     linear([]kernels.HostTensor{integers, fp8}, nil),
		"int8 in two ways":    linear([]kernels.HostTensor{alone, integers}, nil),
		"int8 head unscaled":  unscaledTable,
		"int8 vector":         int8Vector,
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
