package exchange

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
)

// Refuse answers with r, unless an answer has begun.
func (x *Exchange) Refuse(r *Refusal) {
	x.refused = r.Body.Code
	if x.status != 0 {
		return
	}
	h := x.Header()
	if r.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.retryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(max(1, r.retryAfter.Milliseconds()), 10))
	}
	if r.noRetry {
		h.Set("X-Should-Retry", "false")
	}
	status, body := x.Words(r.Status, r.Body)
	x.WriteJSON(status, body)
}

// WriteJSON answers with value, by reflection; for all but the serving path.
func (x *Exchange) WriteJSON(status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		x.shared.cfg.Log.Error("encoding an answer", zap.String("request_id", x.ID), zap.Error(err))
		status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer could not be encoded","type":"server_error","param":null,"code":"internal_error"}}`)
	}
	x.WriteBody(status, body)
}

// Encoded is a JSON document that is encoded once for all who ask, as long as its key stays. It is safe for concurrent use.
type Encoded struct {
	mu   sync.Mutex
	key  []string // guarded by mu
	body []byte   // guarded by mu
}

// Body is the document of a key, which value makes if there is another one or none. It is not to be changed.
func (e *Encoded) Body(key []string, value func() any) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.body == nil || !slices.Equal(e.key, key) {
		body, err := json.Marshal(value())
		if err != nil {
			return nil, err
		}
		e.key, e.body = key, body
	}
	return e.body, nil
}

// WritePieces answers with value. A long answer goes out as it is encoded, in chunks without a Content-Length.
func (x *Exchange) WritePieces(value api.Encoder) {
	buffer := x.shared.buffers.Get().(*[]byte)
	defer x.shared.buffers.Put(buffer)
	var failed error
	rest := value.AppendJSON((*buffer)[:0], func(piece []byte) (empty []byte, more bool) {
		x.Header().Set("Content-Type", "application/json")
		if failed == nil {
			_, failed = x.Write(piece)
		}
		return piece[:0], failed == nil
	})
	if cap(rest) < bigBody {
		*buffer = rest
	}
	if x.status == 0 {
		x.WriteBody(http.StatusOK, rest)
		return
	}
	if failed == nil {
		_, failed = x.Write(rest)
	}
	if failed != nil { // net/http lets nothing out any more, so that the answer does not look whole
		x.Left(failed)
	}
}

// Left notes that the client left during its answer, as a write to it says that failed.
func (x *Exchange) Left(failed error) {
	x.refused = codeLeft
	x.shared.cfg.Log.Debug("the client left during its answer", zap.String("request_id", x.ID), zap.Error(failed))
}

// WriteBody answers with a whole JSON body.
func (x *Exchange) WriteBody(status int, body []byte) {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	if _, err := x.Write(body); err != nil {
		x.shared.cfg.Log.Debug("the client left before its answer", zap.String("request_id", x.ID), zap.Error(err))
	}
}
