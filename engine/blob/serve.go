package blob

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"slices"
	"sync"
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
	group  sync.WaitGroup

	mu        sync.Mutex
	strangers []net.Conn            // guarded by mu; those that have not named a blob, the oldest first
	known     map[net.Conn]struct{} // guarded by mu; the others
}

// start serves until close.
func (v *server) start() *server {
	v.known = map[net.Conn]struct{}{}
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
		case !v.admit(conn):
			conn.Close()
		default:
			v.group.Go(func() { v.serve(conn) }) // ends with ctx
		}
	}
}

// admit takes in a connection. Where there are as many as may be, the oldest stranger goes for it: whoever reaches the
// port can fill it, and a reader asks as soon as it is connected.
func (v *server) admit(conn net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) == maxConns {
		return false
	}
	if len(v.known)+len(v.strangers) == maxConns {
		oldest := v.strangers[0]
		if secure, ok := oldest.(*tls.Conn); ok {
			oldest = secure.NetConn() // the last words of TLS may wait for the peer
		}
		oldest.Close()
		v.strangers = v.strangers[1:]
	}
	v.strangers = append(v.strangers, conn)
	return true
}

// know takes a connection that has named a blob from the strangers.
func (v *server) know(conn net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.strangers, conn); i >= 0 {
		v.strangers = slices.Delete(v.strangers, i, i+1)
		v.known[conn] = struct{}{}
	}
}

// leave forgets a connection.
func (v *server) leave(conn net.Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.strangers = slices.DeleteFunc(v.strangers, func(c net.Conn) bool { return c == conn })
	delete(v.known, conn)
}

// serve answers one reader until it leaves.
func (v *server) serve(conn net.Conn) {
	defer v.leave(conn)
	defer conn.Close()
	defer context.AfterFunc(v.ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	err := v.greet(conn)
	for err == nil {
		_ = conn.SetDeadline(time.Now().Add(v.idle))
		var r request
		if err = binary.Read(conn, binary.LittleEndian, &r); err == nil {
			_ = conn.SetDeadline(time.Now().Add(ioTimeout))
			err = v.answerRequest(conn, &r)
		}
	}
}

// answerRequest does what a reader asks; an error ends the connection.
func (v *server) answerRequest(conn net.Conn, r *request) error {
	switch r.Op {
	case opRead:
		data, done := v.store.pin(r.Offset, r.Secret)
		if done == nil {
			return binary.Write(conn, binary.LittleEndian, gone)
		}
		defer done()
		v.know(conn)
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
