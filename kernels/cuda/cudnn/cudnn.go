// Package cudnn computes by cuDNN 9 what it is faster at than kernels of our own may be: causal attention over paged keys and
// values (Attentions), and convolutions of images in float32 (Convolutions). Both are described as graphs of operations through the
// library's backend interface; the library is opened at run time, and plans of attention are kept in memory and on disk.
//
// It has not run on a GPU yet: tests run against a stand-in (cudatest), and `make check-cudnn` has the real library choose engines and
// compile plans of what is described here without a GPU. Of attention of Llama-3.1-8B's shape, 32 heads of 128 over 8 in blocks of 64,
// in 27 sizes of call each, it gave:
//
//	cuDNN    GPU          engine  kernel                              tile of queries x keys
//	9.19.0   A100, L4     1       sm80_flash_fprop_wmma_f16_knob_3    64 x 64
//	9.19.0   H100         2       sm90_flash_fprop_wgmma_f16_knob_7   64 x 128
//	9.28.0   A100, L4     8       sm80_flash_fprop_wmma_f16_knob_1    64 x 64
//	9.28.0   H100         9       sm90_flash_fprop_wgmma_f16_knob_1   64 x 128
//
// The machine code of all 27 is the same. A plan compiles in 0.3 to 1.6 s on two busy cores and is restored in less than 0.1 s.
//
// Of convolutions 9.28 says, for an H100 as it is described and channels innermost:
//
//   - Without tensor cores, which compute float32 as TF32 (10 bits of fraction), the recommended heuristic knows
//     engines for products of single pixels, for groups, for depthwise convolutions, for few input channels and for gradients.
//     For 3 x 3 of many channels only the fallback does.
//   - A bias, and ReLU after it, are fused by some of these. A clip on both sides only by the engine that takes
//     every shape, and SiLU, as its documentation has it, by engines of tensor cores alone; they are computed after the convolution.
//   - Dilated convolutions whose channels all meet have none but that engine: they stay with our own kernels.
//   - Most engines refuse padding that differs before and after: an input with such padding, as parts of images have it,
//     is to be copied with it first.
package cudnn

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Options are the settings of Open.
type Options struct {
	Library string // path of libcudnn.so.9; empty: found by its name
	// Properties, if any, describe a device in cuDNN's JSON: plans are made for it without a GPU, and
	// cannot run.
	Properties string
}

// Library is cuDNN, opened for one device. One goroutine uses it at a time.
type Library struct{ c *C.pf_cudnn }

// Open opens cuDNN 9.19 or newer for the calling thread's context and its default stream. The error
// says what is missing.
func Open(o Options) (*Library, error) {
	name, properties := optional(o.Library), optional(o.Properties)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(properties))
	var m [1024]C.char
	c := C.pf_cudnn_open(name, properties, &m[0], C.size_t(len(m)))
	if c == nil {
		return nil, errors.New(C.GoString(&m[0]))
	}
	return &Library{c}, nil
}

// optional is a C string, or null for an empty one.
func optional(s string) *C.char {
	if s == "" {
		return nil
	}
	return C.CString(s)
}

// Close closes the library, after all that was made of it.
func (l *Library) Close() { C.pf_cudnn_close(l.c) }

// Version is cuDNN's, as in 9.28.0.
func (l *Library) Version() string {
	v := int64(C.pf_cudnn_version(l.c))
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// AtLeast says whether cuDNN is of version 9.minor or newer.
func (l *Library) AtLeast(minor int) bool {
	return int64(C.pf_cudnn_version(l.c)) >= 90000+100*int64(minor)
}

// err is what a status of the function says; nil of success.
func (l *Library) err(function string, status C.int) error {
	if status == 0 {
		return nil
	}
	var m [1024]C.char
	C.pf_cudnn_explain(l.c, status, &m[0], C.size_t(len(m)))
	return fmt.Errorf("%s: %s", function, C.GoString(&m[0]))
}
