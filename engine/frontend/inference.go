package frontend

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/engine/inference"
	"github.com/prefillonly/prefillonly/engine/oip"
	"github.com/prefillonly/prefillonly/internal/contentcoding"
)

// isV2 says whether a path is the Open Inference Protocol's.
func isV2(path string) bool { return path == "/v2" || strings.HasPrefix(path, "/v2/") }

// infer answers a request of tensors.
func (f *Frontend) infer(x *exchange, r *http.Request) {
	m, name, action, refused := f.modelOf(r)
	if refused == nil && action != "infer" {
		refused = unknownPath(r.URL.Path)
	}
	if refused == nil {
		x.model = m.Name
		refused = f.runInference(x, r, m, name)
	}
	if refused != nil {
		f.refuse(x, refused)
	}
}

// runInference answers itself unless it returns a refusal.
func (f *Frontend) runInference(x *exchange, r *http.Request, m *Model, name string) *refusal {
	c, refused := f.prepareInference(x, r, m, name)
	if refused != nil {
		return refused
	}
	defer c.Close()
	x.call, c.Record.Trace = ofInference{&c.Record}, x.times()
	answer, err := c.Wait()
	if err != nil {
		return refusalOf(r.Context(), err)
	}
	begun := time.Now()
	f.writeTensors(x, answer)
	c.Record.Written = time.Since(begun)
	return nil
}

// prepareInference reads a body and submits its job.
func (f *Frontend) prepareInference(x *exchange, r *http.Request, m *Model, name string) (*inference.Call, *refusal) {
	header, refused := headerLength(r.Header)
	if refused != nil {
		return nil, refused
	}
	deadline, refused := deadlineOf(r.Header)
	if refused != nil {
		return nil, refused
	}
	from, refused := decoded(r)
	if refused != nil {
		return nil, refused
	}
	b, refused := f.read(x, r, from)
	if refused != nil {
		return nil, refused
	}
	defer f.release(b)
	c, err := f.inference.New(r.Context(), inference.Origin{
		Arrived: x.start, Model: m.Name, Name: name, User: user(r.Header, ""), Deadline: deadline, Salt: x.owner.Salt, Image: m.Image, Memory: &x.memory,
	}, b.bytes, header)
	if err != nil {
		return nil, refusalOf(r.Context(), err)
	}
	if err := c.Submit(); err != nil {
		c.Close()
		return nil, refusalOf(r.Context(), err)
	}
	return c, nil
}

// decoded is where the body of a request comes from, its coding undone.
func decoded(r *http.Request) (source, *refusal) {
	coding := r.Header.Get("Content-Encoding")
	if coding == "" || coding == "identity" {
		return source{Reader: r.Body, length: r.ContentLength}, nil
	}
	plain := contentcoding.NewReader(coding, r.Body)
	if plain == nil {
		return source{}, refuseStatus(http.StatusUnsupportedMediaType, api.TypeInvalidRequest, "unsupported_content_encoding", "Content-Encoding is %.40q; send %s, or none", coding, contentcoding.Names)
	}
	return source{Reader: plain, length: -1}, nil
}

// headerLength is how many bytes of a body are JSON; -1 where the header does not say.
func headerLength(h http.Header) (int, *refusal) {
	text := h.Get(oip.HeaderLength)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, invalid(api.Invalid(oip.HeaderLength, "header %s is %.40q; it must be a number of bytes", oip.HeaderLength, text))
	}
	return n, nil
}

// writeTensors answers with outputs, as JSON and the binary data behind it.
func (f *Frontend) writeTensors(x *exchange, answer *oip.Response) {
	parts := answer.Binary()
	if parts == nil {
		f.writePieces(x, tensorsJSON{answer})
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
			x.refusedWith = "client_closed_request"
			f.log.Debug("the client left during its answer", zap.String("request_id", x.id), zap.Error(err))
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
