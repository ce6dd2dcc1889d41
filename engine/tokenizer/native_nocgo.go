//go:build !cgo

package tokenizer

import (
	"errors"

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

func (*nativeGrammars) compile(grammar.Kind, string) (grammar.Constraint, error) {
	return nil, errNoLibrary
}
