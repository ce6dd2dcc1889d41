// Package oip is the Open Inference Protocol v2 as bodies of HTTP: requests of tensors, in JSON or as binary data
// behind it, and their answers. It computes from its arguments alone.
//
// The protocol is the one that KServe keeps, with what Triton's clients use beside it: its extensions for binary tensor
// data, schedule policy, model repository, configuration and statistics.
package oip

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// HeaderLength is the HTTP header that tells how many bytes of a body are JSON; binary data is what follows.
const HeaderLength = "Inference-Header-Content-Length"

// Bytes is the type of tensors whose elements are strings of bytes, such as pictures. No model computes with them.
const Bytes engine.DType = 0

// Request asks a model for outputs, or for gradients.
type Request struct {
	ID       string
	Inputs   []Tensor
	Outputs  []Wanted // none: all
	Binary   bool     // outputs that do not say otherwise come as binary data
	Priority uint64   // 1 is the highest; 0: the default
	Timeout  time.Duration
	Stream   string // that the request is a frame of
	// Promised asks that the frame be refused if its Timeout cannot be kept; nil: where there is a stream and a timeout.
	Promised *bool
}

// Tensor is an input of a request.
type Tensor struct {
	Name     string
	Type     engine.DType
	Shape    []int
	Data     []byte   // little-endian, dense, row-major; nil of Bytes
	Elements [][]byte // of Bytes
}

// Wanted is an output that is asked for.
type Wanted struct {
	Name   string
	Binary *bool // nil: as the request says
}

// IsBinary says whether an output comes as binary data.
func (r *Request) IsBinary(name string) bool {
	for i := range r.Outputs {
		if w := &r.Outputs[i]; w.Name == name && w.Binary != nil {
			return *w.Binary
		}
	}
	return r.Binary
}

// TypeName is what the protocol calls a type.
func TypeName(t engine.DType) string {
	if t == Bytes {
		return "BYTES"
	}
	return t.String()
}

// typeOf finds a type by its name.
func typeOf(name string) (engine.DType, bool) {
	for t := engine.Bool; t.Size() > 0; t++ {
		if t.String() == name {
			return t, true
		}
	}
	return Bytes, name == "BYTES"
}
