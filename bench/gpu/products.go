package main

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// randomStream is where the numbers of a buffer begin, and their scale.
func randomStream(name string) (key uint64, scale float32) {
	return weights.Random{Seed: seed}.Stream(name, 1024)
}

// newRandomBuffer returns device memory with so many random bfloat16 values.
func (b *bench) newRandomBuffer(name string, values int) (kernels.Buffer, error) {
	buf, err := b.backend.Alloc(2 * int64(values))
	if err != nil {
		return nil, err
	}
	key, scale := randomStream(name)
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

func (b *bench) newProduct(m matrix, rows int, rotate int64, typ kernels.DType) (*product, error) {
	p := &product{}
	g := cuda.Gemm{M: rows, N: m.out, K: m.in, Type: typ, AStride: m.in, DStride: m.out, DType: kernels.BF16}
	if m.adds || typ == kernels.I8 {
		g.DType = kernels.F32
	}
	g.Accumulate = m.adds
	if typ == kernels.I8 { // sums alone, of filled up rows
		g.M, g.Accumulate = (rows+cuda.Int8Rows-1)/cuda.Int8Rows*cuda.Int8Rows, false
	}
	var err error
	if g.A, g.AScale, err = b.newOperand(p, "input", g.M, m.in, typ); err != nil {
		return p, err
	}
	d, err := b.newRandomBuffer("output", g.M*m.out*int(g.DType.Size())/2)
	if err != nil {
		return p, err
	}
	p.buffers = append(p.buffers, d)
	g.D = cuda.Address(d)
	bytes := int64(m.out) * int64(m.in) * typ.Size()
	for range max(1, rotate/bytes) {
		if g.W, g.WScale, err = b.newOperand(p, fmt.Sprint("weights ", len(p.gemms)), m.out, m.in, typ); err != nil {
			return p, err
		}
		p.gemms = append(p.gemms, g)
	}
	return p, nil
}

// newOperand makes a matrix of p in bfloat16, or in codes; scalesAt is 0 where products do not scale them.
func (b *bench) newOperand(p *product, name string, rows, cols int, typ kernels.DType) (at, scalesAt cuda.Ptr, err error) {
	if !typ.Scaled() {
		buf, err := b.newRandomBuffer(name, rows*cols)
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
	key, scale := randomStream(name)
	b.backend.FillCodes(cuda.Codes{Type: typ, Codes: codes, Scales: scales, Rows: rows, Cols: cols, Stride: cols}, key, scale)
	if typ == kernels.F8E4M3 {
		scalesAt = cuda.Address(scales)
	}
	return cuda.Address(codes), scalesAt, nil
}

func (p *product) freeBuffers() {
	for _, buf := range p.buffers {
		buf.Free()
	}
}

// median is the time of one product.
func (b *bench) medianProduct(m matrix, rows int, rotate int64, typ kernels.DType) (time.Duration, error) {
	p, err := b.newProduct(m, rows, rotate, typ)
	defer p.freeBuffers()
	if err != nil {
		return 0, err
	}
	const each = 8 // products between two marks
	took, err := b.device.medianTime(b.runs, func() {
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

// ceilingTime is the time of a prompt of n tokens of a device that does every operation at its ceiling.
func (c ceilings) ceilingTime(s shape, n int) float64 {
	return s.linearFLOP(n)/c.linear + s.attentionFLOP(n)/c.attention
}

func (b *bench) measureCeilings() (c ceilings, err error) {
	if c.attention, err = b.ceilingOf(kernels.BF16); err != nil {
		return c, err
	}
	c.linear = c.attention
	if typ, err := b.productType(); err == nil && typ != kernels.BF16 {
		c.linear, err = b.ceilingOf(typ)
		return c, err
	}
	return c, nil
}

// productType is what the model's products multiply; an error says why that is not its weights' type.
func (b *bench) productType() (kernels.DType, error) {
	typ := b.model.weightType()
	switch {
	case typ == kernels.F8E4M3 && b.device.FP8() != cuda.FP8Scaled:
		return kernels.BF16, fmt.Errorf("%s does not multiply FP8 with scales of rows and columns; weights become bfloat16", b.backend.Name())
	case typ == kernels.I8:
		for _, m := range b.model.layerMatrices() {
			if err := b.device.Int8(m.out, m.in); err != nil {
				return kernels.BF16, err
			}
		}
	}
	return typ, nil
}

func (b *bench) ceilingOf(typ kernels.DType) (float64, error) {
	n := b.ceiling
	took, err := b.medianProduct(matrix{"ceiling", n, n, false}, n, 0, typ)
	if err != nil {
		return 0, err
	}
	rate := 2 * float64(n) * float64(n) * float64(n) / took.Seconds()
	fmt.Fprintf(b.out, "GEMM ceiling, %d x %d x %d in %s, random values: %.4g TFLOP/s.\n\n", n, n, n, typ, rate/1e12)
	return rate, nil
}

// measureProducts measures a layer's matrices at several numbers of rows.
func (b *bench) measureProducts() error {
	if _, err := b.measureCeilings(); err != nil {
		return err
	}
	typ, err := b.productType()
	if err != nil {
		fmt.Fprintf(b.out, "Not measured: %v.\n", err)
		return nil
	}
	note := ""
	if typ == kernels.I8 {
		note = " Sums are int32; another kernel scales them, which is not in these times."
	}
	fmt.Fprintf(b.out, "%s's products in %s, TFLOP/s, weights from memory.%s\n\n| rows |", b.model.Name, typ, note)
	for _, m := range b.model.layerMatrices() {
		fmt.Fprintf(b.out, " %s [%d, %d] |", m.name, m.out, m.in)
	}
	fmt.Fprint(b.out, " a layer, us | a layer |\n|---|---|---|---|---|---|---|\n")
	for _, rows := range b.rows {
		fmt.Fprintf(b.out, "| %d |", rows)
		var layer time.Duration
		var operations float64
		for _, m := range b.model.layerMatrices() {
			took, err := b.medianProduct(m, rows, b.rotate, typ)
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
