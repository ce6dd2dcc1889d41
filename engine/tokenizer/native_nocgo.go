//go:build !cgo

package tokenizer

import (
	"errors"
	"sync/atomic"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

var errNoLibrary = errors.New("this binary was built with CGO_ENABLED=0, without the library of tokenizers and chat templates; build it with cgo after make setup")

func openModel([]byte) (model, *parts, error) { return nil, nil, errNoLibrary }

// template is a compiled chat template, which this build cannot make.
type template struct{}

func compileTemplate(string) (*template, error) { return nil, errNoLibrary }

func (*template) render([]byte, bool) (string, error) { return "", errNoLibrary }

// nativeGrammars compiles forms, which this build cannot.
type nativeGrammars struct{}

func openGrammars(model, [][]byte) (*nativeGrammars, error) { return nil, errNoLibrary }

func (*nativeGrammars) close() {}

func (*nativeGrammars) compile(grammar.Kind, string, budget, *atomic.Int32) (*nativeForm, error) {
	return nil, errNoLibrary
}

// nativeForm is a compiled form, which this build cannot make.
type nativeForm struct{}

func (*nativeForm) clone() (*nativeForm, error) { return nil, errNoLibrary }
func (*nativeForm) close()                      {}

func (*nativeForm) advance([]engine.TokenID) ([]engine.TokenID, bool, error) {
	return nil, false, errNoLibrary
}

func (*nativeForm) allowed() (engine.TokenSet, bool, error) {
	return engine.TokenSet{}, false, errNoLibrary
}

func limitForms(int)      {}
func formsHeld() int      { return 0 }
func isFull(error) bool   { return false }
func isBroken(error) bool { return false }
