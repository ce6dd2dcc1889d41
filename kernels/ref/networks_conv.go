package ref

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// filter has its weights as [tap][group][input of the group][output of the group].
type filter struct {
	spec   kernels.ConvSpec
	weight []float32
}

func (f *filter) Spec() kernels.ConvSpec { return f.spec }
func (f *filter) Bytes() int64           { return 4 * int64(len(f.weight)) }
func (f *filter) Free()                  { f.weight = nil }

// NewFilter puts the outputs of a group last, so that sums over inputs go through memory in order.
func (b *Backend) NewFilter(s kernels.ConvSpec, weight kernels.HostTensor) (kernels.Filter, error) {
	if err := kernels.CheckFilter(s, weight); err != nil {
		return nil, fmt.Errorf("ref: %w", err)
	}
	in, out := s.In/s.Groups, s.Out/s.Groups
	taps := s.Taps() / in
	rows := make([]float32, s.Out*s.Taps())
	kernels.Expand(rows, weight.Type, weight.Data)
	f := &filter{spec: s, weight: make([]float32, len(rows))}
	for o := range s.Out {
		for c := range in {
			for tap := range taps {
				f.weight[((tap*s.Groups+o/out)*in+c)*out+o%out] = rows[(o*in+c)*taps+tap]
			}
		}
	}
	return f, nil
}

// ownFilter is the filter if it is one of this package.
func (b *Backend) ownFilter(f kernels.Filter) (*filter, bool) {
	if own, ok := f.(*filter); ok && own.weight != nil {
		return own, true
	}
	b.recordFailure("%T is not a filter of this backend, or was freed", f)
	return nil, false
}

// Conv sums in float64 and rounds once, after scale and shift.
func (b *Backend) Conv(dst, src kernels.Tensor, f kernels.Filter, a kernels.Affine, origin []int, then *kernels.Program, operands ...kernels.Tensor) {
	own, ok := b.ownFilter(f)
	if !ok || b.recordError(kernels.CheckConv(dst, src, own.spec, a, origin, then, operands)) {
		return
	}
	scale, shift := bufferFloats(a.Scale), bufferFloats(a.Shift)
	out, in, w := imageOf(dst), imageOf(src), windowOf(own.spec.Kernel, own.spec.Strides, own.spec.Dilations, origin)
	out.forEachRow(func(n int, at [3]int) {
		sums.withZeros(out.c, func(sum []float64) {
			for at[2] = range out.size[2] {
				clear(sum)
				own.addTapProducts(sum, &in, w, n, at)
				pixel := out.pixelChannels(n, at)
				for i, v := range sum {
					if scale != nil {
						v *= float64(scale[i])
					}
					if shift != nil {
						v += float64(shift[i])
					}
					pixel[i] = float32(v)
				}
			}
		})
	})
	if then != nil {
		read := then.Operands - 1
		mapTo(append([]kernels.Tensor{dst}, operands[read:]...), then, append([]kernels.Tensor{dst}, operands[:read]...))
	}
}

// bufferFloats is what a buffer holds; nil of none.
func bufferFloats(b kernels.Buffer) []float32 {
	if b == nil {
		return nil
	}
	return b.(*buffer).floats
}

// addTapProducts adds to sums of the outputs at a place the products of all their taps.
func (f *filter) addTapProducts(sums []float64, in *image, w window, n int, output [3]int) {
	for tap := range w.tapCount() {
		if at := w.inputOfTap(output, tap); isInside(at, in.size) {
			f.addTap(sums, in.pixelChannels(n, at), tap)
		}
	}
}

// addTap adds the products of one tap's weights.
func (f *filter) addTap(sums []float64, pixel []float32, tap int) {
	in, out := f.spec.In/f.spec.Groups, f.spec.Out/f.spec.Groups
	weight := f.weight[tap*in*f.spec.Out:]
	if in == 1 && out == 1 {
		for c, x := range pixel {
			sums[c] += float64(x) * float64(weight[c])
		}
		return
	}
	for c, x := range pixel {
		of := sums[c/in*out : c/in*out+out]
		for o, v := range weight[c*out : c*out+out] {
			of[o] += float64(x) * float64(v)
		}
	}
}

// ConvBackward gathers, for each input, from the outputs that it is a tap of.
func (b *Backend) ConvBackward(dst, src kernels.Tensor, f kernels.Filter, origin []int) {
	own, ok := b.ownFilter(f)
	if !ok || b.recordError(kernels.CheckConvBackward(dst, src, own.spec, origin)) {
		return
	}
	in, out, w := imageOf(dst), imageOf(src), windowOf(own.spec.Kernel, own.spec.Strides, own.spec.Dilations, origin)
	in.forEachRow(func(n int, at [3]int) {
		sums.withZeros(in.c, func(sum []float64) {
			for at[2] = range in.size[2] {
				clear(sum)
				for tap := range w.tapCount() {
					if output, ok := w.output(at, tap); ok && isInside(output, out.size) {
						own.addTapBackward(sum, out.pixelChannels(n, output), tap)
					}
				}
				for i, v := range sum {
					in.pixelChannels(n, at)[i] = float32(v)
				}
			}
		})
	})
}

// addTapBackward adds to the inputs' sums what one tap took to the outputs.
func (f *filter) addTapBackward(sums []float64, pixel []float32, tap int) {
	in, out := f.spec.In/f.spec.Groups, f.spec.Out/f.spec.Groups
	weight := f.weight[tap*in*f.spec.Out:]
	if in == 1 && out == 1 {
		for c, x := range pixel {
			sums[c] += float64(x) * float64(weight[c])
		}
		return
	}
	for c := range sums {
		from, sum := pixel[c/in*out:], 0.0
		for o, v := range weight[c*out : c*out+out] {
			sum += float64(from[o]) * float64(v)
		}
		sums[c] += sum
	}
}
