package weights

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/prefillonly/prefillonly/kernels"
)

// Random makes tensors out of a seed and their names, for tests and benchmarks that need a model's
// shape but no training. Element i of a tensor is a hash of (seed, name, i), so tools/golden/golden.py
// makes the same bits and no weights need be stored. Linear weights have a standard deviation of
// 1/sqrt(columns), which keeps activations near 1; the head's and the embedding's is three times
// that, so that logits spread; norms are near 1. Of a Type of codes are the projections' weights, and the LM head's
// where Head says so, with scales that are bfloat16 numbers; other tensors are bfloat16 then.
type Random struct {
	Seed uint64
	Type kernels.DType
	Head bool
}

// splitmixStep is the odd constant by which splitmix64 counts.
const splitmixStep = 0x9e3779b97f4a7c15

// splitmix is the output function of splitmix64 (Steele, Lea, Flood 2014, figure 16).
func splitmix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Release implements the model's source; the collector frees what is no longer used.
func (Random) Release(kernels.HostTensor) {}

// Fingerprint identifies the weights.
func (r Random) Fingerprint() (string, error) {
	return fmt.Sprintf("random-%s-%d", r.Type, r.Seed), nil
}

// Ahead implements the model's source; there is nothing to read.
func (Random) Ahead(string) {}

// Untaken implements the model's source.
func (Random) Untaken() []string { return nil }

// Unchanged implements the model's source.
func (Random) Unchanged() error { return nil }

// Close implements the model's source.
func (Random) Close() error { return nil }

// Find is TypeOf; there is a tensor of any name and shape.
func (r Random) Find(name string, _ ...int) (kernels.DType, error) { return r.TypeOf(name), nil }

// Tensor makes the named tensor.
func (r Random) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	count := elementCount(shape)
	key := r.tensorKey(name)
	scale, offset := randomSpread(name, shape[len(shape)-1])
	element := func(i int) float32 {
		z := splitmix(key + uint64(i)*splitmixStep)
		sum := int64(z&0xffff+z>>16&0xffff+z>>32&0xffff+z>>48) - 2*0xffff
		return float32(float32(sum)*scale) + offset
	}
	r.Type = r.TypeOf(name)
	if r.Type.Scaled() {
		return quantizeRows(hostTensor(name, r.Type, shape, make([]byte, count)), element), nil
	}
	data := make([]byte, int64(count)*r.Type.Size())
	for i := range count {
		Put(r.Type, data, i, element(i))
	}
	return hostTensor(name, r.Type, shape, data), nil
}

// TypeOf is the type of the named tensor: of quantised checkpoints, only matrices between activations are of codes, and with Head the
// LM head.
func (r Random) TypeOf(name string) kernels.DType {
	if r.Type.Scaled() && !strings.HasSuffix(name, "_proj.weight") && !(r.Head && name == "lm_head.weight") {
		return kernels.BF16
	}
	return r.Type
}

func (r Random) tensorKey(name string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return splitmix(r.Seed ^ hash.Sum64())
}

// Stream is what a device needs to make a matrix of so many columns itself: element i is scale times
// the sum, less 131070, of the four 16-bit parts of splitmix64's i-th number from key on.
func (r Random) Stream(name string, cols int) (key uint64, scale float32) {
	scale, _ = randomSpread(name, cols)
	return r.tensorKey(name), scale
}

// quantizeRows fills t with codes of the elements, each row over its largest magnitude.
func quantizeRows(t kernels.HostTensor, element func(i int) float32) kernels.HostTensor {
	row := make([]float32, t.Cols)
	for at := 0; at < len(t.Data); at += t.Cols {
		for i := range row {
			row[i] = element(at + i)
		}
		quantize := quantizeE4M3
		if t.Type == kernels.I8 {
			quantize = QuantizeI8
		}
		scale := quantize(t.Data[at:at+t.Cols], row)
		t.Scale = append(t.Scale, math.Float32frombits(uint32(scale)<<16))
	}
	return t
}

// quantizeE4M3 is QuantizeI8 for FP8.
func quantizeE4M3(codes []byte, row []float32) (scale uint16) {
	scale = toBF16(largestMagnitude(row) / kernels.MaxE4M3)
	unit := math.Float32frombits(uint32(scale) << 16)
	for i, v := range row {
		codes[i] = byte(kernels.ToE4M3(v / unit))
	}
	return scale
}

// sumDeviation is the standard deviation of the sum of four uniform 16-bit numbers, 65536/sqrt(3).
const sumDeviation = 37837.0

func randomSpread(name string, cols int) (scale, offset float32) {
	deviation := 1 / math.Sqrt(float64(cols))
	switch {
	case strings.HasSuffix(name, "norm.weight") || strings.HasSuffix(name, "Norm.weight"):
		deviation, offset = 0.125, 1
	case strings.HasSuffix(name, ".bias"):
		deviation = 0.25
	case strings.Contains(name, "lm_head") || strings.Contains(name, "embed_tokens"):
		deviation *= 3
	}
	return float32(deviation / sumDeviation), offset
}

// Put makes v element i of data, which is of type typ, one without scales, rounded to nearest. Of F16 |v| is below 65504.
func Put(typ kernels.DType, data []byte, i int, v float32) {
	switch typ {
	case kernels.F32:
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	case kernels.BF16:
		binary.LittleEndian.PutUint16(data[2*i:], toBF16(v))
	case kernels.F16:
		binary.LittleEndian.PutUint16(data[2*i:], toF16(v))
	}
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(v float32) uint16 {
	bits := math.Float32bits(v)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// toF16 rounds to the nearest half, ties to even; |v| is below 65504.
func toF16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits &^ (1 << 31)
	if magnitude < 113<<23 { // below 2^-14: subnormal, a multiple of 2^-24
		units := math.RoundToEven(float64(math.Float32frombits(magnitude)) * (1 << 24))
		return sign | uint16(units)
	}
	rebased := magnitude - 112<<23
	return sign | uint16((rebased+0xfff+rebased>>13&1)>>13)
}
