package frontend

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/api"
)

// refuse answers with r, unless an answer has begun.
func (f *Frontend) refuse(x *exchange, r *refusal) {
	x.refusedWith = r.body.Code
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
	status, body := x.errors(r.status, r.body)
	f.writeJSON(x, status, body)
}

// writeJSON answers with value, by reflection; for all but the serving path.
func (f *Frontend) writeJSON(x *exchange, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		f.log.Error("encoding an answer", zap.String("request_id", x.id), zap.Error(err))
		status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer could not be encoded","type":"server_error","param":null,"code":"internal_error"}}`)
	}
	f.writeBody(x, status, body)
}

// writePieces answers with value. A long answer goes out as it is encoded, in chunks without a Content-Length.
func (f *Frontend) writePieces(x *exchange, value api.Encoder) {
	buffer := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(buffer)
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
		f.writeBody(x, http.StatusOK, rest)
		return
	}
	if failed == nil {
		_, failed = x.Write(rest)
	}
	if failed != nil { // net/http lets nothing out any more, so that the answer does not look whole
		x.refusedWith = "client_closed_request"
		f.log.Debug("the client left during its answer", zap.String("request_id", x.id), zap.Error(failed))
	}
}

// writeBody answers with a whole JSON body.
func (f *Frontend) writeBody(x *exchange, status int, body []byte) {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	if _, err := x.Write(body); err != nil {
		f.log.Debug("the client left before its answer", zap.String("request_id", x.id), zap.Error(err))
	}
}
