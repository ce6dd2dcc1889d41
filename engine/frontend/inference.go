package frontend

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
	"github.com/prefillonly/prefillonly/engine/frontend/registry"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/oip"
)

// infer answers a request of tensors.
func (e *tensorEndpoints) infer(x *exchange.Exchange, r *http.Request) {
	m, name, action, refused := e.modelOf(r)
	if refused == nil && action != "infer" {
		refused = exchange.UnknownPath(r.URL.Path)
	}
	if refused == nil {
		x.Model = m.Name
		refused = e.runInference(x, r, m, name)
	}
	if refused != nil {
		x.Refuse(refused)
	}
}

// runInference answers itself unless it returns a refusal.
func (e *tensorEndpoints) runInference(x *exchange.Exchange, r *http.Request, m *registry.Model, name string) *exchange.Refusal {
	c, refused := e.startInference(x, r, m, name)
	if refused != nil {
		return refused
	}
	defer c.Close()
	if err := c.Wait(r.Context()); err != nil {
		return exchange.RefusalOf(r.Context(), err)
	}
	begun := time.Now()
	writeTensors(x, c.Answer())
	c.NoteWritten(time.Since(begun))
	return nil
}

// startInference reads a body and submits its job. The caller closes the call.
func (e *tensorEndpoints) startInference(x *exchange.Exchange, r *http.Request, m *registry.Model, name string) (*inference.Call, *exchange.Refusal) {
	header, refused := headerLength(r.Header)
	if refused != nil {
		return nil, refused
	}
	from, refused := x.Ask(e.pool, r, m.Name, name, "")
	if refused != nil {
		return nil, refused
	}
	b, refused := x.ReadCoded(r)
	if refused != nil {
		return nil, refused
	}
	defer b.Release()
	c, err := e.inference.Prepare(r.Context(), from, m.Image, b.Bytes, header)
	if err != nil {
		return nil, exchange.RefusalOf(r.Context(), err)
	}
	if refused := startCall(r, c); refused != nil {
		c.Close()
		return nil, refused
	}
	return c, nil
}

// headerLength is how many bytes of a body are JSON; -1 where the header does not say.
func headerLength(h http.Header) (int, *exchange.Refusal) {
	text := h.Get(oip.HeaderLength)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, exchange.Invalid(api.Invalid(oip.HeaderLength, "header %s is %.40q; it must be a number of bytes", oip.HeaderLength, text))
	}
	return n, nil
}

// writeTensors answers with outputs, as JSON and the binary data behind it.
func writeTensors(x *exchange.Exchange, answer *oip.Response) {
	parts := answer.Binary()
	if parts == nil {
		x.WritePieces(tensorsJSON{answer})
		return
	}
	head := answer.AppendJSON(nil, nil)
	total := len(head)
	for _, part := range parts {
		total += len(part)
	}
	h := x.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(total))
	h.Set(oip.HeaderLength, strconv.Itoa(len(head)))
	x.WriteHeader(http.StatusOK)
	for _, part := range append([][]byte{head}, parts...) {
		if _, err := x.Write(part); err != nil {
			x.Left(err)
			return
		}
	}
}

// tensorsJSON is an answer in JSON alone.
type tensorsJSON struct{ *oip.Response }

// AppendJSON implements api.Encoder.
func (t tensorsJSON) AppendJSON(b []byte, spill api.Spill) []byte {
	return t.Response.AppendJSON(b, spill)
}
