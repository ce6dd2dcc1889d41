// Package mq carries wire messages between processes over ZeroMQ; it is the only importer of that.
//
// The scheduler listens, frontends and executors dial. What is on its way when a connection breaks
// may be lost: the protocol recovers by epochs (see wire.Hello), so nothing is kept for a peer that
// is away.
package mq

import (
	"errors"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// ErrClosed is returned once the connection was closed on this side.
var ErrClosed = errors.New("mq: connection is closed")

// ErrNoPeer says that a message was dropped because the other side is not connected.
var ErrNoPeer = errors.New("mq: peer is not connected")

// reconnectInterval is how often a peer tries to reach a scheduler that is away. It bounds how long
// a restart of the scheduler goes unnoticed.
const reconnectInterval = 5 * time.Millisecond

// maxFrameBytes bounds one frame that a peer may announce.
const maxFrameBytes = 1 << 29

// Options are common to both sides; the zero value is right for ipc.
type Options struct {
	// Curve encrypts and authenticates; it is required for tcp.
	Curve *Curve
	// Unauthenticated lets tcp on a loopback address do without Curve: every user of this machine can
	// then join as what they like.
	Unauthenticated bool
	// Release is this process's, as peers of another version of the protocol are told it.
	Release string
	// OnError hears of messages that were refused: malformed, or of another version, the latter once a
	// connection. A peer's also hears, once a connection, that the scheduler does not answer. It must
	// not block; nil ignores them.
	OnError func(peer string, err error)
}

func (o *Options) reportRefused(peer string, err error) {
	if o.OnError != nil {
		o.OnError(peer, err)
	}
}

func (o *Options) refusedBy(peer string, m *wire.Refused) error {
	return &RefusedError{Peer: peer, Version: m.Version, Release: m.Release, Ours: o.Release}
}

// copyFrames are frames that have nothing in common with the message that they were made of.
func copyFrames(frames [][]byte) [][]byte {
	own := make([][]byte, len(frames))
	for i, f := range frames {
		own[i] = slices.Clone(f)
	}
	return own
}
