package exchange

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api"
)

// heldBody is the size from which a body counts against the memory all bodies may hold together, and
// bigBody that from which its buffer is not kept for the next request.
const (
	heldBody = 64 << 10
	bigBody  = 1 << 20
)

// bodyBudget is how many bodies of the greatest size may be in memory at a time.
const bodyBudget = 8

// A large body brings bodyStep bytes in each stallTimeout: one that stops coming gives its memory back.
const (
	bodyStep     = 16 << 10
	stallTimeout = 5 * time.Second
)

// Body is a request's body in a pooled buffer.
type Body struct {
	Bytes  []byte
	shared *Shared
	buffer *[]byte
	holder string // whose share it takes
	held   int64  // counted in Shared.bodies
	next   int    // bytes that have to be there by due, if that is set
	due    time.Time
}

// readJSON reads a JSON body of at most MaxBody bytes. The caller releases it.
func (x *Exchange) readJSON(r *http.Request) (*Body, *Refusal) {
	if refused := CheckJSON(r); refused != nil {
		return nil, refused
	}
	return x.read(r, source{Reader: r.Body, length: r.ContentLength})
}

// ReadCoded reads a body of any type and of at most MaxBody bytes, and undoes its coding. The caller releases it.
func (x *Exchange) ReadCoded(r *http.Request) (*Body, *Refusal) {
	from := source{Reader: r.Body, length: r.ContentLength}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		plain := newDecoder(coding, r.Body)
		if plain == nil {
			return nil, WithStatus(http.StatusUnsupportedMediaType, api.TypeInvalidRequest, "unsupported_content_encoding", "Content-Encoding is %.40q; send %s, or none", coding, codingNames)
		}
		from = source{Reader: plain, length: -1}
	}
	return x.read(r, from)
}

// read reads a body of at most MaxBody bytes. The caller releases it.
func (x *Exchange) read(r *http.Request, from source) (*Body, *Refusal) {
	s := x.shared
	if r.ContentLength > s.cfg.MaxBody {
		return nil, WithStatus(http.StatusRequestEntityTooLarge, api.TypeInvalidRequest, "body_too_large", "the body has %d bytes; the limit is %d", r.ContentLength, s.cfg.MaxBody)
	}
	b := &Body{shared: s, buffer: s.buffers.Get().(*[]byte), holder: x.Holder()}
	refused := x.fillBody(b, from)
	x.memory += b.held
	if refused != nil {
		b.Release()
		return nil, refused
	}
	return b, nil
}

// source is where a body comes from.
type source struct {
	io.Reader
	length int64 // -1: not known
}

// CheckJSON refuses a request whose body is not said to be plain JSON.
func CheckJSON(r *http.Request) *Refusal {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		media, _, err := mime.ParseMediaType(kind)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			return WithStatus(http.StatusUnsupportedMediaType, api.TypeInvalidRequest, "unsupported_media_type", "Content-Type is %.80q; send the body as application/json", kind)
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return WithStatus(http.StatusUnsupportedMediaType, api.TypeInvalidRequest, "unsupported_content_encoding", "Content-Encoding is %.40q; send the body without one", coding)
	}
	return nil
}

// fillBody reads a body into b, growing by doubling until a quarter of it is there, so that a false Content-Length costs
// little.
func (x *Exchange) fillBody(b *Body, from source) *Refusal {
	s, buf := x.shared, (*b.buffer)[:0]
	if cap(buf) >= heldBody && b.holdBytes(int64(cap(buf))) != nil {
		buf = nil
	}
	if want := min(from.length, heldBody/2) + 1; int64(cap(buf)) < want {
		buf = make([]byte, 0, want)
	}
	for {
		if len(buf) >= max(b.next, heldBody/2) {
			x.expectMore(b, len(buf))
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > s.cfg.MaxBody {
			return WithStatus(http.StatusRequestEntityTooLarge, api.TypeInvalidRequest, "body_too_large", "the body has more than %d bytes, which is the limit", s.cfg.MaxBody)
		}
		if err == io.EOF {
			b.Bytes, *b.buffer = buf, buf
			return nil
		}
		if err != nil {
			return s.refuseUnreadable(err, b, len(buf), from.length)
		}
		if len(buf) < cap(buf) {
			continue
		}
		size := 2*cap(buf) + 512
		if whole := int(from.length) + 1; size < whole && 4*len(buf) >= whole {
			size = whole
		}
		if size >= heldBody {
			if refused := b.holdBytes(int64(size)); refused != nil {
				return refused
			}
		}
		buf = append(make([]byte, 0, size), buf...)
	}
}

// expectMore sets when the next step of a body, of which so much is there, is due; the whole is due at BodyTimeout.
func (x *Exchange) expectMore(b *Body, there int) {
	b.next, b.due = there+bodyStep, time.Now().Add(stallTimeout)
	deadline := b.due
	if whole := x.Start.Add(x.shared.cfg.BodyTimeout); whole.Before(b.due) {
		b.due, deadline = time.Time{}, whole
	}
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(deadline) // writers of tests have none
}

// holdBytes counts size bytes for b, in place of what it held, if the budget allows.
func (b *Body) holdBytes(size int64) *Refusal {
	if full := b.shared.bodies.Hold(b.holder, size-b.held); full != nil {
		return newRefusal(engine.CodeOverloaded, "the server has no memory for the large body, in bytes: %v; come back later", full)
	}
	b.held = size
	return nil
}

func (s *Shared) refuseUnreadable(err error, b *Body, got int, length int64) *Refusal {
	var network net.Error
	var coded *codingError
	switch {
	case errors.As(err, &coded):
		return WithStatus(http.StatusBadRequest, api.TypeInvalidRequest, "invalid_content_encoding", "the body cannot be decoded: %v", coded)
	case s.cfg.Draining():
		return Draining()
	case !errors.Is(err, os.ErrDeadlineExceeded) && !(errors.As(err, &network) && network.Timeout()):
	case !b.due.IsZero() && !time.Now().Before(b.due):
		return WithStatus(http.StatusRequestTimeout, api.TypeInvalidRequest, "body_timeout", "the body stopped after %d bytes: a large one has to bring %d bytes in %v", got, bodyStep, stallTimeout)
	default:
		return WithStatus(http.StatusRequestTimeout, api.TypeInvalidRequest, "body_timeout", "the body did not come within %v; %d bytes of it did", s.cfg.BodyTimeout, got)
	}
	if length >= 0 {
		return WithStatus(http.StatusBadRequest, api.TypeInvalidRequest, "body_truncated", "the body ended after %d of %d bytes", got, length)
	}
	return WithStatus(http.StatusBadRequest, api.TypeInvalidRequest, "body_truncated", "the body ended early, after %d bytes", got)
}

// Release gives b's memory back; a second one does nothing. Nothing decoded from a body points into it.
func (b *Body) Release() {
	if b.buffer == nil {
		return
	}
	b.shared.bodies.Release(b.holder, b.held)
	if cap(*b.buffer) < bigBody {
		b.shared.buffers.Put(b.buffer)
	}
	b.buffer = nil
}
