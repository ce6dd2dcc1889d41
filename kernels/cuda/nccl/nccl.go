// Package nccl joins the GPUs that share a model through NVIDIA's library for it, which is opened at run time: binaries run without
// it, and without a GPU. Of NCCL only copies are used, so that how it sums cannot change a bit.
package nccl

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Library is an open libnccl.
type Library struct{ c *C.pf_nccl }

// Comm is one rank's end of a group of GPUs.
type Comm struct {
	library *Library
	c       unsafe.Pointer
}

// Open opens the library of this path, or finds it by its usual names if path is empty.
func Open(path string) (*Library, error) {
	var name *C.char
	if path != "" {
		name = C.CString(path)
		defer C.free(unsafe.Pointer(name))
	}
	var message [512]C.char
	l := C.pf_nccl_open(name, &message[0], C.size_t(len(message)))
	if l == nil {
		return nil, fmt.Errorf("GPUs that share a model need NCCL 2 (libnccl.so.2), which cannot be opened: %s; install Debian's libnccl2 or PyPI's nvidia-nccl-cu13 and put its directory into LD_LIBRARY_PATH", C.GoString(&message[0]))
	}
	return &Library{l}, nil
}

// Version is as NCCL numbers itself: 22803 is 2.28.3.
func (l *Library) Version() (int, error) {
	var v C.int
	err := l.check("version", C.pf_nccl_version(l.c, &v))
	return int(v), err
}

// Join makes a group of the GPUs with these numbers, and returns their ends in this order.
func (l *Library) Join(devices []int) ([]*Comm, error) {
	list, ends := make([]C.int, len(devices)), make([]unsafe.Pointer, len(devices))
	for i, d := range devices {
		list[i] = C.int(d)
	}
	if err := l.check(fmt.Sprintf("join GPUs %v", devices), C.pf_nccl_join(l.c, unsafe.SliceData(ends), C.int(len(list)), unsafe.SliceData(list))); err != nil {
		return nil, err
	}
	comms := make([]*Comm, len(ends))
	for i, c := range ends {
		comms[i] = &Comm{l, c}
	}
	return comms, nil
}

func (l *Library) check(what string, result C.int) error {
	if result == 0 {
		return nil
	}
	return fmt.Errorf("NCCL: %s: %s (%d)", what, C.GoString(C.pf_nccl_error(l.c, result)), int(result))
}

// AllGather enqueues, on the default stream of the rank's GPU, the copy of so many bytes of every
// rank from its send to every rank's recv, in the order of ranks. Every rank calls it, each on its own
// thread with its GPU current; send and recv are addresses in device memory.
func (c *Comm) AllGather(recv, send uint64, bytes int64) error {
	return c.library.check("gather", C.pf_nccl_all_gather(c.library.c, c.c, pointer(send), pointer(recv), C.size_t(bytes)))
}

// pointer is a device address as C sees it; it is not Go memory.
func pointer(p uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Err is a failure that happened beside the calls, such as the loss of another rank.
func (c *Comm) Err() error {
	var state C.int
	if err := c.library.check("state", C.pf_nccl_async_error(c.library.c, c.c, &state)); err != nil {
		return err
	}
	return c.library.check("a rank failed", state)
}

// Abort ends what is under way and frees c, from any thread.
func (c *Comm) Abort() error { return c.library.check("abort", C.pf_nccl_abort(c.library.c, c.c)) }
