package networktest

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// testPack packs filters of weights that lie in any way, if the backend can.
func (s suite) testPack(t *testing.T) {
	if _, ok := newDevice(t, s.open).Networks.(kernels.Packer); !ok {
		t.Skip("the backend packs no filters that are computed")
	}
	s.eachConv(t, 60, func(d *device, c Conv) { d.comparePacked(c) })
	d := newDevice(t, s.open)
	p, spec := d.Networks.(kernels.Packer), newSquareConv(1, 6, 8, 8, 2, 3, 1).ConvSpec
	floats := p.PackedFloats(spec)
	dst, weight := d.newView([]int{floats}, []int{1}), d.newView([]int{2, 4, 4, 3, 3}, []int{144, 36, 9, 3, 1})
	for what, call := range map[string]func(){
		"too short a result":          func() { p.Pack(d.newView([]int{floats - 1}, []int{1}), spec, weight) },
		"a result with gaps":          func() { p.Pack(d.newView([]int{floats}, []int{2}), spec, weight) },
		"weights of fewer dimensions": func() { p.Pack(dst, spec, d.newView([]int{8, 4, 3, 3}, []int{36, 9, 3, 1})) },
		"weights beyond their buffer": func() {
			p.Pack(dst, spec, kernels.Tensor{Buf: weight.Buf, Shape: weight.Shape, Stride: []int{1 << 20, 36, 9, 3, 1}})
		},
		"a convolution without groups": func() {
			p.Pack(dst, kernels.ConvSpec{In: 8, Out: 8, Kernel: []int{1}, Strides: []int{1}, Dilations: []int{1}}, weight)
		},
	} {
		call()
		if d.Sync() == nil {
			t.Errorf("%s is not refused", what)
		}
	}
}

// comparePacked compares a filter that was packed on the device with one that was made of the same weights, bit for bit.
func (d *device) comparePacked(c Conv) {
	d.t.Helper()
	p, f := d.Networks.(kernels.Packer), d.drawLayer(c)
	shape := append([]int{c.Groups, c.Out / c.Groups, c.In / c.Groups}, c.Kernel...)
	weight := d.writeElements(d.newView(shape, d.anyStrides(shape, false)), Array{shape, f.weight.V})
	at := d.newView([]int{p.PackedFloats(c.ConvSpec)}, []int{1})
	p.Pack(at, c.ConvSpec, weight)
	d.checkGaps("packing", at)
	x, g := d.uploadImage(d.drawNormalArray(c.InputShape()...)), d.uploadImage(d.drawNormalArray(c.OutputShape()...))
	var forward, backward [2][]uint32
	for i, filter := range []kernels.Filter{f.Filter, p.Packed(c.ConvSpec, at)} {
		y, dx := d.newView(c.OutputShape(), denseStrides(c.OutputShape())), d.newView(c.InputShape(), denseStrides(c.InputShape()))
		d.Conv(y, x, filter, f.Affine, c.Origin, nil)
		d.ConvBackward(dx, g, filter, c.Origin)
		forward[i], backward[i] = slices.Clone(d.elementBits(y)), d.elementBits(dx)
	}
	d.sameBits("convolution by a packed filter", forward[1], forward[0])
	d.sameBits("convolution backward by a packed filter", backward[1], backward[0])
}
