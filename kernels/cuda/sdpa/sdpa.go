// Package sdpa computes causal attention over paged keys and values by cuDNN's graph interface, which
// it opens at run time; plans are kept in memory and on disk.
//
// It has not run on a GPU yet. `make check-cudnn` compiles plans without one; of Llama-3.1-8B's shape,
// 32 heads of 128 over 8 in blocks of 64, in 27 sizes of call each, it gave:
//
//	cuDNN    GPU          engine  kernel                              tile of queries x keys
//	9.19.0   A100, L4     1       sm80_flash_fprop_wmma_f16_knob_3    64 x 64
//	9.19.0   H100         2       sm90_flash_fprop_wgmma_f16_knob_7   64 x 128
//	9.28.0   A100, L4     8       sm80_flash_fprop_wmma_f16_knob_1    64 x 64
//	9.28.0   H100         9       sm90_flash_fprop_wgmma_f16_knob_1   64 x 128
//
// The machine code of all 27 is the same. A plan compiles in 0.3 to 1.6 s on two busy cores and is
// restored in less than 0.1 s.
package sdpa

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "sdpa.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Options are the settings of Open.
type Options struct {
	Library string // path of libcudnn.so.9; empty: found by its name
	// Device tells devices apart whose plans differ, in the names of files.
	Device string
	// Dir keeps plans from one run to the next; empty: they are compiled anew.
	Dir string
	// Properties, if any, describe a device in cuDNN's JSON: plans are made for it without a GPU, and
	// cannot run.
	Properties string
	// Note is told what slows down but does not stop, for the log.
	Note func(string)
}

// Library is cuDNN, opened for one device. One goroutine uses it at a time.
type Library struct {
	c       *C.pf_sdpa
	options Options
}

// message receives what C functions say of a failure.
type message [1024]C.char

func (m *message) at() (*C.char, C.size_t) { return &m[0], C.size_t(len(m)) }

func (m *message) err() error { return errors.New(C.GoString(&m[0])) }

// Open opens cuDNN 9.19 or newer for the calling thread's context and its default stream. The error
// says what is missing.
func Open(o Options) (*Library, error) {
	name, properties := optional(o.Library), optional(o.Properties)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(properties))
	var m message
	text, size := m.at()
	c := C.pf_sdpa_open(name, nil, properties, text, size)
	if c == nil {
		return nil, m.err()
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	return &Library{c, o}, nil
}

// optional is a C string, or null for an empty one.
func optional(s string) *C.char {
	if s == "" {
		return nil
	}
	return C.CString(s)
}

// Close closes the library, after all that was made of it.
func (l *Library) Close() { C.pf_sdpa_close(l.c) }

// Version is cuDNN's, as in 9.28.0.
func (l *Library) Version() string {
	v := int64(C.pf_sdpa_version(l.c))
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// Shape is what a model's attention has in all calls. Queries and outputs are rows, heads side by
// side; keys and values lie in pages [KVHeads][PageTokens][Dim] of keys and then of values. All is
// bfloat16, strides are in elements.
type Shape struct {
	QHeads, KVHeads, Dim int
	QStride, OStride     int // from row to row
	PageTokens           int
	Window               int // a query sees itself and the Window-1 keys before it; 0: all before it
}

// Bucket is what a plan is compiled for: so many sequences in a call, and the most rows and keys of
// one. Keys is a multiple of the pages' tokens.
type Bucket struct{ Batch, Rows, Keys int }

func (s Shape) c(b Bucket) C.pf_sdpa_shape {
	return C.pf_sdpa_shape{
		batch: C.int64_t(b.Batch), rows: C.int64_t(b.Rows), keys: C.int64_t(b.Keys),
		q_heads: C.int64_t(s.QHeads), kv_heads: C.int64_t(s.KVHeads), dim: C.int64_t(s.Dim),
		q_stride: C.int64_t(s.QStride), o_stride: C.int64_t(s.OStride),
		page_tokens: C.int64_t(s.PageTokens), window: C.int64_t(s.Window),
	}
}

// engine is one of cuDNN's kernels.
type engine C.pf_sdpa_engine

func (e engine) String() string {
	s := fmt.Sprintf("engine %d", int64(e.index))
	for i := range e.knobs {
		s += fmt.Sprintf(" %d=%d", int64(e.knob[i]), int64(e.value[i]))
	}
	return s
}

// choose asks cuDNN's heuristic.
func (l *Library) choose(s Shape, b Bucket) (engine, error) {
	var m message
	text, size := m.at()
	shape := s.c(b)
	var e C.pf_sdpa_engine
	if C.pf_sdpa_choose(l.c, &shape, &e, text, size) != 0 {
		return engine{}, m.err()
	}
	return engine(e), nil
}

// Plan is a compiled kernel with the arguments of its bucket.
type Plan struct {
	c      *C.pf_sdpa_plan
	window int
}

func (l *Library) build(s Shape, b Bucket, e engine) (*Plan, error) {
	var m message
	text, size := m.at()
	shape, chosen := s.c(b), C.pf_sdpa_engine(e)
	c := C.pf_sdpa_build(l.c, &shape, &chosen, text, size)
	if c == nil {
		return nil, m.err()
	}
	return &Plan{c, s.Window}, nil
}

// restore makes a plan of what text gave; cuDNN judges whether it is one.
func (l *Library) restore(s Shape, plan []byte) (*Plan, error) {
	var m message
	text, size := m.at()
	c := C.pf_sdpa_restore(l.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(plan))), C.size_t(len(plan)), text, size)
	if c == nil {
		return nil, m.err()
	}
	return &Plan{c, s.Window}, nil
}

// text is the plan as cuDNN writes it, with the kernel's machine code.
func (p *Plan) text() ([]byte, error) {
	size := C.pf_sdpa_serialise(p.c, nil, 0)
	plan := make([]byte, size)
	if size == 0 || C.pf_sdpa_serialise(p.c, (*C.char)(unsafe.Pointer(&plan[0])), size) != size {
		return nil, errors.New("cuDNN does not serialise the plan")
	}
	return plan, nil
}

func (p *Plan) free() { C.pf_sdpa_free(p.c) }

// Workspace is how many bytes of device memory a run needs.
func (p *Plan) Workspace() int64 { return int64(C.pf_sdpa_workspace(p.c)) }

// Call is one run's arguments: addresses in device memory, multiples of 16. Of a plan for Batch sequences of at most
// Keys keys, Rows and Keys hold Batch int32 each, how many queries and keys a sequence has (0 for
// none); its last query sees all its keys. Table holds Batch rows of Keys/PageTokens int32: the number
// of each page, counted from K for its keys and from V for its values. QOffset and OOffset hold
// Batch+1 int64: the element of Q and of O where a sequence begins, ascending, and where the last ends.
type Call struct {
	Q, K, V, O       uint64
	Rows, Keys       uint64
	Table            uint64
	QOffset, OOffset uint64
	Workspace        uint64
	Scale            float32
}

// MaxPages bounds the numbers in Call.Table.
const MaxPages = C.PF_SDPA_PAGES

// pointer is a device address as C sees it.
func pointer(p uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Run enqueues attention on the stream.
func (p *Plan) Run(c Call) error {
	var m message
	text, size := m.at()
	call := C.pf_sdpa_call{
		q: pointer(c.Q), k: pointer(c.K), v: pointer(c.V), o: pointer(c.O),
		rows: (*C.int32_t)(pointer(c.Rows)), keys: (*C.int32_t)(pointer(c.Keys)), table: (*C.int32_t)(pointer(c.Table)),
		q_offset: (*C.int64_t)(pointer(c.QOffset)), o_offset: (*C.int64_t)(pointer(c.OOffset)),
		workspace: pointer(c.Workspace), scale: C.float(c.Scale), window: C.int32_t(p.window),
	}
	if C.pf_sdpa_run(p.c, &call, text, size) != 0 {
		return m.err()
	}
	return nil
}
