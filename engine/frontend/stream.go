package frontend

import (
	"net/http"

	"github.com/prefillonly/prefillonly/engine/completion"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// stream answers with server-sent events: one a token, as they come. The first waits for the first
// token, so a refusal until then still has its own status.
func stream(x *exchange.Exchange, r *http.Request, c *completion.Call) *exchange.Refusal {
	defer c.Close()
	if refused := startCall(r, c); refused != nil {
		return refused
	}
	s := &events{x: x, control: http.NewResponseController(x)}
	for !c.Done() {
		fresh, err := c.Next(r.Context())
		if err != nil {
			refused := exchange.RefusalOf(r.Context(), err)
			if x.Status() != 0 {
				s.failStream(refused)
			}
			return refused
		}
		for _, i := range fresh {
			s.buffer = c.AppendEvents(s.buffer, s.spillEvents, i)
		}
		if !s.flushEvents() {
			return exchange.Ended(r.Context())
		}
	}
	s.buffer = c.AppendLast(s.buffer, s.spillEvents)
	s.flushEvents()
	return nil
}

// events sends the events of one stream.
type events struct {
	x       *exchange.Exchange
	control *http.ResponseController
	buffer  []byte
	failed  bool // the client does not read any more
}

// failStream ends a stream that has begun with an error event, as the status is out already.
func (s *events) failStream(r *exchange.Refusal) {
	body, err := r.Body.MarshalJSON()
	if err != nil {
		return
	}
	s.buffer = completion.AppendDone(completion.AppendEvent(s.buffer, body))
	s.flushEvents()
}

// flushEvents sends what was appended, and reports whether the client still reads.
func (s *events) flushEvents() bool {
	if len(s.buffer) > 0 {
		s.buffer, _ = s.spillEvents(s.buffer)
		s.failed = s.failed || s.control.Flush() != nil
	}
	return !s.failed
}

// spillEvents is the api.Spill of the events.
func (s *events) spillEvents(b []byte) (empty []byte, more bool) {
	if s.x.Status() == 0 {
		h := s.x.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	if !s.failed {
		_, err := s.x.Write(b)
		s.failed = err != nil
	}
	return b[:0], !s.failed
}
