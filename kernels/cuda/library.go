package cuda

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// kindOf is the kind of a convolution that the library may compute; ok is false of those along three dimensions.
func kindOf(s kernels.ConvSpec, backward bool) (k cudnn.ConvolutionKind, ok bool) {
	spatial := len(s.Kernel)
	if spatial > 2 {
		return k, false
	}
	k = cudnn.ConvolutionKind{In: s.In, Out: s.Out, Groups: s.Groups, Backward: backward}
	for i := range 2 {
		k.Kernel[i], k.Strides[i], k.Dilations[i] = 1, 1, 1
		if at := i + spatial - 2; at >= 0 {
			k.Kernel[i], k.Strides[i], k.Dilations[i] = s.Kernel[at], s.Strides[at], s.Dilations[at]
		}
	}
	return k, true
}

// isReLU says whether a program is max(operand 0, 0).
func isReLU(p *kernels.Program) bool {
	if p.Operands != 1 || len(p.Code) != 2 || len(p.Also) > 0 || p.Code[0].Op != kernels.Constant || p.Code[0].X != 0 || p.Code[1].Op != kernels.Max {
		return false
	}
	a, b := p.Code[1].A, p.Code[1].B
	return a+b == 1 && a != b
}

// task is a convolution as the library computes it: what is not fused comes after.
type task struct {
	plan          *cudnn.ConvolutionPlan
	fused         cudnn.ConvolutionKind
	input, output kernels.Tensor // the parts that take part
	dims          [2]dimension
	uneven        bool // engines pad both sides alike: the input, or its gradient, is copied with its padding
}

// newTask is a task without a plan, for this geometry.
func newTask(k cudnn.ConvolutionKind, input, output kernels.Tensor, dims [2]dimension) (*task, cudnn.ConvolutionGeometry) {
	t := &task{fused: k, dims: dims, input: sliceSpatialDims(input, dims, inputOf), output: sliceSpatialDims(output, dims, outputOf)}
	for i := range dims {
		t.uneven = !dims[i].evenOutPadding() || t.uneven
	}
	if !t.uneven {
		return t, convGeometry(t.input, t.output, dims)
	}
	all, _ := paddedTensor(t.input, t.dims)
	return t, convGeometry(all, t.output, [2]dimension{})
}

// isWhole says whether all of a tensor takes part.
func (d dimension) isWhole(of [2]int, size int) bool { return of[0] == 0 && of[1] == size }

// plan is the task of a call, if the library computes it: for the kind with what may be fused, or else for the
// convolution alone.
func (o *networkOperations) plan(f *filter, input, output kernels.Tensor, a kernels.Affine, origin []int, backward bool, then *kernels.Program) (*task, bool) {
	l := o.device.Convolutions()
	if l == nil || f.rows == nil {
		return nil, false
	}
	k, ok := kindOf(f.spec, backward)
	dims, some := window(f.spec, input, output, origin)
	if !ok || !some {
		return nil, false
	}
	for _, fused := range candidateKinds(k, a.Shift != nil && a.Scale == nil, then) {
		if !l.Covers(fused, func() error { return o.try(l, fused) }) {
			continue
		}
		t, g := newTask(fused, input, output, dims)
		if t.plan, ok = l.Prepared(fused, g); ok {
			return t, true
		}
	}
	return nil, false
}

// candidateKinds are the kinds that compute a call, the one that fuses most first.
func candidateKinds(k cudnn.ConvolutionKind, bias bool, then *kernels.Program) []cudnn.ConvolutionKind {
	if fused := k; bias && k.Fuses() && (then == nil || isReLU(then)) {
		fused.Bias, fused.ReLU = true, then != nil
		return []cudnn.ConvolutionKind{fused, k}
	}
	return []cudnn.ConvolutionKind{k}
}

// run enqueues the library's part of a task.
func (o *networkOperations) run(f *filter, shift kernels.Buffer, t *task) bool {
	input, ok := addressOf(o.device, t.input)
	output, there := addressOf(o.device, t.output)
	if !ok || !there {
		o.device.Fail(fmt.Errorf("tensors %v and %v are not in this device's memory, or were freed", t.input.Shape, t.output.Shape))
		return false
	}
	rows, _ := o.device.Address(f.rows)
	bias, ok := addressOrNone(o.device, shift)
	if !ok {
		o.device.Fail(errForeign)
		return false
	}
	if !t.uneven {
		return !o.refused(t.plan.Run(input, rows, output, bias))
	}
	all, inner := paddedTensor(t.input, t.dims)
	at := o.device.Scratch(4 * int64(all.Elements()))
	if at == 0 {
		return false
	}
	all.Buf, inner.Buf = lent{at}, lent{at}
	if !t.fused.Backward {
		o.mapTo(all, zeros, nil)
		o.mapTo(inner, same, []kernels.Tensor{t.input})
	}
	if o.refused(t.plan.Run(at, rows, output, bias)) {
		return false
	}
	if t.fused.Backward {
		o.mapTo(t.input, same, []kernels.Tensor{inner})
	}
	return true
}

// same is a program that copies.
var same = &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Copy}}}

// convByLibrary is Conv by the library, if it computes that.
func (o *networkOperations) convByLibrary(f *filter, dst, src kernels.Tensor, a kernels.Affine, origin []int, then *kernels.Program, operands []kernels.Tensor) bool {
	t, ok := o.plan(f, src, dst, a, origin, false, then)
	if !ok {
		return false
	}
	for i, d := range t.dims {
		if at := i + len(origin) - 2; at >= 0 && !d.isWhole(d.output, dst.Shape[at+1]) { // outputs of no tap: the shift and the program alone
			o.launchConv(f, dst, src, a, origin, then, operands)
			break
		}
	}
	if !o.run(f, a.Shift, t) || t.fused.Bias || a.Shift == nil && then == nil {
		return true
	}
	inner := make([]kernels.Tensor, len(operands))
	for i, v := range operands {
		inner[i] = sliceSpatialDims(v, t.dims, outputOf)
	}
	o.finish(t.output, a, then, inner)
	return true
}

// finish applies scale and shift, if there are any, and runs the program in place.
func (o *networkOperations) finish(dst kernels.Tensor, a kernels.Affine, then *kernels.Program, operands []kernels.Tensor) {
	given, p, also := []kernels.Tensor{dst}, then, []int(nil)
	for _, b := range []kernels.Buffer{a.Scale, a.Shift} {
		if b != nil {
			channels := kernels.Tensor{Buf: b, Shape: dst.Shape, Stride: make([]int, len(dst.Shape))}
			channels.Stride[len(dst.Shape)-1] = 1
			given = append(given, channels)
		}
	}
	if len(given) > 1 {
		p = withAffine(then, len(given) > 2)
	}
	if p != nil {
		also = p.Also
	}
	read := p.Operands - len(given)
	given = append(given, operands[:read]...)
	for i, r := range also {
		o.mapTo(operands[read+i], upTo(p, r), given)
	}
	o.mapTo(dst, p, given)
}

// withAffine is a program that multiplies operand 0 by operand 1, if it is scaled, adds the next one, and then computes as
// then does, if given, of that and of the operands that follow.
func withAffine(then *kernels.Program, scaled bool) *kernels.Program {
	more := 1
	if scaled {
		more = 2
	}
	p := &kernels.Program{Operands: 1 + more}
	if then != nil {
		p.Operands = then.Operands + more
	}
	if scaled {
		p.Code = append(p.Code, kernels.Instruction{Op: kernels.Mul, A: 0, B: 1}, kernels.Instruction{Op: kernels.Add, A: p.Operands, B: 2})
	} else {
		p.Code = append(p.Code, kernels.Instruction{Op: kernels.Add, A: 0, B: 1})
	}
	if then == nil {
		return p
	}
	result := p.Operands + len(p.Code) - 1
	moved := func(register int) int { // behind as many operands more, and as many instructions; the sum is what operand 0 was
		switch {
		case register == 0:
			return result
		case register < then.Operands:
			return register + more
		}
		return register + 2*more
	}
	for _, in := range then.Code {
		in.A, in.B, in.C = moved(in.A), moved(in.B), moved(in.C)
		p.Code = append(p.Code, in)
	}
	for _, r := range then.Also {
		p.Also = append(p.Also, moved(r))
	}
	return p
}

// zeros is a program that makes zeros.
var zeros = &kernels.Program{Code: []kernels.Instruction{{Op: kernels.Constant}}}

// backwardByLibrary is ConvBackward by the library, if it computes that.
func (o *networkOperations) backwardByLibrary(f *filter, dst, src kernels.Tensor, origin []int) bool {
	t, ok := o.plan(f, dst, src, kernels.Affine{}, origin, true, nil)
	if !ok {
		return false
	}
	for i, d := range t.dims {
		if at := i + len(origin) - 2; at >= 0 && !d.isWhole(d.input, dst.Shape[at+1]) { // inputs that are no tap
			o.mapTo(dst, zeros, nil)
			break
		}
	}
	o.run(f, nil, t)
	return true
}

// PrepareConv makes ready what Conv needs for these operands.
func (o *networkOperations) PrepareConv(dst, src kernels.Tensor, f kernels.Filter, a kernels.Affine, origin []int, then *kernels.Program) {
	if own, ok := o.own(f); ok && dst.Elements() > 0 && !o.refused(kernels.CheckConv(dst, src, own.spec, a, origin, nil, nil)) {
		o.plan(own, src, dst, a, origin, false, then)
	}
}

// PrepareConvBackward makes ready what ConvBackward needs.
func (o *networkOperations) PrepareConvBackward(dst, src kernels.Tensor, f kernels.Filter, origin []int) {
	if own, ok := o.own(f); ok && dst.Elements() > 0 && src.Elements() > 0 && !o.refused(kernels.CheckConvBackward(dst, src, own.spec, origin)) {
		o.plan(own, dst, src, kernels.Affine{}, origin, true, nil)
	}
}
