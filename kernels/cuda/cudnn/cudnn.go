// Package cudnn describes graphs of operations to cuDNN 9 through its backend interface, and makes and runs plans of
// them. The library is opened at run time.
//
// It has not run on a GPU yet: tests run against a stand-in (cudnntest), and `make check-cudnn` has the real library
// compile what is described here without a GPU.
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
