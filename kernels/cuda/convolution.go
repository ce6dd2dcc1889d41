package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// strip is PF_STRIP of src/convolution.cu.
const strip = 4

// filter is a convolution's weights on the device, twice: threads side by side, which compute channels side by
// side, read weights side by side.
type filter struct {
	spec              kernels.ConvSpec
	forward, backward kernels.Buffer // [tap][input of the group][output], [tap][output of the group][input]
	rows              kernels.Buffer // for a library: nil, or [output][tap][input of the group]
}

func (f *filter) Spec() kernels.ConvSpec { return f.spec }

func (f *filter) Bytes() int64 {
	bytes := f.forward.Bytes() + f.backward.Bytes()
	if f.rows != nil {
		bytes += f.rows.Bytes()
	}
	return bytes
}

// Free frees all that was made.
func (f *filter) Free() {
	for _, b := range []kernels.Buffer{f.forward, f.backward, f.rows} {
		if b != nil {
			b.Free()
		}
	}
}

// NewFilter uploads both orders, and a third one for a library that may compute it.
func (o *networkOperations) NewFilter(s kernels.ConvSpec, weight kernels.HostTensor) (kernels.Filter, error) {
	if err := kernels.CheckFilter(s, weight); err != nil {
		return nil, err
	}
	rows, err := expandToFloat32(weight)
	if err != nil {
		return nil, err
	}
	f := &filter{spec: s}
	forward, backward := packWeights(s, rows)
	if f.forward, err = o.upload(forward); err == nil {
		f.backward, err = o.upload(backward)
	}
	if l := o.device.Convolutions(); err == nil && l != nil && len(s.Kernel) <= 2 && l.Open() {
		f.rows, err = o.upload(channelsLast(s, rows))
	}
	if err != nil {
		f.Free()
		return nil, err
	}
	return f, nil
}

// packWeights orders weights [output][input of the group][tap] for both directions.
func packWeights(s kernels.ConvSpec, rows []float32) (forward, backward []float32) {
	in, out := s.In/s.Groups, s.Out/s.Groups
	taps := s.Taps() / in
	forward, backward = make([]float32, len(rows)), make([]float32, len(rows))
	for i, v := range rows {
		o, c, tap := i/taps/in, i/taps%in, i%taps
		forward[(tap*in+c)*s.Out+o] = v
		backward[(tap*out+o%out)*s.In+o/out*in+c] = v
	}
	return forward, backward
}

// channelsLast orders weights [output][input of the group][tap] as [output][tap][input of the group].
func channelsLast(s kernels.ConvSpec, rows []float32) []float32 {
	in := s.In / s.Groups
	taps := s.Taps() / in
	ordered := make([]float32, len(rows))
	for i, v := range rows {
		o, c, tap := i/taps/in, i/taps%in, i%taps
		ordered[(o*taps+tap)*in+c] = v
	}
	return ordered
}

// expandToFloat32 reads a tensor as float32.
func expandToFloat32(t kernels.HostTensor) ([]float32, error) {
	raw, values := make([]byte, len(t.Data)), make([]float32, t.Rows*t.Cols)
	if err := t.ReadPart(raw, t.Data); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	kernels.Expand(values, t.Type, raw)
	return values, nil
}

func (o *networkOperations) upload(values []float32) (kernels.Buffer, error) {
	b, err := o.device.Alloc(4 * int64(len(values)))
	if err == nil {
		o.device.Write(b, 0, float32Bytes(values))
	}
	return b, err
}

func float32Bytes(values []float32) []byte {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// own is the filter if it is one of this package that was not freed.
func (o *networkOperations) own(f kernels.Filter) (*filter, bool) {
	own, ok := f.(*filter)
	if ok {
		_, ok = o.device.Address(own.forward)
	}
	if !ok {
		o.device.Fail(fmt.Errorf("%T is no filter of this device, or was freed", f))
	}
	return own, ok
}

// convolutionWords are pf_convolution.
func (f *filter) convolutionWords(w words, output, input kernels.Tensor, a kernels.Affine, origin []int, weight kernels.Buffer) words {
	w.addImage(output)
	w.addImage(input)
	w.window(f.spec.Kernel, f.spec.Strides, f.spec.Dilations, origin)
	w.addInts(f.spec.In/f.spec.Groups, f.spec.Out/f.spec.Groups)
	w.addBuffer(weight)
	w.addBuffer(a.Scale)
	w.addBuffer(a.Shift)
	return w
}

// Conv is the library's where it covers it, or our own.
func (o *networkOperations) Conv(dst, src kernels.Tensor, f kernels.Filter, a kernels.Affine, origin []int, then *kernels.Program, operands ...kernels.Tensor) {
	own, ok := o.own(f)
	if !ok || o.refused(kernels.CheckConv(dst, src, own.spec, a, origin, then, operands)) || dst.Elements() == 0 {
		return
	}
	if !o.convByLibrary(own, dst, src, a, origin, then, operands) {
		o.launchConv(own, dst, src, a, origin, then, operands)
	}
}

// launchConv launches one kernel; of a program with many values at a time, a Map in place after it.
func (o *networkOperations) launchConv(own *filter, dst, src kernels.Tensor, a kernels.Affine, origin []int, then *kernels.Program, operands []kernels.Tensor) {
	width, row := dst.Shape[len(dst.Shape)-2], src.Shape[len(src.Shape)-2]*src.Stride[len(src.Stride)-2]
	if row > mostElements || dst.Elements() > mostElements {
		o.device.Fail(fmt.Errorf("convolution: a row of %d elements into %d, at the most %d", row, dst.Elements(), mostElements))
		return
	}
	w := own.convolutionWords(o.newWords(), dst, src, a, origin, own.forward)
	after := o.appendProgram(&w, dst, then, operands)
	o.launch("pf_conv", dst.Elements()/width*((width+strip-1)/strip), w)
	if after {
		o.finish(dst, kernels.Affine{}, then, operands)
	}
}

// upTo is a program whose result is a register of p.
func upTo(p *kernels.Program, register int) *kernels.Program {
	if register < p.Operands {
		return &kernels.Program{Operands: p.Operands, Code: []kernels.Instruction{{Op: kernels.Copy, A: register}}}
	}
	return &kernels.Program{Operands: p.Operands, Code: p.Code[:register-p.Operands+1]}
}

// appendProgram adds the program, or says that it is to be run after the convolution.
func (o *networkOperations) appendProgram(w *words, dst kernels.Tensor, then *kernels.Program, operands []kernels.Tensor) (after bool) {
	if then == nil {
		w.noProgram()
		return false
	}
	a, err := assembleProgram(then, 1)
	if err != nil || a.slots > sharedSlots || len(then.Also) > 0 {
		w.noProgram()
		return true
	}
	t := mergeDims(append([]kernels.Tensor{dst}, operands...)...)
	o.program(w, a, t[0].Shape, t[1:])
	return false
}

// ConvBackward is the library's where it covers it, or our own.
func (o *networkOperations) ConvBackward(dst, src kernels.Tensor, f kernels.Filter, origin []int) {
	own, ok := o.own(f)
	if !ok || o.refused(kernels.CheckConvBackward(dst, src, own.spec, origin)) {
		return
	}
	if src.Elements() == 0 || dst.Elements() == 0 || !o.backwardByLibrary(own, dst, src, origin) {
		o.backward(own, dst, src, origin)
	}
}

// backward launches a thread for each element of the input.
func (o *networkOperations) backward(own *filter, dst, src kernels.Tensor, origin []int) {
	w := own.convolutionWords(o.newWords(), src, dst, kernels.Affine{}, origin, own.backward)
	w.noProgram()
	o.launch("pf_conv_backward", dst.Elements(), w)
}
