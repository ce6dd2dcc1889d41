package cudnn

// #include "library.h"
import "C"

import (
	"errors"
	"unsafe"
)

// Descriptor is one of cuDNN's, part of the Graph that made it.
type Descriptor struct{ p unsafe.Pointer }

// Has says whether there is one: the zero Descriptor is none.
func (d Descriptor) Has() bool { return d.p != nil }

// Graph is descriptors that are made and kept together. The first failure is remembered, and what follows it does
// nothing.
type Graph struct {
	library *Library
	made    []Descriptor
	err     error
}

// Begin begins a graph. Free frees it, or the plan that is built of it.
func (l *Library) Begin() *Graph { return &Graph{library: l} }

// Err is the first failure.
func (g *Graph) Err() error { return g.err }

// Free frees all descriptors.
func (g *Graph) Free() {
	for i := len(g.made) - 1; i >= 0; i-- {
		C.pf_cudnn_destroy(g.library.c, g.made[i].p)
	}
	g.made = nil
}

func (g *Graph) check(function string, status C.int) {
	if g.err == nil {
		g.err = g.library.err(function, status)
	}
}

// Make makes a descriptor, which takes attributes until Finalize.
func (g *Graph) Make(t DescriptorType) Descriptor {
	var d Descriptor
	if g.err != nil {
		return d
	}
	g.check("cudnnBackendCreateDescriptor", C.pf_cudnn_make(g.library.c, C.int(t), &d.p))
	if g.err != nil {
		return Descriptor{}
	}
	g.made = append(g.made, d)
	return d
}

func (g *Graph) set(d Descriptor, a Attribute, typ C.int, count int, elements unsafe.Pointer) {
	if g.err == nil {
		g.check("cudnnBackendSetAttribute", C.pf_cudnn_set(g.library.c, d.p, C.int(a), typ, C.int64_t(count), elements))
	}
}

// Ints sets integers.
func (g *Graph) Ints(d Descriptor, a Attribute, values ...int64) {
	g.set(d, a, C.TYPE_INT64, len(values), unsafe.Pointer(unsafe.SliceData(values)))
}

// Parts sets descriptors, which are finalised.
func (g *Graph) Parts(d Descriptor, a Attribute, parts ...Descriptor) {
	g.set(d, a, C.TYPE_DESCRIPTOR, len(parts), unsafe.Pointer(unsafe.SliceData(parts)))
}

// Number sets a float64.
func (g *Graph) Number(d Descriptor, a Attribute, v float64) {
	g.set(d, a, C.TYPE_DOUBLE, 1, unsafe.Pointer(&v))
}

// Yes sets a truth.
func (g *Graph) Yes(d Descriptor, a Attribute) {
	yes := byte(1)
	g.set(d, a, C.TYPE_BOOLEAN, 1, unsafe.Pointer(&yes))
}

// Kind sets a number of one of cuDNN's lists: the value's type says of which.
func (g *Graph) Kind(d Descriptor, a Attribute, value kind) {
	v, typ := value.number()
	g.set(d, a, typ, 1, unsafe.Pointer(&v))
}

// kind is a number of one of cuDNN's lists, with what an attribute of them has as its type.
type kind interface{ number() (int32, C.int) }

// Finalize ends a descriptor: cuDNN checks it then.
func (g *Graph) Finalize(d Descriptor) Descriptor {
	if g.err == nil {
		g.check("cudnnBackendFinalize", C.pf_cudnn_finalize(g.library.c, d.p))
	}
	return d
}

// get reads an attribute of at most len elements, and returns how many there are.
func (g *Graph) get(d Descriptor, a Attribute, typ C.int, capacity int, elements unsafe.Pointer) int {
	var count C.int64_t
	if g.err == nil {
		g.check("cudnnBackendGetAttribute", C.pf_cudnn_get(g.library.c, d.p, C.int(a), typ, C.int64_t(capacity), &count, elements))
	}
	if g.err != nil {
		return 0
	}
	return min(int(count), capacity)
}

// int reads an integer.
func (g *Graph) int(d Descriptor, a Attribute) int64 {
	var v int64
	g.get(d, a, C.TYPE_INT64, 1, unsafe.Pointer(&v))
	return v
}

// Tensor describes a tensor; strides are in elements.
type Tensor struct {
	UID           int64
	Type          DataType
	Dims, Strides []int64
	Alignment     int64 // of its address, in bytes; 0: 16
	Virtual       bool  // in no memory, between operations
	ByValue       bool  // a number on the host
	Ragged        Descriptor
}

// Tensor makes a tensor.
func (g *Graph) Tensor(t Tensor) Descriptor {
	if t.Alignment == 0 {
		t.Alignment = 16
	}
	d := g.Make(TensorType)
	g.Kind(d, TensorDataType, t.Type)
	g.Ints(d, TensorDimensions, t.Dims...)
	g.Ints(d, TensorStrides, t.Strides...)
	g.Ints(d, TensorUniqueID, t.UID)
	g.Ints(d, TensorByteAlignment, t.Alignment)
	if t.Virtual {
		g.Yes(d, TensorIsVirtual)
	}
	if t.ByValue {
		g.Yes(d, TensorIsByValue)
	}
	if t.Ragged.Has() {
		g.Parts(d, TensorRaggedOffset, t.Ragged)
	}
	return g.Finalize(d)
}

// Pointwise is an operation on single elements; what an operation does not take is left out.
type Pointwise struct {
	Mode       PointwiseMode
	Precision  DataType
	Axis       int64 // of PointwiseGenIndex
	X, B, T, Y Descriptor
}

// Pointwise makes the operation.
func (g *Graph) Pointwise(p Pointwise) Descriptor {
	how, o := g.Make(PointwiseType), g.Make(OperationPointwiseType)
	g.Kind(how, PointwiseModeOf, p.Mode)
	g.Kind(how, PointwiseMathPrecision, p.Precision)
	if p.Axis != 0 {
		g.Ints(how, PointwiseAxis, p.Axis)
	}
	g.Parts(o, OperationPointwiseHow, g.Finalize(how))
	g.Parts(o, OperationPointwiseX, p.X)
	if p.B.Has() {
		g.Parts(o, OperationPointwiseB, p.B)
	}
	if p.T.Has() {
		g.Parts(o, OperationPointwiseT, p.T)
	}
	g.Parts(o, OperationPointwiseY, p.Y)
	return g.Finalize(o)
}

// Operations is the graph of these operations.
func (g *Graph) Operations(list ...Descriptor) Descriptor {
	o := g.Make(OperationGraphType)
	g.handle(o, OperationGraphHandle)
	g.Parts(o, OperationGraphOps, list...)
	return g.Finalize(o)
}

// handle sets cuDNN's handle, which there is but for a device that is described.
func (g *Graph) handle(d Descriptor, a Attribute) {
	if h := C.pf_cudnn_handle(g.library.c); h != nil {
		g.set(d, a, C.TYPE_HANDLE, 1, unsafe.Pointer(&h))
	}
}

// device sets the device that is described, if one is.
func (g *Graph) device(d Descriptor, a Attribute) {
	if p := C.pf_cudnn_device(g.library.c); p != nil {
		g.Parts(d, a, Descriptor{p})
	}
}

var errNoEngine = errors.New("cuDNN's heuristic knows no engine")
