// Package engine is the vocabulary every other package shares: jobs and the two kinds of work they
// are, what they get back, and the reasons for which a job is refused.
package engine

import (
	"fmt"
	"math"
	"time"
)

// TokenID is an index into a model's vocabulary.
type TokenID = uint32

// JobID names one job (one prompt of one request). The upper 24 bits are drawn by the frontend
// process that made it, the lower 40 count, so frontends need not agree on anything.
type JobID uint64

func (id JobID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Job is one piece of work for one model, of known cost and done in one pass of it, or in one for each
// token where it generates.
type Job struct {
	ID       JobID
	Model    string
	Work     Work
	User     string        // routing and fairness key; may be empty
	Salt     string        // separates the prefix cache; may be empty
	Stream   string        // names the stream that a frame is of; empty: the job is no frame
	Promised bool          // of a frame with a Deadline: it is met, or the job refused; of these only a stream's newest waits
	Request  JobID         // the first job of the request that it is a part of, whose answer waits for all of them; 0: it is wanted by itself
	Priority int           // lower first, under the priority policy and among promises; see Lowest
	Deadline time.Duration // from arrival; 0: none
	Waited   time.Duration // how long its client has held it already, after a restart of the scheduler
}

// Lowest is the Priority of jobs that fill what all others leave idle: under every policy they come after those, hold
// none of them up for longer than a step of their pass, and starve while others leave nothing. Frames with a deadline
// are none of them, whatever their Priority.
const Lowest = math.MaxInt32

// LowestRows is how many tokens or frames a pass of several lowest jobs computes at most: more make it no faster, and what
// it holds while it stands still is to leave room for others.
const LowestRows = 4096

// IsLowest says that the job fills what others leave idle.
func (j *Job) IsLowest() bool { return j.Priority >= Lowest && !j.IsFrame() }

// IsFrame says that the job is of no use after its deadline, even if it has been started.
func (j *Job) IsFrame() bool { return j.Stream != "" && j.Deadline > 0 }

// Work is what a job computes: *Tokens or *Tensors. There is no third kind: an embedding is another
// Ask of Tokens, a gradient another request of Tensors.
type Work interface {
	// Units is the size of the work in the unit of its model's cost: tokens, or frames.
	Units() float64
	work()
}

// Output is what a pass found for a job: *TokenOutput or *TensorOutput.
type Output interface{ output() }

// Finish says why a job ended.
type Finish uint8

// The ways a job can end.
const (
	FinishNone   Finish = iota // not ended
	FinishStop                 // a stop token was chosen
	FinishLength               // MaxTokens were generated
)

func (f Finish) String() string {
	return [...]string{"", "stop", "length"}[f]
}

// Timing is where a job's time went, measured by the scheduler.
type Timing struct {
	Queued   time.Duration // from Submit to the start of its first pass
	Loading  time.Duration // of Queued, until the weights of its model were there
	Running  time.Duration // inside passes
	Executor string        // that ran it; empty while none has
}

// Code classifies a refusal or failure; the frontend alone maps codes to HTTP.
type Code uint8

// The reasons for which a job fails.
const (
	CodeInternal     Code = iota + 1 // a defect of ours
	CodeTooLong                      // the prompt exceeds the model's or the memory's limit
	CodeBadTokens                    // a token id outside the vocabulary, or a malformed ask
	CodeOverloaded                   // an admission bound is reached; RetryAfter says when to come back
	CodeDeadline                     // the deadline passed before the job could be answered
	CodeCancelled                    // the client left
	CodeExecutorLost                 // the job's executors died, as often as a job may be run
	CodeUnavailable                  // no executor serves the model now
	CodeConflict                     // another request has asked for the opposite meanwhile
)

var codeNames = [...]string{"", "internal", "too_long", "bad_tokens", "overloaded", "deadline", "cancelled", "executor_lost", "unavailable", "conflict"}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", c)
}

// Error is a refusal or failure with the figure or name that explains it.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // with CodeOverloaded
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error of code c.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}
