// Package kernels declares what a device must be able to compute for a forward pass: the Backend
// interface, its buffers and views. Implementations are in the packages below it.
package kernels

import (
	"fmt"
	"math"
)

// DType is an element type in memory.
type DType uint8

// The element types of checkpoints and buffers.
const (
	F32 DType = iota
	BF16
	F16
	F8E4M3 // weights of linear layers alone, with a scale for each row; see E4M3
	I8     // weights of linear layers and LM heads alone, with a scale for each row; see QuantizeI8
)

// Size is the number of bytes of one element.
func (t DType) Size() int64 { return [...]int64{4, 2, 2, 1, 1}[t] }

// Scaled says that elements are codes, each worth so many times its row's scale.
func (t DType) Scaled() bool { return t == F8E4M3 || t == I8 }

func (t DType) String() string {
	return [...]string{"float32", "bfloat16", "float16", "float8_e4m3fn", "int8"}[t]
}

// Buffer is memory of a Backend. It is made by Backend.Alloc and lives until Free.
type Buffer interface {
	Bytes() int64 // 0 once it is freed
	Free()
}

// Mat is a row-major view into a Buffer: Rows x Cols elements of Type, rows Stride elements apart,
// the first one Off bytes into Buf.
type Mat struct {
	Buf    Buffer
	Off    int64
	Rows   int
	Cols   int
	Stride int
	Type   DType
}

// Slice is the view of rows [from, to).
func (m Mat) Slice(from, to int) Mat {
	m.Off += int64(from) * int64(m.Stride) * m.Type.Size()
	m.Rows = to - from
	return m
}

// HostTensor is a checkpoint's tensor in host memory, little-endian, row-major; Data may be a
// mapped file. Backends copy what they keep.
type HostTensor struct {
	Name string
	Type DType
	Rows int // 1 for a vector
	Cols int
	Data []byte

	Scale []float32 // of F8E4M3 and I8: element (i, j) is worth Scale[i] times its code; nil for other types

	WeightOnly bool // of I8: activations are not quantised

	Groups *Groups // of BF16: what Data was expanded from, where it was; nil else

	File File // what Data is a mapping of; nil for other memory
}

// LargestCodes are how many elements the largest matrices in codes have, by how they are multiplied; 0: there are none.
type LargestCodes struct {
	FP8     int64
	I8      int64 // whose activations are quantised
	I8Alone int64 // WeightOnly
}

// File is a file that HostTensors are mapped from.
type File interface {
	// ReadPart copies part of a tensor's Data to dst, which is as long, by reading the file: what a file
	// lacks, since it was cut short after it was mapped, is an error then and not a fault. It may be
	// called from several goroutines.
	ReadPart(dst, part []byte) error
}

// ReadPart copies part of t.Data to dst, which is as long; see File.
func (t HostTensor) ReadPart(dst, part []byte) error {
	if t.File != nil {
		return t.File.ReadPart(dst, part)
	}
	copy(dst, part)
	return nil
}

// Check says whether t has as many bytes, and scales, as its shape and type ask for, and names what
// differs.
func (t HostTensor) Check() error {
	want, scales := int64(t.Rows)*int64(t.Cols)*t.Type.Size(), 0
	if t.Type.Scaled() {
		scales = t.Rows
	}
	switch {
	case t.Type == I8 && t.Cols > MaxI8Cols:
		return fmt.Errorf("tensor %q: %s [%d, %d] is too wide, want at most %d columns", t.Name, t.Type, t.Rows, t.Cols, MaxI8Cols)
	case t.Rows < 1 || t.Cols < 1 || int64(len(t.Data)) != want:
		return fmt.Errorf("tensor %q: %s [%d, %d] needs %d bytes, got %d", t.Name, t.Type, t.Rows, t.Cols, want, len(t.Data))
	case len(t.Scale) != scales:
		return fmt.Errorf("tensor %q: %s [%d, %d] needs %d scales, got %d", t.Name, t.Type, t.Rows, t.Cols, scales, len(t.Scale))
	}
	return nil
}

// CheckBeside is Check for a part of a matrix whose first part is given: the two must have as many columns,
// and be codes of one kind if either is codes.
func (t HostTensor) CheckBeside(first HostTensor) error {
	kind := func(t HostTensor) string {
		if t.WeightOnly {
			return t.Type.String() + " for bfloat16 activations"
		}
		return t.Type.String()
	}
	switch scaled := t.Type.Scaled() || first.Type.Scaled(); {
	case t.Cols != first.Cols:
		return fmt.Errorf("tensor %q has %d columns, %q has %d", t.Name, t.Cols, first.Name, first.Cols)
	case scaled && (t.Type != first.Type || t.WeightOnly != first.WeightOnly):
		return fmt.Errorf("tensor %q is %s, %q is %s", t.Name, kind(t), first.Name, kind(first))
	}
	return t.Check()
}

// CheckTable is Check for tables, which may be I8 and not F8E4M3.
func (t HostTensor) CheckTable() error {
	if t.Type == F8E4M3 {
		return fmt.Errorf("tensor %q is %s, which only weights of linear layers can be", t.Name, t.Type)
	}
	return t.Check()
}

// CheckUnquantized is Check for tensors that are neither weights of linear layers nor tables: these may not be
// codes.
func (t HostTensor) CheckUnquantized() error {
	if t.Type.Scaled() {
		return fmt.Errorf("tensor %q is %s, which only weights of linear layers can be", t.Name, t.Type)
	}
	return t.Check()
}

// Held is what a Backend holds for a model, in a layout of its own, until Free. Nothing may use it then.
type Held interface {
	Bytes() int64 // of the device's memory; of several ranks, on the one that holds most
	Free()
}

// Linear is a matrix (and bias): y = x W^T + b.
type Linear interface {
	Held
	In() int
	Out() int
}

// Table is a matrix whose rows are looked up (embedding) or dotted with (LM head, which alone may be I8). It holds 0
// bytes where the checkpoint's own mapping is used.
type Table interface {
	Held
	Rows() int
	Cols() int
}

// Vector is float32 weights of a normalisation.
type Vector interface {
	Held
	Len() int
}

// Norm is a normalisation of rows, x / sqrt(mean(x^2) + Eps) * Weight (Zhang and Sennrich, Root Mean Square Layer Normalization,
// 2019), or, Centred, the same of x less its mean, plus Bias, which may be nil (Ba, Kiros and Hinton, Layer Normalization, 2016).
// Without Weight it is none: it leaves x as it is.
type Norm struct {
	Weight, Bias Vector
	Eps          float32
	Centred      bool
}

// Rope is the rotary angles of positions 0..max-1 for one head dimension.
type Rope interface {
	Held
	MaxPositions() int
}

// Activation is the function between the two matrices of a feed-forward network.
type Activation uint8

// The activations (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016).
const (
	SiLU     Activation = iota // x times its sigmoid; of gated networks alone
	GELU                       // x times the normal distribution's share below x
	GELUTanh                   // GELU with that share approximated by tanh
	activations
)

func (a Activation) String() string {
	if a < activations {
		return [...]string{"silu", "gelu", "gelu_tanh"}[a]
	}
	return fmt.Sprintf("activation %d", uint8(a))
}

// Heads is the shape of attention. Queries of head h use the keys of head h / (Q/KV).
type Heads struct{ Q, KV, Dim int }

// QKVCols is the width of a row of queries, keys and values side by side, in this order.
func (h Heads) QKVCols() int { return (h.Q + 2*h.KV) * h.Dim }

// KVBlock is where one layer's keys and values of one block of tokens lie, in the Backend's own layout.
type KVBlock struct {
	Buf Buffer
	Off int64
}

// Segment is one sequence's part of a chunk: rows [Row, Row+Rows) of the chunk's matrices hold the
// tokens at positions [Pos, Pos+Rows) of a sequence whose keys and values lie in Blocks (block i
// holds positions [i*BlockTokens, (i+1)*BlockTokens)).
type Segment struct {
	Row, Rows int
	Pos       int
	Blocks    []KVBlock
	Len       int // of the whole sequence, for attention that looks both ways; else not used
}

// RopeSpec says how StoreKV treats queries and keys.
type RopeSpec struct {
	Heads Heads
	Rope  Rope   // nil: no rotation, which Encoders alone compute
	QNorm Vector // nil, or RMS normalisation before the rotation: of each head where it has Dim weights (Qwen3), of all heads together where more (OLMo 2)
	KNorm Vector
	Eps   float32
}

// WholeNorms says whether the norms are of all heads together, or what is wrong with them.
func (s *RopeSpec) WholeNorms() (bool, error) {
	each, all := true, true
	for _, n := range []struct {
		weight Vector
		heads  int
	}{{s.QNorm, s.Heads.Q}, {s.KNorm, s.Heads.KV}} {
		if n.weight != nil && n.heads > 0 {
			each, all = each && n.weight.Len() == s.Heads.Dim, all && n.weight.Len() == n.heads*s.Heads.Dim
		}
	}
	if !each && !all {
		return false, fmt.Errorf("norms of queries and keys: want %d weights each, or as many as all of their heads have dimensions", s.Heads.Dim)
	}
	return !each, nil
}

// AttentionSpec is the shape of causal attention.
type AttentionSpec struct {
	Heads  Heads
	Scale  float32
	Window int     // a token sees itself and the Window-1 tokens before it; 0 = all (Mistral's sliding window)
	Cap    float32 // 0, or scores become Cap * tanh(score / Cap) before the softmax (Gemma 2)
}

// RopeAt is what a pair is turned by at a position: the cosine and sine of pos*freq (a product in float32, as transformers has it), times scale; a
// pair whose frequency is 0 stays as it is.
func RopeAt(pos int, freq, scale float32) (cos, sin float32) {
	if freq == 0 {
		return 1, 0
	}
	s, c := math.Sincos(float64(float32(pos) * freq))
	return float32(c) * scale, float32(s) * scale
}

// Backend computes on one device. One goroutine calls it at a time; an implementation may use
// several threads inside a call, and all calls have taken effect when Sync returns.
//
// Matrices named x are the residual stream, float32. Others are in the backend's activation type,
// ActType: bfloat16 on devices, float32 in the reference. Weights and activations are multiplied in
// ActType and summed in float32.
//
// Weights in F8E4M3 are used in one of two ways. A device with FP8 arithmetic quantises each row of
// activations too, as QuantizeE4M3 does, sums products of codes in float32, and multiplies each sum by
// the scales of its row and of its column; one of several ranks quantises its part of a row by itself.
// Other devices multiply codes and activations in ActType, with the column's scale applied to the weight
// or to the sum.
//
// For weights in I8 each row of activations is quantised too, after it is rounded to ActType, as QuantizeI8
// does; one of several ranks quantises its part of a row by itself. Products of codes are summed exactly, in int32,
// and each sum, as float32, is multiplied by its column's scale and then by its row's. Of WeightOnly weights, codes
// and activations are multiplied in ActType, with the column's scale applied to the weight or to the sum. The same holds
// for an LM head in I8, whose rows are the columns of its products.
//
// The bits of a row's result depend on nothing but that row's inputs: not on the number of rows of
// the call, on the row's place, on the threads, nor on other segments.
type Backend interface {
	Name() string // e.g. "cpu avx512_bf16", for logs and cost models
	ActType() DType
	Close()

	// Alloc returns zeroed memory, aligned to 64 bytes.
	Alloc(bytes int64) (Buffer, error)
	// Write and Read copy between host memory and the buffer, at byte offset off.
	Write(b Buffer, off int64, src []byte)
	Read(dst []byte, b Buffer, off int64)

	// NewLinear packs the parts, stacked along their rows, into one matrix; bias parts may be empty. Of
	// the parts, either all are F8E4M3 or none, and either all are I8 and WeightOnly alike or none.
	NewLinear(parts []HostTensor, bias []HostTensor) (Linear, error)
	// NewGatedLinear packs gate and up projections for MLP.
	NewGatedLinear(gate, up HostTensor) (Linear, error)
	// NewTable takes an embedding or LM head; what is I8 is for Logits alone. The data must stay mapped while the table
	// lives.
	NewTable(t HostTensor) (Table, error)
	NewVector(t HostTensor) (Vector, error)
	// NewRope makes what RopeAt says of positions below max; pairs are (i, i+dim/2), as in Llama's checkpoints.
	NewRope(invFreq []float32, scale float32, max int) (Rope, error)

	// KVBlockBytes is the size of a KVBlock of so many tokens; tokens is a multiple of 16.
	KVBlockBytes(h Heads, tokens int) int64
	// ScratchBytes is what the backend holds for itself, at the most, while computing chunks of rows
	// with matrices up to maxIn x maxOut, of which the largest in codes are given; used to plan memory.
	ScratchBytes(rows, maxIn, maxOut int, largest LargestCodes) int64

	// Embed sets x[i] = scale * table[ids[i]]. Sync returns an error for an id beyond the table, and for a table of I8.
	Embed(x Mat, table Table, ids []uint32, scale float32)
	// NormLinear sets dst = n(x) l^T + bias, for Q, K and V.
	NormLinear(dst, x Mat, n Norm, l Linear)
	// StoreKV normalises (if asked) and rotates the queries in place and the keys, and writes keys and
	// values into the segments' blocks.
	StoreKV(qkv Mat, spec RopeSpec, blockTokens int, segs []Segment)
	// CopyKV copies a block of so many bytes, KVBlockBytes of its tokens, to another one.
	CopyKV(dst, src KVBlock, bytes int64)
	// Attention sets rows of dst [rows, Q*Dim] to softmax(q k^T scale) v, with scores capped where there is a Cap, over all
	// positions up to each row's own. Of qkv only the queries are read.
	Attention(dst Mat, qkv Mat, spec AttentionSpec, blockTokens int, segs []Segment)
	// AddLinear sets x += src l^T + bias.
	AddLinear(x Mat, src Mat, l Linear)
	// MLP sets x += down(h), where h = act(up(n(x))) or, with a gated up, act(g) * u for (g, u) = up(n(x)).
	MLP(x Mat, n Norm, act Activation, up, down Linear)
	// Product sets dst = src l^T + bias, and MLPProduct dst, which is not x, to what MLP adds: float32, of a Rank also other
	// PartialTypes.
	Product(dst, src Mat, l Linear)
	MLPProduct(dst, x Mat, n Norm, act Activation, up, down Linear)
	// AddNorm sets x += n(src), where src is float32, too, and n not Centred.
	AddNorm(x, src Mat, n Norm)
	// Logits sets dst[i][j] = n(x)[i] . table[ids[j]], float32; nil ids mean every row of
	// the table.
	Logits(dst, x Mat, n Norm, table Table, ids []uint32)

	// Sync waits until all calls so far have taken effect, and returns the first error since the last Sync.
	Sync() error
}
