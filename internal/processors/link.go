package processors

import (
	"context"
	"encoding/gob"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// A host's order that has not answered for silence while stages wait is waited for no more until it is heard again; pings ask for
// an answer. One that is lost is looked for every redial.
const (
	silence = 100 * time.Millisecond
	redial  = 250 * time.Millisecond
)

// link is the connection to the order of the host.
type link struct {
	conn   net.Conn
	out    *gob.Encoder // guarded by Pool.mu
	heard  atomic.Int64 // nanoseconds since opened
	opened time.Time
	load   atomic.Pointer[load]
}

// Follow keeps to the order that a process of the host serves at a path (Serve), until ctx ends. Where that is not
// reached, or does not answer, stages go in this process's own order, one at a time: others do so as well.
func (p *Pool) Follow(ctx context.Context, path string) {
	p.mu.Lock()
	p.own = stages.New(parametersOf(1))
	p.mu.Unlock()
	for ctx.Err() == nil {
		if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			p.followLink(ctx, &link{conn: conn, out: gob.NewEncoder(conn), opened: time.Now()})
		}
		wait(ctx, redial)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// followLink uses a connection until it is lost or ctx ends.
func (p *Pool) followLink(ctx context.Context, l *link) {
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	var group sync.WaitGroup
	ended := make(chan struct{})
	group.Go(func() { p.watchSilence(l, ended) }) // ends with ended
	in := gob.NewDecoder(l.conn)
	for {
		var r reply
		if in.Decode(&r) != nil {
			break
		}
		l.recordReply(&r)
		p.told.Store(&r.Load)
		p.mu.Lock()
		p.host = l
		for _, a := range r.Actions {
			p.acceptAction(l, a)
		}
		p.mu.Unlock()
	}
	p.loseLink(l)
	close(ended)
	group.Wait()
}

// recordReply keeps what a reply tells of the host.
func (l *link) recordReply(r *reply) {
	l.heard.Store(int64(time.Since(l.opened)))
	l.load.Store(&r.Load)
}

// watchSilence has this process's own order take what waits for a host that does not answer. The connection stays, and with it the
// slots of stages that run: the host, which may have had no processor for a while, still counts them when it is back.
func (p *Pool) watchSilence(l *link, ended <-chan struct{}) {
	tick := time.NewTicker(silence / 2)
	defer tick.Stop()
	for asked := false; ; {
		select {
		case <-tick.C:
		case <-ended:
			return
		}
		p.mu.Lock()
		wanted := p.host != l || p.waitsFor(l)
		if wanted {
			l.step(nil)
		}
		if wanted && asked && time.Since(l.opened)-time.Duration(l.heard.Load()) > silence {
			p.leaveLink(l)
		}
		p.mu.Unlock()
		asked = wanted
	}
}

// step implements order.
func (l *link) step(event any) {
	_ = l.conn.SetWriteDeadline(time.Now().Add(silence))
	if err := l.out.Encode(requestOf(event)); err != nil {
		l.conn.Close() // whoever reads it finds the link lost
	}
}

// loseLink ends a connection.
func (p *Pool) loseLink(l *link) {
	l.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveLink(l)
}

// leaveLink has what waits for the host's decision ask this process's own order; the caller holds mu.
func (p *Pool) leaveLink(l *link) {
	if p.host == l {
		p.host = nil
	}
	for _, w := range p.open {
		if w.in == l && w.waits {
			p.waitForSlot(w, w.ask)
		}
	}
}

// waitsFor says that stages wait for what the order of a link decides; the caller holds mu.
func (p *Pool) waitsFor(l *link) bool {
	for _, w := range p.open {
		if w.in == l && w.waits {
			return true
		}
	}
	return false
}
