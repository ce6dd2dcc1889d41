//go:build cgo

package native

// #include "prefillonly_native.h"
import "C"

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

// Grammars compiles forms of texts for the tokens of one tokenizer.
type Grammars struct {
	handle unsafe.Pointer
	vocab  int
}

// Grammars makes what the forms for t share. Of each token it is told the bytes; one without is no part of a text.
func (t *Tokenizer) Grammars(spellings [][]byte) (*Grammars, error) {
	ends := make([]C.uint32_t, len(spellings))
	var text []byte
	for i, s := range spellings {
		text = append(text, s...)
		ends[i] = C.uint32_t(len(text))
	}
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammars_open(t.handle, (*C.uint8_t)(unsafe.SliceData(text)), unsafe.SliceData(ends),
		C.size_t(len(ends)), openBudget(len(text)).native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return &Grammars{handle, len(spellings)}, nil
}

// Close frees them. All forms are closed before.
func (g *Grammars) Close() { C.prefillonly_grammars_free(g.handle) }

// Form is a compiled form in a state.
type Form struct {
	handle unsafe.Pointer
	vocab  int
}

// Compile makes a form within so much processor time; *cancelled ends it when it becomes other than 0. The form and its
// clones keep no more memory than this may take.
func (g *Grammars) Compile(kind grammar.Kind, text string, within time.Duration, cancelled *atomic.Int32) (*Form, error) {
	b := grammarBudget(within, len(text))
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammar_compile(g.handle, C.uint32_t(kind), (*C.uint8_t)(unsafe.StringData(text)), C.size_t(len(text)),
		b.native(), C.size_t(b.bytes), (*C.int32_t)(unsafe.Pointer(cancelled)), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return &Form{handle, g.vocab}, nil
}

// Clone is another text in the same state.
func (f *Form) Clone() (*Form, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammar_clone(f.handle, stepBudget.native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return &Form{handle, f.vocab}, nil
}

// Close frees the state, and the form with the last of its clones.
func (f *Form) Close() { C.prefillonly_grammar_free(f.handle) }

// LimitForms bounds what all forms hold; FormsHeld is that.
func LimitForms(bytes int) { C.prefillonly_kept_limit(C.size_t(bytes)) }
func FormsHeld() int       { return int(C.prefillonly_kept()) }

// IsFull says that this bound is reached, IsBroken that a clone has failed.
func IsFull(err error) bool   { return err != nil && err.Error() == C.prefillonly_full }
func IsBroken(err error) bool { return err != nil && err.Error() == C.prefillonly_broken }

// Advance takes ids and what must follow them, which is forced.
func (f *Form) Advance(ids []engine.TokenID) (forced []engine.TokenID, done bool, err error) {
	var out C.struct_prefillonly_ids
	var failure C.struct_prefillonly_bytes
	state := C.prefillonly_grammar_advance(f.handle, (*C.uint32_t)(unsafe.SliceData(ids)), C.size_t(len(ids)), stepBudget.native(), &out, &failure)
	if state < 0 {
		return nil, false, takeError(failure)
	}
	defer C.prefillonly_ids_free(out)
	return slices.Clone(unsafe.Slice((*engine.TokenID)(out.data), int(out.len))), state == 1, nil
}

// Allowed are the tokens that may follow; end says that the text may end.
func (f *Form) Allowed() (set engine.TokenSet, end bool, err error) {
	var failure C.struct_prefillonly_bytes
	mask := make([]uint32, (f.vocab+31)/32)
	state := C.prefillonly_grammar_mask(f.handle, (*C.uint32_t)(unsafe.SliceData(mask)), C.size_t(len(mask)), stepBudget.native(), &failure)
	if state < 0 {
		return engine.TokenSet{}, false, takeError(failure)
	}
	return engine.TokenSetOfBits(mask), state == 1, nil
}
