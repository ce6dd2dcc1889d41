package mq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	zmq "github.com/pebbe/zmq4"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Listener is the scheduler's end: it receives from and sends to peers by their names.
type Listener struct {
	opts  Options
	soc   *socket
	guard *guard // nil without CURVE
	in    *inbox[envelope]
	peers directory

	refusals refusals // owned by Recv
}

// envelope is a message that has not been decoded yet.
type envelope struct {
	from   string // the connection
	key    string // the sender's public key; empty without CURVE
	frames [][]byte
}

// Listen opens endpoint, ipc:///path or tcp://host:port. The directory of an ipc socket is made,
// open to its owner alone, when it is missing. The caller closes the Listener.
func Listen(endpoint string, opts Options) (*Listener, error) {
	if err := checkEndpoint(endpoint, &opts); err != nil {
		return nil, err
	}
	l := &Listener{opts: opts, in: newInbox[envelope]()}
	var err error
	if l.soc, err = newSocket(zmq.ROUTER, nil); err != nil {
		return nil, fmt.Errorf("mq: make a socket: %w", err)
	}
	if err := l.open(endpoint); err != nil {
		if l.guard != nil {
			l.guard.close()
		}
		l.soc.discard()
		return nil, fmt.Errorf("mq: listen on %s: %w", endpoint, err)
	}
	return l, nil
}

func (l *Listener) open(endpoint string) error {
	err := firstError(
		l.soc.soc.SetRouterMandatory(1), // an absent peer is an error, not silence
		setHeartbeats(l.soc.soc, endpoint),
	)
	if err == nil && l.opts.Curve != nil {
		l.guard, err = serveCurve(l.soc, l.opts.Curve)
	}
	if err != nil {
		return err
	}
	if err := bindSocket(l.soc.soc, endpoint); err != nil {
		return err
	}
	return l.soc.startWaiter()
}

// receiveOne takes in one message and reports whether there was one.
func (l *Listener) receiveOne() bool {
	frames, key, ok := l.soc.receiveFrom(l.guard != nil)
	if ok {
		l.in.push(envelope{string(frames[0]), key, frames[1:]})
	}
	return ok
}

// Endpoint is where the Listener can be reached; it names the port when tcp port 0 or * was asked.
func (l *Listener) Endpoint() string {
	l.soc.mu.Lock()
	defer l.soc.mu.Unlock()
	e, err := l.soc.soc.GetLastEndpoint()
	if err != nil {
		return ""
	}
	return e
}

// Recv returns the next message and the name of its sender, which is that of the sender's Hello. Messages
// that cannot be decoded, that come before a Hello, or whose Hello the sender's key does not allow go to
// Options.OnError and are passed over; a sender of another version is told so. It returns ErrClosed after Close, or the context's error if nothing
// has arrived when that is done. One goroutine at a time may call it.
func (l *Listener) Recv(ctx context.Context) (peer string, m wire.Message, err error) {
	for {
		e, err := receiveItem(ctx, l.soc, l.in, l.receiveOne)
		if err != nil {
			return "", nil, err
		}
		m, err := wire.Decode(e.frames)
		if h, ok := m.(*wire.Hello); ok && err == nil {
			err = l.peers.registerPeer(e.from, l.ownerOf(e.key), h)
		}
		name := l.peers.name(e.from)
		if r, ok := m.(*wire.Refused); ok {
			err = l.opts.refusedBy("peer", r)
		}
		if err == nil && name == "" {
			err = fmt.Errorf("a %T before a Hello", m)
		}
		var other *wire.VersionError
		switch {
		case err == nil:
			return name, m, nil
		case errors.As(err, &other):
			l.refuseVersion(e, other)
		default:
			l.opts.reportRefused(name, err)
		}
	}
}

// refuseVersion tells the sender of a message of another version so, in that version, and the first time reports it.
func (l *Listener) refuseVersion(e envelope, other *wire.VersionError) {
	tell, first := l.refusals.nextRefusal(e.from, time.Now())
	if first {
		l.opts.reportRefused(cmp.Or(l.peers.name(e.from), e.key), other)
	}
	if tell {
		_ = l.sendTo(e.from, wire.Refuse(other.Got, l.opts.Release)) // it may be gone
	}
}

func (l *Listener) ownerOf(key string) owner {
	if l.guard == nil {
		return owner{}
	}
	return owner{key, l.guard.roles[key]}
}

// Send sends m to a peer and does not block. ErrNoPeer says that the peer is not connected. It may
// be called by several goroutines. Once it has returned, m may be changed.
func (l *Listener) Send(peer string, m wire.Message) error {
	err := l.sendTo(l.peers.connectionOf(peer), wire.Encode(m))
	if errors.Is(err, ErrNoPeer) {
		return fmt.Errorf("send %T to %q: %w", m, peer, err)
	}
	return err
}

// sendTo sends the frames of one message to a connection, which is empty where there is none.
func (l *Listener) sendTo(connection string, frames [][]byte) error {
	l.soc.mu.Lock()
	defer l.soc.mu.Unlock()
	if l.soc.closed {
		return ErrClosed
	}
	if connection == "" {
		return ErrNoPeer
	}
	err := l.soc.sendFrames(append([][]byte{[]byte(connection)}, frames...)...)
	l.soc.takeMissed(l.in, l.receiveOne, nil)
	if err != nil {
		l.peers.forgetConnection(connection)
		return ErrNoPeer
	}
	return nil
}

// Close closes the socket and drops what was not received.
func (l *Listener) Close() error {
	l.in.close()
	if l.guard != nil {
		l.guard.close()
	}
	l.soc.close()
	return nil
}
