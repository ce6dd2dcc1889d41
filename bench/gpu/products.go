package main

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// stream is where the numbers of a buffer begin, and their scale.
func stream(name string) (key uint64, scale float32) {
	return weights.Random{Seed: seed}.Stream(name, 1024)
}

// made returns device memory with so many random bfloat16 values.
func (b *bench) made(name string, values int) (kernels.Buffer, error) {
	buf, err := b.backend.Alloc(2 * int64(values))
	if err != nil {
		return nil, err
	}
	key, scale := stream(name)
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

func (b *bench) newProduct(m matrix, rows int, rotate int64, fp8 bool) (*product, error) {
	p := &product{}
	g := cuda.Gemm{M: rows, N: m.out, K: m.in, AStride: m.in, DStride: m.out, DType: kernels.BF16, FP8: fp8}
	if m.adds {
		g.DType, g.Accumulate = kernels.F32, true
	}
	var err error
	if g.A, g.AScale, err = b.operand(p, "input", rows, m.in, fp8); err != nil {
		return p, err
	}
	d, err := b.made("output", rows*m.out*int(g.DType.Size())/2)
	if err != nil {
		return p, err
	}
	p.buffers = append(p.buffers, d)
	g.D = cuda.Address(d)
	bytes := int64(m.out) * int64(m.in) * 2
	if fp8 {
		bytes /= 2
	}
	for range max(1, rotate/bytes) {
		if g.W, g.WScale, err = b.operand(p, fmt.Sprint("weights ", len(p.gemms)), m.out, m.in, fp8); err != nil {
			return p, err
		}
		p.gemms = append(p.gemms, g)
	}
	return p, nil
}

// operand makes a matrix of p in bfloat16, or in FP8 with its scales.
func (b *bench) operand(p *product, name string, rows, cols int, fp8 bool) (at, scalesAt cuda.Ptr, err error) {
	if !fp8 {
		buf, err := b.made(name, rows*cols)
		if err != nil {
			return 0, 0, err
		}
		p.buffers = append(p.buffers, buf)
		return cuda.Address(buf), 0, nil
	}
	codes, err := b.backend.Alloc(int64(rows) * int64(cols))
	if err != nil {
		return 0, 0, err
	}
	p.buffers = append(p.buffers, codes)
	scales, err := b.backend.Alloc(4 * int64(rows))
	if err != nil {
		return 0, 0, err
	}
	p.buffers = append(p.buffers, scales)
	key, scale := stream(name)
	b.backend.FillFP8(codes, 0, scales, 0, rows, cols, key, scale)
	return cuda.Address(codes), cuda.Address(scales), nil
}

func (p *product) free() {
	for _, buf := range p.buffers {
		buf.Free()
	}
}

// median is the time of one product.
func (b *bench) medianProduct(m matrix, rows int, rotate int64, fp8 bool) (time.Duration, error) {
	p, err := b.newProduct(m, rows, rotate, fp8)
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

// ceilings are the FLOP/s of one large product by itself, which bound any model's: of its linear
// layers and of attention, which is bfloat16.
type ceilings struct{ linear, attention float64 }

// limit is the time of a prompt of n tokens of a device that does every operation at its ceiling.
func (c ceilings) limit(s shape, n int) float64 {
	return s.linearFLOP(n)/c.linear + s.attentionFLOP(n)/c.attention
}

func (b *bench) measureCeilings() (c ceilings, err error) {
	if c.attention, err = b.ceilingOf(false); err != nil {
		return c, err
	}
	c.linear = c.attention
	if b.scaledFP8() {
		c.linear, err = b.ceilingOf(true)
	}
	return c, err
}

// scaledFP8 says whether the model's products are computed in FP8.
func (b *bench) scaledFP8() bool { return b.model.FP8 && b.device.FP8() == cuda.FP8Scaled }

func (b *bench) ceilingOf(fp8 bool) (float64, error) {
	n, typ := b.ceiling, kernels.BF16
	if fp8 {
		typ = kernels.F8E4M3
	}
	took, err := b.medianProduct(matrix{"ceiling", n, n, false}, n, 0, fp8)
	if err != nil {
		return 0, err
	}
	rate := 2 * float64(n) * float64(n) * float64(n) / took.Seconds()
	fmt.Fprintf(b.out, "GEMM ceiling, %d x %d x %d in %s, random values: %.4g TFLOP/s.\n\n", n, n, n, typ, rate/1e12)
	return rate, nil
}

// products measures a layer's matrices at several numbers of rows.
func (b *bench) products() error {
	if _, err := b.measureCeilings(); err != nil {
		return err
	}
	if b.model.FP8 && !b.scaledFP8() {
		fmt.Fprintf(b.out, "Not measured: %s does not multiply FP8 with scales of rows and columns; weights become bfloat16.\n", b.backend.Name())
		return nil
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
			took, err := b.medianProduct(m, rows, b.rotate, b.model.FP8)
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
