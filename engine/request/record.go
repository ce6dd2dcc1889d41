package request

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/client"
)

// Record is what the log, the metrics and the spans say of a request.
type Record struct {
	Jobs            int           // 0: none were made, and nothing is told
	Queued, Running time.Duration // of the longest job
	Finish          string        // why the answer ended: "stop" or "length"; empty: there is none
	Memory          int64         // bytes beyond its body
	Trace           *client.Trace // of the jobs one by one; nil: not kept
	Tokens          *Tokens       // of a request that asks for tokens, or for what is made of them
	Frames          *Frames       // of one that asks networks
	Stages          []Stage       // those of processors; kept with the Trace, so many as spans may be made of
}

// Stage is one of processors.
type Stage struct {
	Kind         string
	Asked, Ended time.Time
	Waited       time.Duration // for a slot
}

// maxStages bounds those of a Record: a page of a thousand lines has dozens.
const maxStages = 64

// noteStage keeps a stage that has ended.
func (r *Record) noteStage(s Stage) {
	if r.Trace != nil && len(r.Stages) < maxStages {
		r.Stages = append(r.Stages, s)
	}
}

// Tokens are the figures of a request's prompts and of the tokens that answer them.
type Tokens struct {
	Prompt, Cached, Completion int
	Max, N                     int           // asked for: tokens of an answer, and answers
	Prefilled                  time.Duration // of Running, what came before the first token
	First, Last                time.Time     // when they came
}

// Frames are the figures of a request's inputs and outputs.
type Frames struct {
	Count    float64
	Prepared time.Duration // the making of inputs, and the waiting for it
	Written  time.Duration // the making and sending of the answer
}

// Note times a Result, the first of its answer or a later one.
func (r *Record) Note(d client.Delivery, first bool) {
	r.noteTiming(d)
	if r.Tokens != nil {
		r.Tokens.note(d, first)
	}
}

// noteFailure times the Result of a job that failed. That of a prompt tells nothing, as no token came of it.
func (r *Record) noteFailure(d client.Delivery) {
	if r.Tokens == nil {
		r.noteTiming(d)
	}
}

func (r *Record) noteTiming(d client.Delivery) {
	timing := d.Result.Timing
	r.Trace.Note(d)
	r.Queued, r.Running = max(r.Queued, timing.Queued), max(r.Running, timing.Running)
}

func (t *Tokens) note(d client.Delivery, first bool) {
	if t.First.IsZero() {
		t.First = d.At
	}
	t.Last = d.At
	if first {
		t.Prefilled = max(t.Prefilled, d.Result.Timing.Running)
	}
}

// Decode is how long the tokens behind the first one took.
func (t *Tokens) Decode() time.Duration { return t.Last.Sub(t.First) }

// Inference is how long the request was computed.
func (r *Record) Inference() time.Duration {
	if t := r.Tokens; t != nil {
		return t.Prefilled + t.Decode()
	}
	return r.Running
}
