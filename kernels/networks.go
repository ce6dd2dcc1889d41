package kernels

import "fmt"

// Tensor is a view of float32 elements in a Buffer: along dimension i, Shape[i] elements that lie Stride[i]
// elements apart, the first one Off bytes into Buf. A Stride of 0 repeats an element, one below 0 goes backwards.
type Tensor struct {
	Buf    Buffer
	Off    int64
	Shape  []int
	Stride []int
}

// Elements is the product of the dimensions.
func (t *Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// ConvSpec is the shape of a convolution over 1 to 3 spatial dimensions.
type ConvSpec struct {
	In, Out, Groups            int // channels; Groups divides both
	Kernel, Strides, Dilations []int
}

// Taps is the number of weights that each output sums over.
func (s *ConvSpec) Taps() int {
	n := s.In / s.Groups
	for _, k := range s.Kernel {
		n *= k
	}
	return n
}

// Affine is what becomes of a convolution's sums: each output's are multiplied by its element of Scale, and that of Shift is
// added. They are Out float32 in the device's memory; nil are ones, and zeros. With a Scale there is a Shift.
type Affine struct{ Scale, Shift Buffer }

// Filter is a convolution's weights, packed for both directions; freed, it has 0 bytes, and may be freed again.
type Filter interface {
	Held
	Spec() ConvSpec
}

// PoolSpec is the shape of a pooling.
type PoolSpec struct {
	Max                        bool // else the mean
	Kernel, Strides, Dilations []int
	// A mean divides by the number of taps that lie inside the input or, with Counted, in the input with its
	// padding: from the origin (see Networks) to CountedEnd, exclusive, which is a place in the input as the
	// origin is. A mean that divides by 0 is 0.
	Counted    bool
	CountedEnd []int
}

// Taps is a sparse matrix that is applied along one dimension: output i is the sum of Weight[j] times input
// Index[j] for j from Start[i] to Start[i+1], in this order.
type Taps struct {
	Start, Index []int32
	Weight       []float32
}

// Reduction says how elements are made one.
type Reduction uint8

// The reductions.
const (
	Sum Reduction = iota
	Largest
	Smallest
	Product
)

// Networks is a Backend that also computes networks of convolutions, on float32.
//
// Operands of Conv, ConvBackward, Pool and PoolBackward have the shape [N, spatial..., C]; the stride of C is 1,
// and other strides are those of a dense tensor or of a part of one: channels of a wider tensor, rows of a
// higher one. Origin is, for each spatial dimension, the place in the input of the first tap of output 0; it
// may be negative. Taps outside of the input count as 0, and do not count for a maximum. So rows of an output
// can be computed apart, by slicing it and moving the origin. Strides of other operands are any, but no two
// elements of a result share a place.
//
// Numbers below the normal range may count as 0 in Conv and its program, in ConvBackward and in MatMul.
//
// The bits of an image's result depend on nothing but the image: not on N, nor on the threads, nor on which rows
// are computed with it. Operands that are written overlap no others, but for a Map whose result takes the very
// place of an operand. A maximum or minimum of any elements with NaN is NaN; a maximum of none is -infinity.
//
// Operands that do not fit each other or their buffers (see CheckConv and those beside it) are an error of Sync,
// and nothing is written then.
type Networks interface {
	Backend
	// NewFilter packs weights [Out, In/Groups * taps of the kernel, row-major].
	NewFilter(s ConvSpec, weight HostTensor) (Filter, error)
	// Conv sets dst to the convolution with a applied, and then to then's result, if that is given: its operand 0 is
	// what a gives, and the next ones are operands, of dst's shape and any strides. As many as then.Also has registers
	// are more results, of dst's shape and any strides: the last of the operands.
	Conv(dst, src Tensor, f Filter, a Affine, origin []int, then *Program, operands ...Tensor)
	// ConvBackward sets dst, of the convolution's input's shape, to its gradient, no Affine applied: the transposed
	// convolution. src is the gradient of the output.
	ConvBackward(dst, src Tensor, f Filter, origin []int)
	// Pool sets dst to maxima or means.
	Pool(dst, src Tensor, s PoolSpec, origin []int)
	// PoolBackward sets dst, of the input's shape, to the gradient of the input, given that of the output. Of
	// equal maxima the first one, row-major, gets it. src is the input; a mean does not read it.
	PoolBackward(dst, grad, src Tensor, s PoolSpec, origin []int)
	// Interpolate applies taps along a dimension; other dimensions of dst and src are equal.
	Interpolate(dst, src Tensor, dim int, t Taps)
	// MatMul sets dst [..., m, n] to a [..., m, k] times b [..., k, n]; leading dimensions are equal, and
	// strides are any. The bits of a row of dst depend on that row of a and on b alone.
	MatMul(dst, a, b Tensor)
	// Map computes each element of dst by the program from those of its operands, which have dst's shape.
	Map(dst Tensor, p *Program, operands ...Tensor)
	// Reduce makes elements of src one along the dimensions in which dst has 1 and src another number. Of no
	// elements, the sum is 0, the product 1, and the largest and smallest are -infinity and infinity.
	Reduce(dst, src Tensor, how Reduction)
}

// Preparer is a Networks that makes convolutions ready before they are first computed, as a compiler of kernels does: so
// that no pass waits for that. It need not be asked. Operands are those of Conv and ConvBackward, and are not touched.
type Preparer interface {
	PrepareConv(dst, src Tensor, f Filter, a Affine, origin []int, then *Program)
	PrepareConvBackward(dst, src Tensor, f Filter, origin []int)
}

// Importer is a Networks that reads tensors in host memory: what is to be laid out for it then is not copied before.
type Importer interface {
	// Import sets dst to elements of data, which are float32 and lie in it as src says, whose buffer is not used. Data
	// is no mapped file, and may be used again afterwards.
	Import(dst, src Tensor, data []byte)
}

// Packer is a Networks that packs filters on the device, as those are of which a pass is given the weights.
type Packer interface {
	// PackedFloats is how many float32 a packed filter takes; 0 if it cannot be packed. Any goroutine may ask.
	PackedFloats(s ConvSpec) int
	// Pack sets dst, so many elements in a row, to the weights [Groups, outputs of a group, inputs of a group, kernel...].
	Pack(dst Tensor, s ConvSpec, weight Tensor)
	// Packed is the filter in a tensor that Pack has set when it is used. It has no memory of its own.
	Packed(s ConvSpec, at Tensor) Filter
}

// NetworksOf is b as Networks, or an error that names it. A backend over several ranks is none: a network of
// convolutions runs on one device.
func NetworksOf(b Backend) (Networks, error) {
	if n, ok := b.(Networks); ok {
		return n, nil
	}
	return nil, fmt.Errorf("%s does not compute networks: use one device that does", b.Name())
}

// Program computes an element out of operands. Its registers are the operands and then, one each, the results
// of its instructions; the last one is the program's. Truth is 1 and falsehood 0; whatever is not 0, as NaN, is
// true. Each instruction's result is float32, none is fused with another; those up to Sqrt but Pow, and those
// from Floor on, are rounded as IEEE 754 says, others are off by a few units in the last place.
type Program struct {
	Operands int
	Code     []Instruction
	Also     []int // registers that a Conv writes, too; of a Map there are none
}

// Instruction computes a register from earlier ones.
type Instruction struct {
	Op      ElementOp
	A, B, C int     // registers, as many as the operation takes
	X       float32 // of Constant
}

// ElementOp is an operation on float32.
type ElementOp uint8

// The operations. Comparisons with NaN are false; Min and Max with NaN are NaN, and of zeros they are either;
// Round is to even; Pow is that of C. Half and Brain round to the nearest number that FP16 or BF16 has, of two to the even
// one: beyond the greatest it is infinity.
const (
	Constant ElementOp = iota
	Copy
	Add
	Sub
	Mul
	Div
	Min
	Max
	Pow
	Less
	LessEqual
	Equal
	Select // A is true: B, else C
	Neg
	Abs
	Sqrt
	Exp
	Log
	Sin
	Cos
	Tanh
	Sigmoid
	Erf
	Floor
	Ceil
	Round
	Half
	Brain
	lastElementOp
)

// elementOps are names and numbers of operands.
var elementOps = [lastElementOp]struct {
	name string
	args int
}{
	{"constant", 0}, {"copy", 1}, {"add", 2}, {"sub", 2}, {"mul", 2}, {"div", 2}, {"min", 2}, {"max", 2}, {"pow", 2},
	{"less", 2}, {"less_equal", 2}, {"equal", 2}, {"select", 3}, {"neg", 1}, {"abs", 1}, {"sqrt", 1}, {"exp", 1},
	{"log", 1}, {"sin", 1}, {"cos", 1}, {"tanh", 1}, {"sigmoid", 1}, {"erf", 1}, {"floor", 1}, {"ceil", 1}, {"round", 1},
	{"half", 1}, {"brain", 1},
}

// ElementOps are how many operations there are.
const ElementOps = int(lastElementOp)

// Args is the number of registers that the operation reads.
func (o ElementOp) Args() int { return elementOps[o].args }

func (o ElementOp) String() string {
	if o < lastElementOp {
		return elementOps[o].name
	}
	return fmt.Sprintf("element op %d", uint8(o))
}

// Check says whether every instruction is one, and reads registers that are there.
func (p *Program) Check() error {
	if p.Operands < 0 || len(p.Code) == 0 {
		return fmt.Errorf("invalid program of %d operands and %d instructions", p.Operands, len(p.Code))
	}
	for i, in := range p.Code {
		if in.Op >= lastElementOp {
			return fmt.Errorf("instruction %d: unknown operation %v", i, in.Op)
		}
		for _, r := range []int{in.A, in.B, in.C}[:in.Op.Args()] {
			if r < 0 || r >= p.Operands+i {
				return fmt.Errorf("instruction %d (%v) reads register %d, want below %d", i, in.Op, r, p.Operands+i)
			}
		}
	}
	for _, r := range p.Also {
		if r < 0 || r >= p.Operands+len(p.Code) {
			return fmt.Errorf("invalid result register %d: want below %d", r, p.Operands+len(p.Code))
		}
	}
	return nil
}
