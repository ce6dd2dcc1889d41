package ref

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// linear is a row-major [out, in] matrix and an optional bias.
type linear struct {
	in, out int
	weight  []float32
	codes   []int8    // of int8 whose activations are quantised, in place of weight; else nil
	scale   []float32 // of FP8 and int8: what each row of weight, which holds the codes' values, is worth; else nil
	fp8     bool
	bias    []float32 // nil, or out long
}

func (l *linear) In() int  { return l.in }
func (l *linear) Out() int { return l.out }
func (l *linear) Bytes() int64 {
	return 4*int64(len(l.weight)+len(l.scale)+len(l.bias)) + int64(len(l.codes))
}
func (l *linear) Free() { l.weight, l.codes, l.scale, l.bias = nil, nil, nil, nil }

type vector struct{ weight []float32 }

func (v *vector) Len() int     { return len(v.weight) }
func (v *vector) Bytes() int64 { return 4 * int64(len(v.weight)) }
func (v *vector) Free()        { v.weight = nil }

// rope holds cos and sin of position p and pair i at [p*half+i].
type rope struct {
	half, max int
	cos, sin  []float32
}

func (r *rope) MaxPositions() int { return r.max }
func (r *rope) Bytes() int64      { return 4 * int64(len(r.cos)+len(r.sin)) }
func (r *rope) Free()             { r.cos, r.sin = nil, nil }

// NewLinear stacks the parts along their rows; a bias part without data stands for zeros.
func (b *Backend) NewLinear(parts, bias []kernels.HostTensor) (kernels.Linear, error) {
	if len(parts) == 0 || (len(bias) != 0 && len(bias) != len(parts)) {
		return nil, fmt.Errorf("ref: got %d matrices and %d biases, want as many or no biases", len(parts), len(bias))
	}
	l := &linear{in: parts[0].Cols}
	for _, p := range parts {
		if err := p.CheckBeside(parts[0]); err != nil {
			return nil, fmt.Errorf("ref: %w", err)
		}
		l.out += p.Rows
		l.scale = append(l.scale, p.Scale...)
	}
	l.readParts(parts)
	if len(bias) == 0 {
		return l, nil
	}
	l.bias = make([]float32, l.out)
	at := 0
	for i, p := range parts {
		if v := bias[i]; len(v.Data) != 0 {
			if err := v.CheckUnquantized(); err != nil {
				return nil, fmt.Errorf("ref: %w", err)
			}
			if v.Rows*v.Cols != p.Rows {
				return nil, fmt.Errorf("ref: bias %q has %d elements, %q has %d rows", v.Name, v.Rows*v.Cols, p.Name, p.Rows)
			}
			kernels.Expand(l.bias[at:at+p.Rows], v.Type, v.Data)
		}
		at += p.Rows
	}
	return l, nil
}

// readParts keeps the elements of the parts.
func (l *linear) readParts(parts []kernels.HostTensor) {
	l.fp8 = parts[0].Type == kernels.F8E4M3
	if parts[0].Type == kernels.I8 && !parts[0].WeightOnly {
		for _, p := range parts {
			for _, code := range p.Data {
				l.codes = append(l.codes, int8(code))
			}
		}
		return
	}
	l.weight = make([]float32, l.in*l.out)
	at := 0
	for _, p := range parts {
		n := p.Rows * p.Cols
		kernels.Expand(l.weight[at:at+n], p.Type, p.Data)
		at += n
	}
}

// NewGatedLinear puts the rows of up below those of gate.
func (b *Backend) NewGatedLinear(gate, up kernels.HostTensor) (kernels.Linear, error) {
	if gate.Rows != up.Rows {
		return nil, fmt.Errorf("ref: gate %q has %d rows, up %q has %d", gate.Name, gate.Rows, up.Name, up.Rows)
	}
	return b.NewLinear([]kernels.HostTensor{gate, up}, nil)
}

// NewVector expands t to float32.
func (b *Backend) NewVector(t kernels.HostTensor) (kernels.Vector, error) {
	if err := t.CheckUnquantized(); err != nil {
		return nil, fmt.Errorf("ref: %w", err)
	}
	v := &vector{make([]float32, t.Rows*t.Cols)}
	kernels.Expand(v.weight, t.Type, t.Data)
	return v, nil
}

// NewRope tabulates cos and sin of pos*invFreq[i], times scale.
func (b *Backend) NewRope(invFreq []float32, scale float32, positions int) (kernels.Rope, error) {
	half := len(invFreq)
	if half == 0 || positions <= 0 {
		return nil, fmt.Errorf("ref: invalid rotary table of %d positions and %d pairs", positions, half)
	}
	r := &rope{half: half, max: positions, cos: make([]float32, positions*half), sin: make([]float32, positions*half)}
	for p := range positions {
		for i, f := range invFreq {
			r.cos[p*half+i], r.sin[p*half+i] = kernels.RopeAt(p, f, scale)
		}
	}
	return r, nil
}
