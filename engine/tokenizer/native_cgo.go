//go:build cgo

package tokenizer

/*
#cgo CFLAGS: -I${SRCDIR}/native
#cgo LDFLAGS: -L${SRCDIR}/native/lib -ltokenizers -ldl -lm -lpthread
#include "prefillonly_native.h"
#if __has_include("native_inputs.h")
#include "native_inputs.h"  // written by tools/native.sh: a new library is a new package to go build
#endif
*/
import "C"

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
)

// nativeModel is a tokenizer of the library.
type nativeModel struct{ handle unsafe.Pointer }

// openModel makes a tokenizer from the text of a tokenizer.json.
func openModel(text []byte) (model, *parts, error) {
	C.tokenizers_version_1_22_1()
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_tokenizer_open((*C.uint8_t)(unsafe.SliceData(text)), C.size_t(len(text)),
		openBudget(len(text)).native(), &failure)
	if handle == nil {
		return nil, nil, takeError(failure)
	}
	m := &nativeModel{handle}
	var out C.struct_prefillonly_bytes
	if C.prefillonly_tokenizer_describe(handle, openBudget(len(text)).native(), &out, &failure) != 0 {
		m.close()
		return nil, nil, takeError(failure)
	}
	p := &parts{}
	if err := json.Unmarshal(takeBytes(out), p); err != nil {
		m.close()
		return nil, nil, err
	}
	return m, p, nil
}

func (b budget) native() C.struct_prefillonly_budget {
	return C.struct_prefillonly_budget{bytes: C.size_t(b.bytes), milliseconds: C.uint32_t(b.time.Milliseconds())}
}

func (m *nativeModel) encode(text string, addSpecial bool, cancelled *atomic.Int32) ([]engine.TokenID, error) {
	var out C.struct_prefillonly_ids
	var failure C.struct_prefillonly_bytes
	if C.prefillonly_tokenizer_encode(m.handle, (*C.uint8_t)(unsafe.StringData(text)), C.size_t(len(text)),
		C.bool(addSpecial), encodeBudget(len(text)).native(), (*C.int32_t)(unsafe.Pointer(cancelled)), &out, &failure) != 0 {
		return nil, takeError(failure)
	}
	defer C.prefillonly_ids_free(out)
	return slices.Clone(unsafe.Slice((*engine.TokenID)(out.data), int(out.len))), nil
}

func (m *nativeModel) decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	var out, failure C.struct_prefillonly_bytes
	if C.prefillonly_tokenizer_decode(m.handle, (*C.uint32_t)(unsafe.SliceData(ids)), C.size_t(len(ids)),
		C.bool(skipSpecial), decodeBudget(len(ids)).native(), &out, &failure) != 0 {
		return "", takeError(failure)
	}
	return string(takeBytes(out)), nil
}

func (m *nativeModel) close() { C.tokenizers_free_tokenizer(m.handle) }

// template is a compiled chat template, freed with the last reference to it.
type template struct{ handle unsafe.Pointer }

func compileTemplate(source string) (*template, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_template_compile((*C.uint8_t)(unsafe.StringData(source)), C.size_t(len(source)),
		templateFuel, templateBudget(len(source)).native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	t := &template{handle}
	runtime.SetFinalizer(t, func(t *template) { C.prefillonly_template_free(t.handle) })
	return t, nil
}

// render renders with the JSON object context; flatten joins the text parts of messages.
func (t *template) render(context []byte, flatten bool) (string, error) {
	var out, failure C.struct_prefillonly_bytes
	if C.prefillonly_template_render(t.handle, (*C.uint8_t)(unsafe.SliceData(context)), C.size_t(len(context)),
		C.bool(flatten), templateBudget(len(context)).native(), &out, &failure) != 0 {
		return "", takeError(failure)
	}
	runtime.KeepAlive(t)
	return string(takeBytes(out)), nil
}

// takeBytes copies what the library returned, and frees it.
func takeBytes(b C.struct_prefillonly_bytes) []byte {
	defer C.prefillonly_bytes_free(b)
	return slices.Clone(unsafe.Slice((*byte)(b.data), int(b.len)))
}

func takeError(b C.struct_prefillonly_bytes) error { return errors.New(string(takeBytes(b))) }
