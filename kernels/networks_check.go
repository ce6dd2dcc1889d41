package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxDims is how many dimensions a Tensor may have.
const MaxDims = 8

// Figures of convolutions and pools are at most these, so that places in an input do not overflow.
const (
	maxWindow = 1 << 20 // of a kernel, a stride and a dilation
	maxOrigin = 1 << 40
)

// Check says whether all elements of the view lie in its buffer, and names the figure that is wrong.
func (t *Tensor) Check() error {
	if len(t.Shape) != len(t.Stride) || len(t.Shape) > MaxDims {
		return fmt.Errorf("tensor has %d dimensions and %d strides, want as many of both, at most %d", len(t.Shape), len(t.Stride), MaxDims)
	}
	empty := false
	for _, d := range t.Shape {
		if d < 0 || d > math.MaxInt32 {
			return fmt.Errorf("invalid dimension %d in shape %v", d, t.Shape)
		}
		empty = empty || d == 0
	}
	if t.Buf == nil || t.Off < 0 || t.Off%4 != 0 || t.Off > t.Buf.Bytes() {
		return fmt.Errorf("invalid offset of tensor %v: byte %d of its buffer", t.Shape, t.Off)
	}
	if empty {
		return nil
	}
	elements := t.Buf.Bytes() / 4
	first, last := t.Off/4, t.Off/4
	inside := last < elements
	for i, d := range t.Shape {
		s := int64(t.Stride[i])
		if d == 1 || s == 0 {
			continue
		}
		if s > elements || s < -elements || int64(d-1) > elements/max(s, -s) {
			inside = false
			break
		}
		first += min(0, s*int64(d-1))
		last += max(0, s*int64(d-1))
		inside = inside && first >= 0 && last < elements
	}
	if !inside {
		return fmt.Errorf("tensor %v with strides %v from element %d exceeds its buffer of %d", t.Shape, t.Stride, t.Off/4, elements)
	}
	return nil
}

// checkDistinct says whether no two elements share a place, as it is where dimensions nest in each other.
func (t *Tensor) checkDistinct() error {
	dims := make([]int, 0, MaxDims)
	for i, d := range t.Shape {
		if d == 0 {
			return nil
		}
		if d > 1 {
			dims = append(dims, i)
		}
	}
	size := func(i int) int { return max(t.Stride[i], -t.Stride[i]) }
	slices.SortFunc(dims, func(a, b int) int { return size(a) - size(b) })
	extent := 1
	for _, i := range dims {
		if size(i) < extent {
			return fmt.Errorf("result %v with strides %v overlaps itself", t.Shape, t.Stride)
		}
		extent += size(i) * (t.Shape[i] - 1)
	}
	return nil
}

// checkImage says whether t is [N, spatial..., C] with so many spatial dimensions and channels, that nest.
func (t *Tensor) checkImage(spatial, channels int) error {
	if err := t.Check(); err != nil {
		return err
	}
	if len(t.Shape) != spatial+2 || t.Shape[spatial+1] != channels {
		return fmt.Errorf("image %v, want %d spatial dimensions and %d channels", t.Shape, spatial, channels)
	}
	if t.Elements() == 0 {
		return nil
	}
	extent := 1
	for i := spatial + 1; i >= 0; i-- {
		s := t.Stride[i]
		if t.Shape[i] > 1 && (s < extent || i == spatial+1 && s != 1) {
			return fmt.Errorf("image %v with strides %v is not part of a dense one", t.Shape, t.Stride)
		}
		extent += s * (t.Shape[i] - 1)
	}
	return nil
}

// checkWindow checks the figures of a convolution or pool.
func checkWindow(kernel, strides, dilations []int) error {
	if n := len(kernel); n < 1 || n > 3 || len(strides) != n || len(dilations) != n {
		return fmt.Errorf("kernel %v, strides %v, dilations %v: want 1 to 3 values of each", kernel, strides, dilations)
	}
	for _, figures := range [][]int{kernel, strides, dilations} {
		for _, f := range figures {
			if f < 1 || f > maxWindow {
				return fmt.Errorf("kernel %v, strides %v, dilations %v: invalid value %d, want 1 to %d", kernel, strides, dilations, f, maxWindow)
			}
		}
	}
	return nil
}

func checkOrigin(origin []int, spatial int) error {
	if len(origin) != spatial {
		return fmt.Errorf("origin %v, want %d values", origin, spatial)
	}
	for _, o := range origin {
		if o < -maxOrigin || o > maxOrigin {
			return fmt.Errorf("invalid origin %v: want values within %d", origin, maxOrigin)
		}
	}
	return nil
}

// Check says whether s is a convolution.
func (s *ConvSpec) Check() error {
	if err := checkWindow(s.Kernel, s.Strides, s.Dilations); err != nil {
		return err
	}
	if s.In < 1 || s.Out < 1 || s.Groups < 1 || s.In%s.Groups != 0 || s.Out%s.Groups != 0 {
		return fmt.Errorf("cannot divide %d and %d channels into %d groups", s.In, s.Out, s.Groups)
	}
	weights := float64(s.Out) * float64(s.In/s.Groups)
	for _, k := range s.Kernel {
		weights *= float64(k)
	}
	if weights > math.MaxInt32 {
		return fmt.Errorf("convolution has %g weights, too many", weights)
	}
	return nil
}

// CheckFilter says whether weight is that of s.
func CheckFilter(s ConvSpec, weight HostTensor) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := weight.CheckUnquantized(); err != nil {
		return err
	}
	if weight.Rows != s.Out || weight.Cols != s.Taps() {
		return fmt.Errorf("tensor %q is [%d, %d], want a filter [%d, %d]", weight.Name, weight.Rows, weight.Cols, s.Out, s.Taps())
	}
	return nil
}

// CheckPack checks the operands of Packer.Pack, whose result is of so many elements.
func CheckPack(dst Tensor, floats int, s ConvSpec, weight Tensor) error {
	err := s.Check()
	for _, t := range []*Tensor{&dst, &weight} {
		if err == nil {
			err = t.Check()
		}
	}
	want := append([]int{s.Groups, s.Out / max(s.Groups, 1), s.In / max(s.Groups, 1)}, s.Kernel...)
	switch {
	case err != nil:
		return fmt.Errorf("pack: %w", err)
	case floats == 0 || len(dst.Shape) != 1 || dst.Shape[0] != floats || dst.Stride[0] != 1:
		return fmt.Errorf("pack: result %v with strides %v, want %d elements in a row", dst.Shape, dst.Stride, floats)
	case !slices.Equal(weight.Shape, want):
		return fmt.Errorf("pack: weights %v, want %v", weight.Shape, want)
	}
	return nil
}

// check says whether a has so many outputs.
func (a *Affine) check(outputs int) error {
	if a.Scale != nil && a.Shift == nil {
		return errors.New("a scale without a shift: give zeros")
	}
	for _, b := range []Buffer{a.Scale, a.Shift} {
		if b != nil && b.Bytes() < 4*int64(outputs) {
			return fmt.Errorf("a scale or shift of %d bytes for %d outputs, want %d", b.Bytes(), outputs, 4*outputs)
		}
	}
	return nil
}

// CheckConv checks the operands of Networks.Conv.
func CheckConv(dst, src Tensor, s ConvSpec, a Affine, origin []int, then *Program, operands []Tensor) error {
	err := checkConv(dst, src, s, origin)
	if err == nil {
		err = a.check(s.Out)
	}
	if err != nil {
		return fmt.Errorf("convolution: %w", err)
	}
	if then == nil {
		if len(operands) != 0 {
			return fmt.Errorf("convolution: got %d operands without a program", len(operands))
		}
		return nil
	}
	read := len(operands) - len(then.Also)
	if then.Operands != read+1 {
		return fmt.Errorf("convolution: program has %d operands and %d more results, got %d tensors beside the sum", then.Operands, len(then.Also), len(operands))
	}
	if err := checkProgram(dst, then, operands); err != nil {
		return err
	}
	for _, t := range operands[read:] {
		if err := t.checkDistinct(); err != nil {
			return fmt.Errorf("convolution: %w", err)
		}
	}
	return nil
}

// checkConv checks input and output of a convolution.
func checkConv(output, input Tensor, s ConvSpec, origin []int) error {
	if err := output.checkImage(len(s.Kernel), s.Out); err != nil {
		return err
	}
	if err := input.checkImage(len(s.Kernel), s.In); err != nil {
		return err
	}
	if output.Shape[0] != input.Shape[0] {
		return fmt.Errorf("got %d images, output has %d", input.Shape[0], output.Shape[0])
	}
	return checkOrigin(origin, len(s.Kernel))
}

// CheckConvBackward checks the operands of Networks.ConvBackward.
func CheckConvBackward(dst, src Tensor, s ConvSpec, origin []int) error {
	if err := checkConv(src, dst, s, origin); err != nil {
		return fmt.Errorf("convolution backward: %w", err)
	}
	return nil
}

// CheckPool checks the operands of Networks.Pool.
func CheckPool(dst, src Tensor, s PoolSpec, origin []int) error {
	if err := checkPool(dst, src, s, origin); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	return nil
}

func checkPool(output, input Tensor, s PoolSpec, origin []int) error {
	if err := checkWindow(s.Kernel, s.Strides, s.Dilations); err != nil {
		return err
	}
	if !s.Max && s.Counted && len(s.CountedEnd) != len(s.Kernel) {
		return fmt.Errorf("mean over %d spatial dimensions has counted end %v", len(s.Kernel), s.CountedEnd)
	}
	if len(output.Shape) == 0 {
		return fmt.Errorf("output has no dimensions")
	}
	channels := output.Shape[len(output.Shape)-1]
	return checkConv(output, input, ConvSpec{In: channels, Out: channels, Kernel: s.Kernel}, origin)
}

// CheckPoolBackward checks the operands of Networks.PoolBackward; src is one only of a maximum.
func CheckPoolBackward(dst, grad, src Tensor, s PoolSpec, origin []int) error {
	err := checkPool(grad, dst, s, origin)
	if err == nil && s.Max {
		if err = checkPool(grad, src, s, origin); err == nil && !slices.Equal(src.Shape, dst.Shape) {
			err = fmt.Errorf("gradient of input %v has shape %v", src.Shape, dst.Shape)
		}
	}
	if err != nil {
		return fmt.Errorf("pool backward: %w", err)
	}
	return nil
}

// checkResult checks a result whose strides may be any, and its operands.
func checkResult(dst Tensor, operands ...Tensor) error {
	for _, t := range append([]Tensor{dst}, operands...) {
		if err := t.Check(); err != nil {
			return err
		}
	}
	return dst.checkDistinct()
}

// CheckInterpolate checks the operands of Networks.Interpolate.
func CheckInterpolate(dst, src Tensor, dim int, t Taps) error {
	if err := checkResult(dst, src); err != nil {
		return fmt.Errorf("interpolation: %w", err)
	}
	if dim < 0 || dim >= len(dst.Shape) || len(src.Shape) != len(dst.Shape) {
		return fmt.Errorf("cannot interpolate %v to %v along dimension %d", src.Shape, dst.Shape, dim)
	}
	for i := range dst.Shape {
		if i != dim && dst.Shape[i] != src.Shape[i] {
			return fmt.Errorf("cannot interpolate %v to %v along dimension %d", src.Shape, dst.Shape, dim)
		}
	}
	if err := t.check(dst.Shape[dim], src.Shape[dim]); err != nil {
		return fmt.Errorf("interpolation: %w", err)
	}
	return nil
}

// check says whether t makes out elements of in.
func (t *Taps) check(out, in int) error {
	if len(t.Start) != out+1 || t.Start[0] < 0 || int(t.Start[out]) > len(t.Index) || len(t.Index) != len(t.Weight) {
		return fmt.Errorf("got %d starts, %d indices and %d weights of taps for %d outputs", len(t.Start), len(t.Index), len(t.Weight), out)
	}
	for i := range out {
		if t.Start[i] > t.Start[i+1] {
			return fmt.Errorf("invalid taps of output %d: %d to %d", i, t.Start[i], t.Start[i+1])
		}
	}
	for _, i := range t.Index {
		if i < 0 || int(i) >= in {
			return fmt.Errorf("invalid tap %d: want below %d", i, in)
		}
	}
	return nil
}

// CheckMatMul checks the operands of Networks.MatMul.
func CheckMatMul(dst, a, b Tensor) error {
	if err := checkResult(dst, a, b); err != nil {
		return fmt.Errorf("matrix product: %w", err)
	}
	n := len(dst.Shape) - 2
	if n < 0 || len(a.Shape) != n+2 || len(b.Shape) != n+2 ||
		!slices.Equal(dst.Shape[:n], a.Shape[:n]) || !slices.Equal(dst.Shape[:n], b.Shape[:n]) ||
		dst.Shape[n] != a.Shape[n] || a.Shape[n+1] != b.Shape[n] || dst.Shape[n+1] != b.Shape[n+1] {
		return fmt.Errorf("cannot multiply %v by %v into %v", a.Shape, b.Shape, dst.Shape)
	}
	return nil
}

// CheckMap checks the operands of Networks.Map.
func CheckMap(dst Tensor, p *Program, operands []Tensor) error {
	if err := checkResult(dst); err != nil {
		return fmt.Errorf("map: %w", err)
	}
	if p == nil {
		return errors.New("map: got no program, want one")
	}
	if p.Operands != len(operands) {
		return fmt.Errorf("map: got %d operands, want %d", len(operands), p.Operands)
	}
	if len(p.Also) != 0 {
		return fmt.Errorf("map: program has %d results, want 1", 1+len(p.Also))
	}
	return checkProgram(dst, p, operands)
}

// checkProgram checks p and that operands have dst's shape.
func checkProgram(dst Tensor, p *Program, operands []Tensor) error {
	if err := p.Check(); err != nil {
		return err
	}
	for i, o := range operands {
		if err := o.Check(); err != nil {
			return fmt.Errorf("operand %d: %w", i, err)
		}
		if !slices.Equal(o.Shape, dst.Shape) {
			return fmt.Errorf("operand %d is %v, result is %v", i, o.Shape, dst.Shape)
		}
	}
	return nil
}

// CheckReduce checks the operands of Networks.Reduce.
func CheckReduce(dst, src Tensor, how Reduction) error {
	if err := checkResult(dst, src); err != nil {
		return fmt.Errorf("reduction: %w", err)
	}
	if how > Product {
		return fmt.Errorf("unknown reduction %d", how)
	}
	if len(dst.Shape) != len(src.Shape) {
		return fmt.Errorf("cannot reduce %v to %v", src.Shape, dst.Shape)
	}
	for i, d := range dst.Shape {
		if d != src.Shape[i] && d != 1 {
			return fmt.Errorf("cannot reduce %v to %v", src.Shape, dst.Shape)
		}
	}
	return nil
}
