package driver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// lent is a Device that a backend does not close, and that computes attention in place, whatever is thought of that.
type lent struct{ cuda.Device }

func (lent) CoversPaged(cuda.Paged) bool { return true }
func (lent) Close()                      {}

// trialLimit is how far attention in place may be from the general kernel: the root mean square of the
// difference in parts of the values'. Rounding to bfloat16 alone makes 0.002.
const trialLimit = 0.01

// trial computes a little attention of p's shape in place and by the general kernel, packed and each
// sequence alone. The error says how the results differ: a library's kernel that is wrong here, or
// whose bits depend on other sequences, must not be used.
func trial(d cuda.Device, p cuda.Paged) error {
	inPlace, general := cuda.New(lent{d}), cuda.New(lent{d}, cuda.PagedAttention, cuda.FlashAttention)
	defer inPlace.Close()
	defer general.Close()
	m, err := newTrialInput(inPlace, p)
	if err != nil {
		return err
	}
	defer m.free()
	want, err := m.attend(general, m.segs)
	if err != nil {
		return err
	}
	packed, err := m.attend(inPlace, m.segs)
	if err != nil {
		return err
	}
	if relative := difference(packed, want); !(relative < trialLimit) {
		return fmt.Errorf("its results differ from the general kernel's by %.2g of their size, more than %v", relative, trialLimit)
	}
	alone, err := m.attend(inPlace, m.segs[:1], m.segs[1:2], m.segs[2:])
	if err == nil && !bytes.Equal(packed, alone) {
		err = fmt.Errorf("its results depend on what is computed in the same call")
	}
	return err
}

// difference is the root mean square of got - want, in parts of want's; both are bfloat16.
func difference(got, want []byte) float64 {
	square, off := 0.0, 0.0
	for i := 0; i < len(want); i += 2 {
		g, w := decodeBFloat16(got[i:]), decodeBFloat16(want[i:])
		square, off = square+w*w, off+(g-w)*(g-w)
	}
	return math.Sqrt(off / square)
}

// decodeBFloat16 is the number that raw begins with.
func decodeBFloat16(raw []byte) float64 {
	return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw)) << 16))
}

// trialInput is three sequences of random numbers, whose blocks lie in any order.
type trialInput struct {
	buffers  []kernels.Buffer
	qkv, dst kernels.Mat
	spec     kernels.AttentionSpec
	tokens   int // of a block
	segs     []kernels.Segment
}

func newTrialInput(b *cuda.Backend, p cuda.Paged) (*trialInput, error) {
	const rows = 70 + 1 + 200
	m := &trialInput{tokens: p.BlockTokens, spec: kernels.AttentionSpec{Heads: p.Heads, Scale: float32(1 / math.Sqrt(float64(p.Heads.Dim))), Window: p.Window}}
	size := b.KVBlockBytes(p.Heads, p.BlockTokens)
	random := rand.New(rand.NewPCG(1, uint64(p.Heads.Dim)))
	var order []int
	next := func(row, n, pos int) {
		s := kernels.Segment{Row: row, Rows: n, Pos: pos, Blocks: make([]kernels.KVBlock, (pos+n+p.BlockTokens-1)/p.BlockTokens)}
		m.segs = append(m.segs, s)
		for range s.Blocks {
			order = append(order, len(order))
		}
	}
	next(0, 70, 300)
	next(70, 1, 129)
	next(71, 200, 0)
	for _, content := range [][]byte{normals(random, rows*p.QStride), normals(random, len(order)*int(size)/2), make([]byte, 2*rows*p.OStride)} {
		buf, err := b.Alloc(int64(len(content)))
		if err != nil {
			m.free()
			return nil, err
		}
		b.Write(buf, 0, content)
		m.buffers = append(m.buffers, buf)
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, s := range m.segs {
		for i := range s.Blocks {
			s.Blocks[i] = kernels.KVBlock{Buf: m.buffers[1], Off: int64(order[0]) * size}
			order = order[1:]
		}
	}
	m.qkv = kernels.Mat{Buf: m.buffers[0], Rows: rows, Cols: p.QStride, Stride: p.QStride, Type: kernels.BF16}
	m.dst = kernels.Mat{Buf: m.buffers[2], Rows: rows, Cols: p.Heads.Q * p.Heads.Dim, Stride: p.OStride, Type: kernels.BF16}
	return m, nil
}

// normals are so many normally distributed numbers, cut off to bfloat16.
func normals(random *rand.Rand, n int) []byte {
	raw := make([]byte, 0, 2*n)
	for range n {
		bits := math.Float32bits(float32(random.NormFloat64()))
		raw = binary.LittleEndian.AppendUint16(raw, uint16(bits>>16))
	}
	return raw
}

// attend runs the calls and returns the outputs of all of them.
func (m *trialInput) attend(b *cuda.Backend, calls ...[]kernels.Segment) ([]byte, error) {
	out := make([]byte, m.dst.Buf.Bytes())
	b.Write(m.dst.Buf, 0, out)
	for _, segs := range calls {
		b.Attention(m.dst, m.qkv, m.spec, m.tokens, segs)
	}
	b.Read(out, m.dst.Buf, 0)
	return out, b.Sync()
}

func (m *trialInput) free() {
	for _, b := range m.buffers {
		b.Free()
	}
}
