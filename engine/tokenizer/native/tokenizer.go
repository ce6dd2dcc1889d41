//go:build cgo

package native

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo LDFLAGS: -L${SRCDIR}/lib -ltokenizers -ldl -lm -lpthread
#include "prefillonly_native.h"
#if __has_include("native_inputs.h")
#include "native_inputs.h"  // written by tools/build/native.sh: a new library is a new package to go build
#endif
*/
import "C"

import (
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
)

// Tokenizer is a tokenizer of the library.
type Tokenizer struct{ handle unsafe.Pointer }

// Open makes a tokenizer from the text of a tokenizer.json, and describes it: what the file says, as JSON, with the
// vocabulary by id.
func Open(text []byte) (t *Tokenizer, description []byte, err error) {
	C.tokenizers_version_1_22_1()
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_tokenizer_open((*C.uint8_t)(unsafe.SliceData(text)), C.size_t(len(text)),
		openBudget(len(text)).native(), &failure)
	if handle == nil {
		return nil, nil, takeError(failure)
	}
	t = &Tokenizer{handle}
	var out C.struct_prefillonly_bytes
	if C.prefillonly_tokenizer_describe(handle, openBudget(len(text)).native(), &out, &failure) != 0 {
		t.Close()
		return nil, nil, takeError(failure)
	}
	return t, takeBytes(out), nil
}

func (b budget) native() C.struct_prefillonly_budget {
	return C.struct_prefillonly_budget{bytes: C.size_t(b.bytes), milliseconds: C.uint32_t(b.time.Milliseconds())}
}

// Encode fails when *cancelled becomes other than 0; it may be nil.
func (t *Tokenizer) Encode(text string, addSpecial bool, cancelled *atomic.Int32) ([]engine.TokenID, error) {
	var out C.struct_prefillonly_ids
	var failure C.struct_prefillonly_bytes
	if C.prefillonly_tokenizer_encode(t.handle, (*C.uint8_t)(unsafe.StringData(text)), C.size_t(len(text)),
		C.bool(addSpecial), encodeBudget(len(text)).native(), (*C.int32_t)(unsafe.Pointer(cancelled)), &out, &failure) != 0 {
		return nil, takeError(failure)
	}
	defer C.prefillonly_ids_free(out)
	return slices.Clone(unsafe.Slice((*engine.TokenID)(out.data), int(out.len))), nil
}

// Decode is the text of ids.
func (t *Tokenizer) Decode(ids []engine.TokenID, skipSpecial bool) (string, error) {
	var out, failure C.struct_prefillonly_bytes
	if C.prefillonly_tokenizer_decode(t.handle, (*C.uint32_t)(unsafe.SliceData(ids)), C.size_t(len(ids)),
		C.bool(skipSpecial), decodeBudget(len(ids)).native(), &out, &failure) != 0 {
		return "", takeError(failure)
	}
	return string(takeBytes(out)), nil
}

// Close frees the tokenizer. What was made of it is closed before.
func (t *Tokenizer) Close() { C.tokenizers_free_tokenizer(t.handle) }

// takeBytes copies what the library returned, and frees it.
func takeBytes(b C.struct_prefillonly_bytes) []byte {
	defer C.prefillonly_bytes_free(b)
	return slices.Clone(unsafe.Slice((*byte)(b.data), int(b.len)))
}

func takeError(b C.struct_prefillonly_bytes) error { return errors.New(string(takeBytes(b))) }
