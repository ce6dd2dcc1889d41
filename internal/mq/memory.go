package mq

import (
	"context"
	"fmt"
	"sync"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Memory joins a scheduler and its peers inside one process. It behaves as the ZeroMQ connections
// do and runs the same codec; the zero value is ready.
type Memory struct {
	mu       sync.Mutex
	listener *MemoryListener        // guarded by mu; nil while the scheduler is away
	peers    map[string]*MemoryPeer // guarded by mu
}

// MemoryListener is the twin of Listener.
type MemoryListener struct {
	net *Memory
	in  *inbox[envelope]
}

// MemoryPeer is the twin of Peer.
type MemoryPeer struct {
	net   *Memory
	name  string
	in    *inbox[[][]byte]
	hello [][]byte // guarded by net.mu
}

// Listen is the twin of the function Listen.
func (n *Memory) Listen() (*MemoryListener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil {
		return nil, fmt.Errorf("mq: listen: address in use")
	}
	n.listener = &MemoryListener{net: n, in: newInbox[envelope]()}
	for _, p := range n.peers {
		p.sayHello()
	}
	return n.listener, nil
}

// Dial is the twin of the function Dial.
func (n *Memory) Dial(name string) *MemoryPeer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.peers == nil {
		n.peers = map[string]*MemoryPeer{}
	}
	p := &MemoryPeer{net: n, name: name, in: newInbox[[][]byte]()}
	n.peers[name] = p
	return p
}

// sayHello says Hello to a new listener, under net.mu.
func (p *MemoryPeer) sayHello() {
	if p.hello != nil {
		p.net.listener.in.push(envelope{from: p.name, frames: copyFrames(p.hello)})
	}
}

// Recv is the twin of Listener.Recv.
func (l *MemoryListener) Recv(ctx context.Context) (string, wire.Message, error) {
	e, err := l.in.pop(ctx)
	if err != nil {
		return "", nil, err
	}
	m, err := wire.Decode(e.frames)
	return e.from, m, err
}

// Send is the twin of Listener.Send.
func (l *MemoryListener) Send(peer string, m wire.Message) error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if l.net.listener != l {
		return ErrClosed
	}
	p := l.net.peers[peer]
	if p == nil {
		return fmt.Errorf("send %T to %q: %w", m, peer, ErrNoPeer)
	}
	p.in.push(copyFrames(wire.Encode(m)))
	return nil
}

// Close is the twin of Listener.Close.
func (l *MemoryListener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	l.in.close()
	if l.net.listener == l {
		l.net.listener = nil
		for _, p := range l.net.peers {
			p.in.push(lost)
		}
	}
	return nil
}

// Recv is the twin of Peer.Recv.
func (p *MemoryPeer) Recv(ctx context.Context) (wire.Message, error) {
	frames, err := p.in.pop(ctx)
	if err != nil {
		return nil, err
	}
	if frames == nil {
		return &wire.Lost{}, nil
	}
	return wire.Decode(frames)
}

// Send is the twin of Peer.Send.
func (p *MemoryPeer) Send(m wire.Message) error {
	frames := copyFrames(wire.Encode(m))
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.net.peers[p.name] != p {
		return ErrClosed
	}
	if _, ok := m.(*wire.Hello); ok {
		p.hello = copyFrames(frames)
	}
	if p.net.listener == nil {
		return fmt.Errorf("send %T to the scheduler: %w", m, ErrNoPeer)
	}
	p.net.listener.in.push(envelope{from: p.name, frames: frames})
	return nil
}

// Close is the twin of Peer.Close.
func (p *MemoryPeer) Close() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.in.close()
	if p.net.peers[p.name] == p {
		delete(p.net.peers, p.name)
	}
	return nil
}
