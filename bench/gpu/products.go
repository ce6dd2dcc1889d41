package main

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// made returns device memory with so many random bfloat16 values.
func (b *bench) made(name string, values int) (kernels.Buffer, error) {
	buf, err := b.backend.Alloc(2 * int64(values))
	if err != nil {
		return nil, err
	}
	key, scale := random.Stream(name, 1024)
	b.backend.Fill(buf, 0, int64(values), key, scale)
	return buf, nil
}

// product is a matrix product over random values, which takes turns over copies of its weights, so
// that they come from memory as a model's do.
type product struct {
	gemms   []cuda.Gemm
	buffers []kernels.Buffer
	turn    int
}

func (b *bench) newProduct(m matrix, rows int, rotate int64) (*product, error) {
	p := &product{}
	make := func(name string, bytes int) (cuda.Ptr, error) {
		buf, err := b.made(name, bytes/2)
		if err != nil {
			return 0, err
		}
		p.buffers = append(p.buffers, buf)
		return cuda.Address(buf), nil
	}
	g := cuda.Gemm{M: rows, N: m.out, K: m.in, AStride: m.in, DStride: m.out, DType: kernels.BF16}
	if m.adds {
		g.DType, g.Accumulate = kernels.F32, true
	}
	var err error
	if g.A, err = make("input", 2*rows*m.in); err != nil {
		return p, err
	}
	if g.D, err = make("output", int(g.DType.Size())*rows*m.out); err != nil {
		return p, err
	}
	bytes := 2 * m.out * m.in
	for range max(1, int(rotate/int64(bytes))) {
		if g.W, err = make(fmt.Sprint("weights ", len(p.gemms)), bytes); err != nil {
			return p, err
		}
		p.gemms = append(p.gemms, g)
	}
	return p, nil
}

func (p *product) free() {
	for _, buf := range p.buffers {
		buf.Free()
	}
}

// median is the time of one product.
func (b *bench) medianProduct(m matrix, rows int, rotate int64) (time.Duration, error) {
	p, err := b.newProduct(m, rows, rotate)
	defer p.free()
	if err != nil {
		return 0, err
	}
	const each = 8 // products between two marks
	took, err := b.device.median(b.runs, func() {
		for range each {
			b.device.Gemm(p.gemms[p.turn%len(p.gemms)])
			p.turn++
		}
	})
	return took / each, err
}

// gemmCeiling measures one large product by itself, which bounds any model's rate, and returns FLOP/s.
func (b *bench) gemmCeiling() (float64, error) {
	n := b.ceiling
	took, err := b.medianProduct(matrix{"ceiling", n, n, false}, n, 0)
	if err != nil {
		return 0, err
	}
	rate := 2 * float64(n) * float64(n) * float64(n) / took.Seconds()
	fmt.Fprintf(b.out, "GEMM ceiling, %d x %d x %d in bfloat16, random values: %.4g TFLOP/s.\n\n", n, n, n, rate/1e12)
	return rate, nil
}

// products measures a layer's matrices at several numbers of rows.
func (b *bench) products() error {
	if _, err := b.gemmCeiling(); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s's products, TFLOP/s, weights from memory.\n\n| rows |", b.model.Name)
	for _, m := range b.model.matrices() {
		fmt.Fprintf(b.out, " %s [%d, %d] |", m.name, m.out, m.in)
	}
	fmt.Fprint(b.out, " a layer, us | a layer |\n|---|---|---|---|---|---|---|\n")
	for _, rows := range b.rows {
		fmt.Fprintf(b.out, "| %d |", rows)
		var layer time.Duration
		var operations float64
		for _, m := range b.model.matrices() {
			took, err := b.medianProduct(m, rows, b.rotate)
			if err != nil {
				return err
			}
			work := 2 * float64(rows) * float64(m.out) * float64(m.in)
			fmt.Fprintf(b.out, " %.4g |", work/took.Seconds()/1e12)
			layer += took
			operations += work
		}
		fmt.Fprintf(b.out, " %.4g | %.4g |\n", layer.Seconds()*1e6, operations/layer.Seconds()/1e12)
	}
	return nil
}
