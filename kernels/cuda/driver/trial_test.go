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
			d := simt.New()
			defer d.Close()
			err := trial(altered{d, c.alter}, c.shape)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if free, total, err := d.Memory(); err != nil || free != total {
				t.Errorf("%d of %d bytes are free afterwards, %v", free, total, err)
			}
		})
	}
}
