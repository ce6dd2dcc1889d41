package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
)

// timed is a device that keeps how long its calls took at the least.
type timed struct {
	kernels.Networks
	spent map[string]*spent
}

// spent is the calls of one kind and shape.
type spent struct {
	least time.Duration
	calls int
}

// count adds a call that began at start; it is deferred.
func (t *timed) count(start time.Time, format string, args ...any) {
	took := time.Since(start)
	name := fmt.Sprintf(format, args...)
	s := t.spent[name]
	if s == nil {
		s = &spent{least: took}
		t.spent[name] = s
	}
	s.least = min(s.least, took)
	s.calls++
}

// reportKernelTimes lists the kinds, the longest first, and ends with an empty line.
func (t *timed) reportKernelTimes() string {
	var b strings.Builder
	total := func(s *spent) float64 { return s.least.Seconds() * 1e3 * float64(s.calls) }
	names := slices.SortedFunc(maps.Keys(t.spent), func(x, y string) int { return cmp.Compare(total(t.spent[y]), total(t.spent[x])) })
	sum := 0.0
	for _, name := range names {
		s := t.spent[name]
		sum += total(s)
		fmt.Fprintf(&b, "%9.3f ms = %6d calls of %.3f  %s\n", total(s), s.calls, s.least.Seconds()*1e3, name)
	}
	return fmt.Sprintf("%9.3f ms in all\n", sum) + b.String() + "\n"
}

func programLength(p *kernels.Program) int {
	if p == nil {
		return 0
	}
	return len(p.Code)
}

func (t *timed) Conv(dst, src kernels.Tensor, f kernels.Filter, a kernels.Affine, origin []int, then *kernels.Program, operands ...kernels.Tensor) {
	start := time.Now()
	t.Networks.Conv(dst, src, f, a, origin, then, operands...)
	s := f.Spec()
	t.count(start, "conv %v to %v, kernel %v strides %v groups %d, %d instructions", src.Shape, dst.Shape, s.Kernel, s.Strides, s.Groups, programLength(then))
}

func (t *timed) ConvBackward(dst, src kernels.Tensor, f kernels.Filter, origin []int) {
	start := time.Now()
	t.Networks.ConvBackward(dst, src, f, origin)
	s := f.Spec()
	t.count(start, "conv backward %v to %v, kernel %v strides %v groups %d", src.Shape, dst.Shape, s.Kernel, s.Strides, s.Groups)
}

// Pack and those beside it are of the device if it is a kernels.Packer, as the processor is.
func (t *timed) Pack(dst kernels.Tensor, s kernels.ConvSpec, weight kernels.Tensor) {
	start := time.Now()
	t.Networks.(kernels.Packer).Pack(dst, s, weight)
	t.count(start, "pack %v strides %v", weight.Shape, weight.Stride)
}

func (t *timed) PackedFloats(s kernels.ConvSpec) int {
	return t.Networks.(kernels.Packer).PackedFloats(s)
}

func (t *timed) Packed(s kernels.ConvSpec, at kernels.Tensor) kernels.Filter {
	return t.Networks.(kernels.Packer).Packed(s, at)
}

func (t *timed) Pool(dst, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	start := time.Now()
	t.Networks.Pool(dst, src, s, origin)
	t.count(start, "pool %v to %v, kernel %v strides %v", src.Shape, dst.Shape, s.Kernel, s.Strides)
}

func (t *timed) PoolBackward(dst, grad, src kernels.Tensor, s kernels.PoolSpec, origin []int) {
	start := time.Now()
	t.Networks.PoolBackward(dst, grad, src, s, origin)
	t.count(start, "pool backward %v to %v, kernel %v strides %v", grad.Shape, dst.Shape, s.Kernel, s.Strides)
}

func (t *timed) Interpolate(dst, src kernels.Tensor, dim int, taps kernels.Taps) {
	start := time.Now()
	t.Networks.Interpolate(dst, src, dim, taps)
	t.count(start, "interpolate %v to %v", src.Shape, dst.Shape)
}

func (t *timed) MatMul(dst, a, b kernels.Tensor) {
	start := time.Now()
	t.Networks.MatMul(dst, a, b)
	t.count(start, "matrix product %v and %v", a.Shape, b.Shape)
}

func (t *timed) Map(dst kernels.Tensor, p *kernels.Program, operands ...kernels.Tensor) {
	start := time.Now()
	t.Networks.Map(dst, p, operands...)
	var strides [][]int
	for _, o := range operands {
		strides = append(strides, o.Stride)
	}
	t.count(start, "map %v strides %v of %v, %d instructions", dst.Shape, dst.Stride, strides, programLength(p))
}

func (t *timed) Reduce(dst, src kernels.Tensor, how kernels.Reduction) {
	start := time.Now()
	t.Networks.Reduce(dst, src, how)
	t.count(start, "reduce %v to %v", src.Shape, dst.Shape)
}
