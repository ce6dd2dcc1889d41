package frontend

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
	"github.com/prefillonly/prefillonly/internal/contentcoding"
)

// heldBody is the size from which a body counts against the memory all bodies may hold together, and
// bigBody that from which its buffer is not kept for the next request.
const (
	heldBody = 64 << 10
	bigBody  = 1 << 20
)

// bodyBudget is how many bodies of the greatest size may be in memory at a time.
const bodyBudget = 8

// body is a request's body in a pooled buffer.
type body struct {
	bytes  []byte
	buffer *[]byte
	held   int64 // counted in Frontend.bodyBytes
}

// readBody reads a JSON body of at most MaxBody bytes. The caller releases it.
func (f *Frontend) readBody(x *exchange, r *http.Request) (*body, *refusal) {
	if refused := f.checkJSON(r); refused != nil {
		return nil, refused
	}
	return f.read(x, r, source{Reader: r.Body, length: r.ContentLength})
}

// read reads a body of at most MaxBody bytes. The caller releases it.
func (f *Frontend) read(x *exchange, r *http.Request, from source) (*body, *refusal) {
	if r.ContentLength > f.cfg.MaxBody {
		return nil, refuseStatus(http.StatusRequestEntityTooLarge, api.TypeInvalidRequest, "body_too_large", "the body has %d bytes; the limit is %d", r.ContentLength, f.cfg.MaxBody)
	}
	b := &body{buffer: f.buffers.Get().(*[]byte)}
	refused := f.fill(b, from)
	x.memory += b.held
	if refused != nil {
		f.release(b)
		return nil, refused
	}
	return b, nil
}

// source is where a body comes from.
type source struct {
	io.Reader
	length int64 // -1: not known
}

func (f *Frontend) checkJSON(r *http.Request) *refusal {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		media, _, err := mime.ParseMediaType(kind)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			return refuseStatus(http.StatusUnsupportedMediaType, api.TypeInvalidRequest, "unsupported_media_type", "Content-Type is %.80q; send the body as application/json", kind)
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return refuseStatus(http.StatusUnsupportedMediaType, api.TypeInvalidRequest, "unsupported_content_encoding", "Content-Encoding is %.40q; send the body without one", coding)
	}
	return nil
}

// fill reads a body into b, growing by doubling until a quarter of it is there, so that a false Content-Length costs
// little.
func (f *Frontend) fill(b *body, from source) *refusal {
	buf := (*b.buffer)[:0]
	if want := min(from.length, heldBody/2) + 1; int64(cap(buf)) < want {
		buf = make([]byte, 0, want)
	}
	for {
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > f.cfg.MaxBody {
			return refuseStatus(http.StatusRequestEntityTooLarge, api.TypeInvalidRequest, "body_too_large", "the body has more than %d bytes, which is the limit", f.cfg.MaxBody)
		}
		if err == io.EOF {
			b.bytes, *b.buffer = buf, buf
			return nil
		}
		if err != nil {
			return f.unreadable(err, len(buf), from.length)
		}
		if len(buf) < cap(buf) {
			continue
		}
		size := 2*cap(buf) + 512
		if whole := int(from.length) + 1; size < whole && 4*len(buf) >= whole {
			size = whole
		}
		if size >= heldBody && !f.hold(b, int64(size)) {
			return refuse(engine.CodeUnavailable, "the server is reading as many large bodies as its memory allows (%d bytes); come back later", bodyBudget*f.cfg.MaxBody)
		}
		buf = append(make([]byte, 0, size), buf...)
	}
}

// hold counts size bytes for b, in place of what it held, if the budget allows.
func (f *Frontend) hold(b *body, size int64) bool {
	more := size - b.held
	if f.bodyBytes.Add(more) > bodyBudget*f.cfg.MaxBody {
		f.bodyBytes.Add(-more)
		return false
	}
	b.held = size
	return true
}

func (f *Frontend) unreadable(err error, got int, length int64) *refusal {
	var network net.Error
	var coded *contentcoding.Error
	switch {
	case errors.As(err, &coded):
		return refuseStatus(http.StatusBadRequest, api.TypeInvalidRequest, "invalid_content_encoding", "the body cannot be decoded: %v", coded)
	case f.server.Draining():
		return draining()
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return refuseStatus(http.StatusRequestTimeout, api.TypeInvalidRequest, "body_timeout", "the body did not come within %v; %d bytes of it did", f.cfg.HTTP.BodyTimeout, got)
	case length >= 0:
		return refuseStatus(http.StatusBadRequest, api.TypeInvalidRequest, "body_truncated", "the body ended after %d of %d bytes", got, length)
	}
	return refuseStatus(http.StatusBadRequest, api.TypeInvalidRequest, "body_truncated", "the body ended early, after %d bytes", got)
}

// release gives b's memory back. Nothing decoded from a body points into it.
func (f *Frontend) release(b *body) {
	f.bodyBytes.Add(-b.held)
	if cap(*b.buffer) < bigBody {
		f.buffers.Put(b.buffer)
	}
}
