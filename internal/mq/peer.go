package mq

import (
	"context"
	"errors"
	"fmt"
	"time"

	zmq "github.com/pebbe/zmq4"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Peer is a frontend's or executor's end.
type Peer struct {
	opts Options
	soc  *socket
	in   *inbox[[][]byte]

	hello     [][]byte  // guarded by soc.mu; the last Hello, said again on every new connection
	connected bool      // guarded by soc.mu
	greeted   time.Time // guarded by soc.mu; when the connection's first Hello went out; zero before
	answered  bool      // guarded by soc.mu; the scheduler has said something since, or its silence is reported

	refusals refusals // owned by Recv
}

// lost stands in the inbox for a broken connection.
var lost [][]byte

// Dial connects to the scheduler at endpoint, and connects again whenever the connection breaks. It does
// not wait for the connection, whose coming and going is noticed inside Recv and Send. Until the peer has
// said Hello, the scheduler hears nothing else from it. The caller closes the Peer.
func Dial(endpoint string, opts Options) (*Peer, error) {
	if err := checkEndpoint(endpoint, &opts); err != nil {
		return nil, err
	}
	p := &Peer{opts: opts, in: newInbox[[][]byte]()}
	var err error
	if p.soc, err = newSocket(zmq.DEALER, nil); err != nil {
		return nil, fmt.Errorf("mq: make a socket: %w", err)
	}
	soc := p.soc.soc
	err = firstError(
		soc.SetImmediate(true), // nothing is kept for a scheduler that is away
		soc.SetReconnectIvl(reconnectInterval),
		setHeartbeats(soc, endpoint),
	)
	if err == nil && opts.Curve != nil {
		err = soc.ClientAuthCurve(opts.Curve.Server, opts.Curve.Public, opts.Curve.Secret)
	}
	if err == nil {
		err = soc.Connect(endpoint)
	}
	if err == nil {
		err = p.soc.startWaiter()
	}
	if err != nil {
		p.soc.discard()
		return nil, fmt.Errorf("mq: dial %s: %w", endpoint, err)
	}
	return p, nil
}

// receiveOne takes in one message, or the coming or going of the connection, and reports whether there was
// either. Each call into libzmq that finds nothing costs two system calls, hence one at a time.
func (p *Peer) receiveOne() bool {
	state, err := p.soc.soc.GetEvents()
	if err != nil {
		return false
	}
	if state&zmq.POLLIN != 0 {
		frames, ok := p.soc.receiveMessage()
		if ok {
			p.in.push(frames)
			p.answered = true
		}
		return ok
	}
	// With unlimited queues and ZMQ_IMMEDIATE the socket is writable exactly while it is connected.
	up := state&zmq.POLLOUT != 0
	switch {
	case up == p.connected:
		return false
	case !up:
		p.in.push(lost)
	default:
		p.greeted, p.answered = time.Time{}, false
		if p.hello != nil {
			p.greeted = time.Now()
			_ = p.soc.sendFrames(p.hello...)
		}
	}
	p.connected = up
	return true
}

// checkUnheard says once a connection, under mu, that the scheduler has left its Hellos unanswered for long.
func (p *Peer) checkUnheard() bool {
	switch {
	case p.answered || !p.connected:
		return false
	case p.greeted.IsZero():
		p.greeted = time.Now()
		return false
	}
	if time.Since(p.greeted) <= silenceBound {
		return false
	}
	for p.receiveOne() { // nobody may be receiving
	}
	unheard := p.connected && !p.answered
	p.answered = true
	return unheard
}

// Recv returns the next message. *wire.Lost says that the connection broke: what was on its way in
// either direction may be lost. Messages that cannot be decoded go to Options.OnError and are passed
// over. It returns a *RefusedError when the scheduler speaks another version of the protocol, ErrClosed after
// Close, or the context's error if nothing has arrived when that is done. One goroutine at a time may call it.
func (p *Peer) Recv(ctx context.Context) (wire.Message, error) {
	for {
		frames, err := receiveItem(ctx, p.soc, p.in, p.receiveOne)
		if err != nil {
			return nil, err
		}
		if frames == nil {
			return &wire.Lost{}, nil
		}
		m, err := wire.Decode(frames)
		var other *wire.VersionError
		switch {
		case err == nil:
			if r, ok := m.(*wire.Refused); ok {
				return nil, p.opts.refusedBy("scheduler", r)
			}
			return m, nil
		case errors.As(err, &other):
			p.refuseVersion(other)
		default:
			p.opts.reportRefused("scheduler", err)
		}
	}
}

// refuseVersion tells a scheduler of another version so, in that version, and the first time reports it.
func (p *Peer) refuseVersion(other *wire.VersionError) {
	tell, first := p.refusals.nextRefusal("", time.Now())
	if first {
		p.opts.reportRefused("scheduler", other)
	}
	if tell {
		p.soc.mu.Lock()
		defer p.soc.mu.Unlock()
		if !p.soc.closed {
			_ = p.soc.sendFrames(wire.Refuse(other.Got, p.opts.Release)...) // it may be gone
			p.soc.takeMissed(p.in, p.receiveOne, nil)
		}
	}
}

// Send sends m to the scheduler and does not block. ErrNoPeer says that it is not connected and m
// was dropped, unless m is a Hello: the last one is said again on every new connection. It may be
// called by several goroutines. Once it has returned, m may be changed.
func (p *Peer) Send(m wire.Message) error {
	unheard, err := p.sendMessage(m)
	if unheard {
		p.opts.reportRefused("scheduler", &silentError{p.opts.Release})
	}
	return err
}

// sendMessage is Send, and says whether the scheduler's silence is to be reported.
func (p *Peer) sendMessage(m wire.Message) (unheard bool, err error) {
	frames := wire.Encode(m)
	p.soc.mu.Lock()
	defer p.soc.mu.Unlock()
	if p.soc.closed {
		return false, ErrClosed
	}
	wasUp := p.connected
	_, isHello := m.(*wire.Hello)
	if isHello {
		p.hello = copyFrames(frames)
	}
	if !wasUp {
		for p.receiveOne() { // on a new connection Hello goes first
		}
	}
	if !isHello || wasUp {
		err = p.soc.sendFrames(frames...)
	}
	p.soc.takeMissed(p.in, p.receiveOne, err)
	unheard = isHello && p.checkUnheard()
	if err != nil || !p.connected {
		return unheard, fmt.Errorf("send %T to the scheduler: %w", m, ErrNoPeer)
	}
	return unheard, nil
}

// Close closes the socket and drops what was not received or sent.
func (p *Peer) Close() error {
	p.in.close()
	p.soc.close()
	return nil
}
