package blob

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 2 * time.Second  // to reach a store, and be greeted
	retryAfter  = 2 * time.Second  // a store could not be reached
	ioTimeout   = 10 * time.Second // for one request and its answer
	idleNet     = time.Minute      // of a connection without requests
	idleHost    = 1 << 62          // of one that tells who lives, too
	maxConns    = 1024             // of one store
)

// request is what a reader sends, little-endian. The answer to opRead is the blob's size in 8 bytes, and the
// blob; or gone.
type request struct {
	Op     uint8
	Offset int64
	Secret secret
}

const (
	opRead, opRelease = 1, 2
	gone              = ^uint64(0)
)

// server answers the readers that connect to a store.
type server struct {
	store    *Store
	listener net.Listener
	greet    func(net.Conn) error // does what comes before requests
	idle     time.Duration        // that a connection may be without a request
	remove   func() error         // of what the listener leaves behind; may be nil

	ctx    context.Context // ends the connections
	cancel context.CancelFunc
	conns  atomic.Int32
	group  sync.WaitGroup
}

// start serves until close.
func (v *server) start() *server {
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.group.Go(v.accept) // ends with the listener, which close closes
	return v
}

func (v *server) accept() {
	for {
		conn, err := v.listener.Accept()
		switch {
		case v.ctx.Err() != nil && err != nil:
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // out of descriptors
		case v.conns.Load() == maxConns:
			conn.Close()
		default:
			v.conns.Add(1)
			v.group.Go(func() { v.serve(conn) }) // ends with ctx
		}
	}
}

// serve answers one reader until it leaves.
func (v *server) serve(conn net.Conn) {
	defer v.conns.Add(-1)
	defer conn.Close()
	defer context.AfterFunc(v.ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	err := v.greet(conn)
	for err == nil {
		_ = conn.SetDeadline(time.Now().Add(v.idle))
		var r request
		if err = binary.Read(conn, binary.LittleEndian, &r); err == nil {
			_ = conn.SetDeadline(time.Now().Add(ioTimeout))
			err = v.answer(conn, &r)
		}
	}
}

// answer does what a reader asks; an error ends the connection.
func (v *server) answer(conn net.Conn, r *request) error {
	switch r.Op {
	case opRead:
		data, done := v.store.pin(r.Offset, r.Secret)
		if done == nil {
			return binary.Write(conn, binary.LittleEndian, gone)
		}
		defer done()
		err := binary.Write(conn, binary.LittleEndian, uint64(len(data)))
		if err == nil {
			_, err = conn.Write(data)
		}
		return err
	case opRelease:
		if v.store.cfg.Hold > 0 {
			v.store.release(r.Offset, r.Secret)
		}
		return nil
	}
	return net.ErrClosed // it speaks something else
}

// close ends all connections and waits for their goroutines.
func (v *server) close() error {
	v.cancel()
	err := v.listener.Close()
	v.group.Wait()
	if v.remove != nil {
		_ = v.remove()
	}
	return err
}
