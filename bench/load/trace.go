package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/internal/jsonerror"
)

// A trace is a file of JSON lines, one request each, in order of time:
//
//	{"at":0,"user":"a","prompt":"Is this post of interest?","max_tokens":1}
//	{"at":0.25,"user":"b","prompt":[17,4,99],"allowed_token_ids":[5,6]}
//	{"at":1.5,"model":"m","shape":{"prefix":3,"prefix_tokens":14000,"suffix":8,"suffix_tokens":150}}
//
// at is in seconds from the start; max_tokens is 1 where it is left out, and model the one that the client is
// told. Blank lines are skipped.
type traceLine struct {
	At        *float64         `json:"at"`
	Model     string           `json:"model,omitempty"`
	User      string           `json:"user,omitempty"`
	Prompt    json.RawMessage  `json:"prompt,omitempty"`
	Shape     *Shape           `json:"shape,omitempty"`
	MaxTokens *int             `json:"max_tokens,omitempty"`
	Allowed   []engine.TokenID `json:"allowed_token_ids,omitempty"`
}

// Bounds of what a trace may ask, far above what any model takes.
const (
	maxLineBytes    = 256 << 20
	maxPromptTokens = 1 << 26
	maxSeconds      = 1e8
)

// LineError is a fault in one line of a trace.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// ReadTrace reads a whole trace. name is the file's name, for errors, which are *LineError where a
// line is at fault.
func ReadTrace(r io.Reader, name string) ([]Request, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLineBytes)
	var requests []Request
	number := 0
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		q, err := parseLine(text)
		if err == nil && len(requests) > 0 && q.At < requests[len(requests)-1].At {
			err = fmt.Errorf("at %v is before the request above it (%v): sort the trace by time", q.At.Seconds(), requests[len(requests)-1].At.Seconds())
		}
		if err != nil {
			return nil, &LineError{File: name, Line: number, Err: err}
		}
		requests = append(requests, q)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &LineError{File: name, Line: number + 1, Err: fmt.Errorf("longer than %d bytes", maxLineBytes)}
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("%s holds no requests", name)
	}
	return requests, nil
}

func parseLine(text []byte) (Request, error) {
	var l traceLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return Request{}, errors.New(jsonerror.Explain(err, &l))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Request{}, errors.New("got several JSON values in the line, want one")
	}
	q := Request{Model: l.Model, User: l.User, MaxTokens: 1, Allowed: l.Allowed}
	switch {
	case l.At == nil:
		return Request{}, errors.New(`missing "at"`)
	case !(*l.At >= 0 && *l.At <= maxSeconds):
		return Request{}, fmt.Errorf("invalid at %v: want 0 to %g seconds", *l.At, maxSeconds)
	case l.MaxTokens != nil && *l.MaxTokens < 1:
		return Request{}, fmt.Errorf("invalid max_tokens %d: want at least 1", *l.MaxTokens)
	case l.MaxTokens != nil:
		q.MaxTokens = *l.MaxTokens
	}
	q.At = time.Duration(math.Round(*l.At * 1e9))
	var err error
	q.Prompt, err = l.parsePrompt()
	return q, err
}

func (l *traceLine) parsePrompt() (Prompt, error) {
	if (len(l.Prompt) > 0) == (l.Shape != nil) {
		return Prompt{}, errors.New(`want "prompt" or "shape"`)
	}
	if s := l.Shape; s != nil {
		if s.PrefixTokens < 0 || s.SuffixTokens < 0 || s.PrefixTokens > maxPromptTokens || s.SuffixTokens > maxPromptTokens || s.Len() == 0 {
			return Prompt{}, fmt.Errorf("invalid prompt of %d + %d tokens: want 1 to %d", s.PrefixTokens, s.SuffixTokens, maxPromptTokens)
		}
		return Prompt{Shape: *s}, nil
	}
	var p Prompt
	var err error
	if l.Prompt[0] == '[' {
		err = json.Unmarshal(l.Prompt, &p.Tokens)
	} else {
		err = json.Unmarshal(l.Prompt, &p.Text)
	}
	if err != nil {
		return Prompt{}, fmt.Errorf("invalid prompt: want a string or a list of token ids: %w", err)
	}
	if p.Text == "" && len(p.Tokens) == 0 {
		return Prompt{}, errors.New("empty prompt")
	}
	return p, nil
}

// WriteTrace writes a trace that ReadTrace reads back.
func WriteTrace(w io.Writer, requests []Request) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for i, q := range requests {
		at := q.At.Seconds()
		l := traceLine{At: &at, Model: q.Model, User: q.User, MaxTokens: &requests[i].MaxTokens, Allowed: q.Allowed}
		var err error
		switch {
		case q.Prompt.Text != "":
			l.Prompt, err = json.Marshal(q.Prompt.Text)
		case len(q.Prompt.Tokens) > 0:
			l.Prompt, err = json.Marshal(q.Prompt.Tokens)
		default:
			l.Shape = &requests[i].Prompt.Shape
		}
		if err == nil {
			err = encoder.Encode(&l)
		}
		if err != nil {
			return fmt.Errorf("write request %d of the trace: %w", i, err)
		}
	}
	return out.Flush()
}
