//go:build cgo

package tokenizer

// #include "prefillonly_native.h"
import "C"

import (
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// nativeGrammars compiles forms for the tokens of one tokenizer.
type nativeGrammars struct {
	handle unsafe.Pointer
	vocab  int
}

func openGrammars(m model, spellings [][]byte) (*nativeGrammars, error) {
	native, ok := m.(*nativeModel)
	if !ok {
		return nil, errors.New("this tokenizer has no grammars")
	}
	ends := make([]C.uint32_t, len(spellings))
	var text []byte
	for i, s := range spellings {
		text = append(text, s...)
		ends[i] = C.uint32_t(len(text))
	}
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammars_open(native.handle, (*C.uint8_t)(unsafe.SliceData(text)), unsafe.SliceData(ends),
		C.size_t(len(ends)), openBudget(len(text)).native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return &nativeGrammars{handle, len(spellings)}, nil
}

func (g *nativeGrammars) close() { C.prefillonly_grammars_free(g.handle) }

// nativeForm is a compiled form in a state.
type nativeForm struct {
	handle unsafe.Pointer
	vocab  int
}

// compile makes a form, which and whose clones keep no more than b allows; *cancelled ends it when it becomes other than 0.
func (g *nativeGrammars) compile(kind grammar.Kind, text string, b budget, cancelled *atomic.Int32) (*nativeForm, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammar_compile(g.handle, C.uint32_t(kind), (*C.uint8_t)(unsafe.StringData(text)), C.size_t(len(text)),
		b.native(), C.size_t(b.bytes), (*C.int32_t)(unsafe.Pointer(cancelled)), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return &nativeForm{handle, g.vocab}, nil
}

func (f *nativeForm) clone() (*nativeForm, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammar_clone(f.handle, stepBudget.native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return &nativeForm{handle, f.vocab}, nil
}

func (f *nativeForm) close() { C.prefillonly_grammar_free(f.handle) }

// limitForms bounds what all forms hold; formsHeld is that.
func limitForms(bytes int) { C.prefillonly_kept_limit(C.size_t(bytes)) }
func formsHeld() int       { return int(C.prefillonly_kept()) }

// isFull says that this bound is reached, isBroken that a clone has failed.
func isFull(err error) bool   { return err != nil && err.Error() == C.prefillonly_full }
func isBroken(err error) bool { return err != nil && err.Error() == C.prefillonly_broken }

// advance takes ids and what must follow them, which is forced.
func (f *nativeForm) advance(ids []engine.TokenID) (forced []engine.TokenID, done bool, err error) {
	var out C.struct_prefillonly_ids
	var failure C.struct_prefillonly_bytes
	state := C.prefillonly_grammar_advance(f.handle, (*C.uint32_t)(unsafe.SliceData(ids)), C.size_t(len(ids)), stepBudget.native(), &out, &failure)
	if state < 0 {
		return nil, false, takeError(failure)
	}
	defer C.prefillonly_ids_free(out)
	return slices.Clone(unsafe.Slice((*engine.TokenID)(out.data), int(out.len))), state == 1, nil
}

// allowed are the tokens that may follow; end says that the text may end.
func (f *nativeForm) allowed() (set engine.TokenSet, end bool, err error) {
	var failure C.struct_prefillonly_bytes
	mask := make([]uint32, (f.vocab+31)/32)
	state := C.prefillonly_grammar_mask(f.handle, (*C.uint32_t)(unsafe.SliceData(mask)), C.size_t(len(mask)), stepBudget.native(), &failure)
	if state < 0 {
		return engine.TokenSet{}, false, takeError(failure)
	}
	return engine.TokenSetOfBits(mask), state == 1, nil
}
