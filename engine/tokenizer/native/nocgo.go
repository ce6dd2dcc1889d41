//go:build !cgo

package native

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/grammar"
)

var errNoLibrary = errors.New("this binary was built with CGO_ENABLED=0 and has no tokenizers and chat templates: run make setup and build it with cgo")

// The types and functions of the other build, none of which is to be had in this one.

type Tokenizer struct{}

func Open([]byte) (*Tokenizer, []byte, error) { return nil, nil, errNoLibrary }

func (*Tokenizer) Encode(string, bool, *atomic.Int32) ([]engine.TokenID, error) {
	return nil, errNoLibrary
}

func (*Tokenizer) Decode([]engine.TokenID, bool) (string, error) { return "", errNoLibrary }
func (*Tokenizer) Close()                                        {}
func (*Tokenizer) Grammars([][]byte) (*Grammars, error)          { return nil, errNoLibrary }

type Template struct{}

func CompileTemplate(string, uint64, time.Duration) (*Template, error) { return nil, errNoLibrary }

func (*Template) Render([]byte, bool) (string, error) { return "", errNoLibrary }

type Grammars struct{}

func (*Grammars) Close() {}

func (*Grammars) Compile(grammar.Kind, string, time.Duration, *atomic.Int32) (*Form, error) {
	return nil, errNoLibrary
}

type Form struct{}

func (*Form) Clone() (*Form, error) { return nil, errNoLibrary }
func (*Form) Close()                {}

func (*Form) Advance([]engine.TokenID) ([]engine.TokenID, bool, error) {
	return nil, false, errNoLibrary
}

func (*Form) Allowed() (engine.TokenSet, bool, error) { return engine.TokenSet{}, false, errNoLibrary }

func LimitForms(int)      {}
func FormsHeld() int      { return 0 }
func IsFull(error) bool   { return false }
func IsBroken(error) bool { return false }
