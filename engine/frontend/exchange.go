package frontend

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/client"
)

// exchange is the ResponseWriter every handler gets: it knows the request's id and start, and
// collects what the access log and the metrics say about it. One goroutine uses it.
type exchange struct {
	http.ResponseWriter
	id          string
	start       time.Time
	status      int // 0 until the header is written
	refusedWith string
	owner       apikey.Owner // of the key that the request carries
	memory      int64        // bytes that it took beyond what every request does

	// of the call, where there is one
	model              string
	jobs               int
	promptTokens       int
	cachedTokens       int
	completionTokens   int
	maxTokens, choices int
	queued, running    time.Duration // of the request's longest job
	prefilled          time.Duration // of running, what came before the first token
	firstToken         time.Time
	lastToken          time.Time
	finish             string // of the first choice, once all are done
}

// note times a Result, the first of its choice or a later one.
func (x *exchange) note(d client.Delivery, first bool) {
	if x.firstToken.IsZero() {
		x.firstToken = d.At
	}
	x.lastToken = d.At
	timing := d.Result.Timing
	x.queued, x.running = max(x.queued, timing.Queued), max(x.running, timing.Running)
	if first {
		x.prefilled = max(x.prefilled, timing.Running)
	}
}

// WriteHeader sends the header with the time spent so far.
func (x *exchange) WriteHeader(status int) {
	if x.status != 0 {
		return
	}
	x.status = status
	x.Header().Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(x.start).Milliseconds(), 10))
	x.ResponseWriter.WriteHeader(status)
}

// Write sends body bytes, after a 200 header if there was none.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// requestID returns the client's id if it is fit for headers and logs, and else a new UUID.
func requestID(offered string) string {
	if offered == "" || len(offered) > 128 {
		return newUUID(time.Now())
	}
	for i := range len(offered) {
		if offered[i] <= ' ' || offered[i] > '~' || offered[i] == '"' || offered[i] == '\\' {
			return newUUID(time.Now())
		}
	}
	return offered
}

// newUUID draws a version 7 UUID (RFC 9562, section 5.7): milliseconds, then random bits.
func newUUID(now time.Time) string {
	var raw [16]byte
	rand.Read(raw[6:])
	var stamp [8]byte
	binary.BigEndian.PutUint64(stamp[:], uint64(now.UnixMilli()))
	copy(raw[:6], stamp[2:])
	raw[6] = raw[6]&0x0f | 0x70
	raw[8] = raw[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], raw[0:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:36], raw[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
