package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/api"
)

// stream answers with server-sent events: one a token, as they come. The first waits for the first
// token, so a refusal until then still has its own status.
func (f *Frontend) stream(c *call, r *http.Request) *refusal {
	s := &events{c: c, control: http.NewResponseController(c.x.ResponseWriter), said: make([]int, len(c.choices)), begun: make([]bool, len(c.choices))}
	for c.open > 0 {
		received, refused := c.next(r.Context())
		if refused != nil {
			if c.x.status != 0 {
				s.fail(refused)
			}
			return refused
		}
		for _, d := range received {
			s.emit(d.Index)
			c.choices[d.Index].scores = nil // are out
		}
		if !s.flush() {
			return ended(r.Context())
		}
	}
	if c.StreamOptions != nil && c.StreamOptions.IncludeUsage {
		s.event(nil, nil, c.usage())
	}
	s.buffer = append(s.buffer, "data: [DONE]\n\n"...)
	s.flush()
	return nil
}

// events writes the events of one stream.
type events struct {
	c       *call
	control *http.ResponseController
	buffer  []byte
	said    []int  // tokens of each choice that are out
	begun   []bool // the choice has said something
	failed  bool   // the client does not read any more
}

// emit appends the event for what choice i has new. Several Results that came together make one.
func (s *events) emit(i int) {
	ch := &s.c.choices[i]
	first := s.said[i]
	if s.begun[i] && first == len(ch.answers) {
		return
	}
	var usage *api.Usage
	if o := s.c.StreamOptions; o != nil && o.ContinuousUsage {
		usage = s.c.usage()
	}
	if s.c.chat {
		if !s.begun[i] {
			s.event(nil, &api.ChatChoice{Index: i, Delta: &api.ChatMessage{Role: "assistant"}}, usage)
		}
		part := ch.chatPart(i, first)
		part.Delta = &api.ChatMessage{Content: ch.fresh()}
		s.event(nil, &part, usage)
	} else {
		part := ch.completionPart(i, first)
		s.event(&part, nil, usage)
	}
	s.said[i], s.begun[i] = len(ch.answers), true
}

// event appends one event with the given choice, or none.
func (s *events) event(text *api.CompletionChoice, chat *api.ChatChoice, usage *api.Usage) {
	c := s.c
	s.buffer = append(s.buffer, "data: "...)
	if c.chat {
		e := api.Chat{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model, Usage: usage}
		if chat != nil {
			e.Choices.Items = []api.ChatChoice{*chat}
		}
		s.buffer = e.AppendJSON(s.buffer, s.send)
	} else {
		e := api.Completion{ID: c.id, Object: "text_completion", Created: c.created, Model: c.model, Usage: usage}
		if text != nil {
			e.Choices.Items = []api.CompletionChoice{*text}
		}
		s.buffer = e.AppendJSON(s.buffer, s.send)
	}
	s.buffer = append(s.buffer, '\n', '\n')
}

// fail ends a stream that has begun with an error event, as the status is out already.
func (s *events) fail(r *refusal) {
	body, err := r.body.MarshalJSON()
	if err != nil {
		return
	}
	s.buffer = append(append(append(s.buffer, "data: "...), body...), "\n\ndata: [DONE]\n\n"...)
	s.flush()
}

// flush sends what was appended, and reports whether the client still reads.
func (s *events) flush() bool {
	if len(s.buffer) > 0 {
		s.buffer, _ = s.send(s.buffer)
		s.failed = s.failed || s.control.Flush() != nil
	}
	return !s.failed
}

// send is the api.Spill of the events.
func (s *events) send(b []byte) (empty []byte, more bool) {
	x := s.c.x
	if x.status == 0 {
		h := x.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	if !s.failed {
		_, err := x.Write(b)
		s.failed = err != nil
	}
	return b[:0], !s.failed
}
