//go:build cgo

package tokenizer

// #include "prefillonly_native.h"
import "C"

import (
	"errors"
	"runtime"
	"slices"
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

func (g *nativeGrammars) compile(kind grammar.Kind, text string) (grammar.Constraint, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammar_compile(g.handle, C.uint32_t(kind), (*C.uint8_t)(unsafe.StringData(text)), C.size_t(len(text)),
		grammarBudget(len(text)).native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	return newConstraint(handle, g.vocab), nil
}

// constraint is a compiled form in a state.
type constraint struct {
	handle unsafe.Pointer // nil when it is closed
	vocab  int
}

func newConstraint(handle unsafe.Pointer, vocab int) *constraint {
	c := &constraint{handle, vocab}
	runtime.SetFinalizer(c, (*constraint).Close)
	return c
}

// Close implements grammar.Constraint.
func (c *constraint) Close() {
	if c.handle != nil {
		C.prefillonly_grammar_free(c.handle)
		c.handle = nil
	}
}

// Advance implements grammar.Constraint.
func (c *constraint) Advance(ids ...engine.TokenID) (forced []engine.TokenID, done bool, err error) {
	var out C.struct_prefillonly_ids
	var failure C.struct_prefillonly_bytes
	state := C.prefillonly_grammar_advance(c.handle, (*C.uint32_t)(unsafe.SliceData(ids)), C.size_t(len(ids)), stepBudget.native(), &out, &failure)
	runtime.KeepAlive(c)
	if state < 0 {
		return nil, false, takeError(failure)
	}
	defer C.prefillonly_ids_free(out)
	return slices.Clone(unsafe.Slice((*engine.TokenID)(out.data), int(out.len))), state == 1, nil
}

// Allowed implements grammar.Constraint.
func (c *constraint) Allowed() (set engine.TokenSet, end bool, err error) {
	var failure C.struct_prefillonly_bytes
	mask := make([]uint32, (c.vocab+31)/32)
	state := C.prefillonly_grammar_mask(c.handle, (*C.uint32_t)(unsafe.SliceData(mask)), C.size_t(len(mask)), stepBudget.native(), &failure)
	runtime.KeepAlive(c)
	if state < 0 {
		return engine.TokenSet{}, false, takeError(failure)
	}
	return engine.TokenSetOfBits(mask), state == 1, nil
}

// Clone implements grammar.Constraint.
func (c *constraint) Clone() (grammar.Constraint, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_grammar_clone(c.handle, stepBudget.native(), &failure)
	runtime.KeepAlive(c)
	if handle == nil {
		return nil, takeError(failure)
	}
	return newConstraint(handle, c.vocab), nil
}
