package driver

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// altered is a device whose attention in place is wrong.
type altered struct {
	*simt.Device
	alter func(*cuda.Paged)
}

func (a altered) Paged(p cuda.Paged) {
	a.alter(&p)
	a.Device.Paged(p)
}

// expect runs a trial whose error has the words of want, or none if there are none, and that gives its memory back.
func expect(t *testing.T, want string, trial func(d *simt.Device) error) {
	t.Helper()
	d := simt.New()
	defer d.Close()
	err := trial(d)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, want %q", err, want)
	}
	if free, total, err := d.Memory(); err != nil || free != total {
		t.Errorf("%d of %d bytes are free afterwards, %v", free, total, err)
	}
}

// TestTrial: attention that is right passes, for many shapes; a wrong scale, mask or window, and
// results that depend on the size of the call, are found out.
func TestTrial(t *testing.T) {
	shape := cuda.Paged{Heads: kernels.Heads{Q: 4, KV: 2, Dim: 32}, QStride: 8 * 32, OStride: 4 * 32, BlockTokens: 16}
	windowed, wide := shape, shape
	windowed.Window = 9
	wide.QStride, wide.OStride, wide.BlockTokens = 320, 136, 128
	for name, c := range map[string]struct {
		shape cuda.Paged
		alter func(*cuda.Paged)
		want  string
	}{
		"right":           {shape, func(*cuda.Paged) {}, ""},
		"right window":    {windowed, func(*cuda.Paged) {}, ""},
		"right strides":   {wide, func(*cuda.Paged) {}, ""},
		"other scale":     {shape, func(p *cuda.Paged) { p.Scale *= 1.2 }, "differ"},
		"no window":       {windowed, func(p *cuda.Paged) { p.Window = 0 }, "differ"},
		"values for keys": {shape, func(p *cuda.Paged) { p.K = p.V }, "differ"},
		"one head's keys": {shape, func(p *cuda.Paged) { p.V = p.K }, "differ"},
		"size of calls": {shape, func(p *cuda.Paged) {
			if p.Batch > 1 {
				p.Scale *= 1.001
			}
		}, "same call"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, c.want, func(d *simt.Device) error { return trial(altered{d, c.alter}, c.shape) })
		})
	}
}

// off is a device whose products in int8 fail, or are wrong in one code or one sum.
type off struct {
	*simt.Device
	alter func(*cuda.Gemm)
}

func (o off) Gemm(g cuda.Gemm) {
	o.alter(&g)
	o.Device.Gemm(g)
}

// TestTrialInt8: exact sums pass; those of other operands, of too few products, and refusals do not.
func TestTrialInt8(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*cuda.Gemm)
		want  string
	}{
		"right":          {func(*cuda.Gemm) {}, ""},
		"other operands": {func(g *cuda.Gemm) { g.A, g.W = g.W, g.A }, "a product in int8 is wrong on simt: the sum of row 0 and column"},
		"not all of k":   {func(g *cuda.Gemm) { g.K -= 16 }, "wrong on simt: the sum of row 0 and column 0 is 16777216"},
		"refused":        {func(g *cuda.Gemm) { g.N-- }, "not aligned"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, c.want, func(d *simt.Device) error { return trialInt8(off{d, c.alter}) })
		})
	}
}
