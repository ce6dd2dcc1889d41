// Package wire holds the messages between frontend, scheduler and executor, and their binary form;
// the same structs are the input and output of scheduler.Core.
//
// Fields are told to msgpack by methods (table.go), not by tags of structs, and long lists travel beside it as raw words. By tags a job of
// 32 tokens is encoded and decoded with 32 allocations instead of 17, in 1.2 to 3 times the time; one of 100,000 tokens, number by number,
// in 120 ms instead of 0.05 ms.
package wire

import (
	"github.com/prefillonly/prefillonly/engine"
)

// Version is the protocol's version. A peer with another version is refused by name and number.
const Version = 10

// Message is one of the structs below, or of peers.go, passes.go and residency.go.
type Message interface {
	kind() Kind
	body
}

// Submit brings a job. The frontend holds it until the final Result, and submits it again when
// the scheduler changes its Epoch.
type Submit struct{ engine.Job }

// Next has an Open job go on, to generate one token more. It brings what is new: the tokens between the last one of the
// job's Results and the one that is asked for. Where the scheduler has lost the job, a Submit of the whole takes its place.
type Next struct {
	Job       engine.JobID
	Generated int              // tokens up to the one that is asked for, Tokens included
	Tokens    []engine.TokenID // raw frame
	Allowed   engine.TokenSet  // of the token that is asked for
	Open      bool             // as engine.Tokens.Open
}

// Cancel withdraws a job; no Result follows.
type Cancel struct{ Job engine.JobID }

// Result is one output of a job, or its end. The last one has Finish set, or Err.
type Result struct {
	Job    engine.JobID
	Output engine.Output // nil with Err
	Finish engine.Finish
	Timing engine.Timing
	Err    *engine.Error
}

// Reset asks that the prefix caches be emptied of all that no job holds; ResetDone answers.
type Reset struct{ Serial uint64 }

// ResetDone tells what a Reset has done.
type ResetDone struct {
	Serial  uint64
	Dropped int // blocks, on devices and in host memory
	Held    int // pages of devices that jobs still hold
}

// SetModel asks that a model be loaded and kept, whatever waits, or be unloaded: refuse new jobs, finish those
// that are there, and give its memory back. ModelSet answers when that is so, or cannot be.
type SetModel struct {
	Serial uint64
	Model  string
	Unload bool
}

// ModelSet answers a SetModel.
type ModelSet struct {
	Serial uint64
	Err    *engine.Error // nil: it is done
}

// Refused tells a peer that speaks another version of the protocol so, in the version that it speaks. Its form
// is that of every version.
type Refused struct {
	Version uint64 // that the sender speaks
	Release string // of the sender's prefillonly
}

// Tick lets time pass in a Core that hears nothing else; it never travels.
type Tick struct{ local }

// Lost says that a peer is gone (heartbeats stopped); it never travels.
type Lost struct{ local }

// Kind numbers the message types on the wire; numbers are never reused.
type Kind uint8

// The kinds, in the order of their numbers.
const (
	kindLocal Kind = iota
	KindHello
	KindWelcome
	KindSubmit
	KindCancel
	KindResult
	KindRun
	KindPause
	KindResume
	KindAbort
	KindPaused
	KindDone
	KindReset
	KindResetDone
	KindSetModel
	KindModelSet
	KindLoad
	KindDrop
	KindLoaded
	KindRefused
	KindNext
	kinds
)

// local is what the messages that never travel have for a form.
type local struct{}

func (local) kind() Kind     { return kindLocal }
func (local) fields(*fields) {}

func (*Hello) kind() Kind     { return KindHello }
func (*Welcome) kind() Kind   { return KindWelcome }
func (*Submit) kind() Kind    { return KindSubmit }
func (*Cancel) kind() Kind    { return KindCancel }
func (*Result) kind() Kind    { return KindResult }
func (*Run) kind() Kind       { return KindRun }
func (*Pause) kind() Kind     { return KindPause }
func (*Resume) kind() Kind    { return KindResume }
func (*Abort) kind() Kind     { return KindAbort }
func (*Paused) kind() Kind    { return KindPaused }
func (*Done) kind() Kind      { return KindDone }
func (*Reset) kind() Kind     { return KindReset }
func (*ResetDone) kind() Kind { return KindResetDone }
func (*SetModel) kind() Kind  { return KindSetModel }
func (*ModelSet) kind() Kind  { return KindModelSet }
func (*Load) kind() Kind      { return KindLoad }
func (*Drop) kind() Kind      { return KindDrop }
func (*Loaded) kind() Kind    { return KindLoaded }
func (*Refused) kind() Kind   { return KindRefused }
func (*Next) kind() Kind      { return KindNext }
