// Package grammar says which tokens may follow while a text is generated that must have a given form.
package grammar

import "github.com/prefillonly/prefillonly/engine"

// Constraint is the form that one text must have, and how far the text has come. It begins with Advance of no tokens. One
// goroutine uses it.
type Constraint interface {
	// Advance takes tokens of what Allowed has said, and then those that must follow them, which it returns. Done says that
	// the text is complete and nothing can follow.
	Advance(ids ...engine.TokenID) (forced []engine.TokenID, done bool, err error)
	// Allowed are the tokens that may follow in a text that is not done. End says that the text may also end here.
	Allowed() (set engine.TokenSet, end bool, err error)
	// Clone makes a Constraint in the same state, from where both go on apart.
	Clone() (Constraint, error)
	// Close frees it. No other call follows.
	Close()
}

// Kind is the language that a form is written in.
type Kind uint8

// The kinds, with the numbers of the native library.
const (
	JSONSchema Kind = iota
	Regex           // of the whole text, in the syntax of Rust's regex crate
	Lark            // of llguidance, in which %json {...} stands for a JSON schema
)
