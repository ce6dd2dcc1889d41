package httpserve

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

// errFrames ends a connection of HTTP/2 whose frames ask for too little.
var errFrames = errors.New("too many frames that ask for nothing")

// preface is how a client says that it speaks HTTP/2.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// The types of frames that matter here.
const (
	frameData    = 0
	frameHeaders = 1
)

// What a client of HTTP/2 may send, in frames. Each costs one. A connection begins with frameBurst, and gets frameRate a second up to
// that. It earns earnedAnswer with each frame of an answer, and one with each KiB of a body that it sends or is
// sent, up to frameSaved, since a client may confirm late what fits into its window. A client that reads its answers sends at most a few frames of flow control for each of these, and a cancelled
// request, PING, SETTINGS, PRIORITY, an empty frame of a body or of a header, or a frame of no known type earns nothing.
const (
	frameBurst   = 1000
	frameRate    = 200
	frameSaved   = 1 << 18
	earnedAnswer = 8
)

// frames is the account of what a client of HTTP/2 sends for what it gets. Both directions use it at a time.
type frames struct {
	in, out frameScanner // each of its own direction

	mu     sync.Mutex
	credit float64   // guarded by mu: frames that may still come
	at     time.Time // guarded by mu: when credit was true
}

// countReceived takes what the client sends, and says whether it may go on.
func (f *frames) countReceived(b []byte, now time.Time) bool {
	balance := 0.0
	f.in.scan(b, func(kind byte, length int) {
		balance--
		if kind == frameData {
			balance += float64(length) / 1024
		}
	})
	return f.bookCredit(balance, now)
}

// countSent takes what the client is sent.
func (f *frames) countSent(b []byte, now time.Time) {
	earned := 0.0
	f.out.scan(b, func(kind byte, length int) {
		if kind == frameHeaders || kind == frameData && length > 0 {
			earned += earnedAnswer + float64(length)/1024
		}
	})
	f.bookCredit(earned, now)
}

func (f *frames) bookCredit(balance float64, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.IsZero() {
		f.credit = frameBurst
	} else if passed := now.Sub(f.at).Seconds(); passed > 0 && f.credit < frameBurst {
		f.credit = min(frameBurst, f.credit+passed*frameRate)
	}
	f.at = now
	f.credit = min(frameSaved, f.credit+balance)
	return f.credit >= 0
}

// frameHeaderBytes is what every frame begins with: three bytes of length, a type, flags, a stream.
const frameHeaderBytes = 9

// frameScanner finds the frames of one direction, however they are cut.
type frameScanner struct {
	header [frameHeaderBytes]byte
	have   int // of header
	left   int // bytes of payload to pass over
}

// scan calls each for every frame whose header ends in b.
func (s *frameScanner) scan(b []byte, each func(kind byte, length int)) {
	for {
		passed := min(s.left, len(b))
		s.left, b = s.left-passed, b[passed:]
		if len(b) == 0 {
			return
		}
		n := copy(s.header[s.have:], b)
		s.have, b = s.have+n, b[n:]
		if s.have < frameHeaderBytes {
			return
		}
		s.have, s.left = 0, int(binary.BigEndian.Uint32(s.header[:4])>>8)
		each(s.header[3], s.left)
	}
}
