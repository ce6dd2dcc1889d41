package link

import (
	"net"
	"sync"
	"time"
)

// Conn is a connection over a link. What is on its way when it is closed is lost. Deadlines are those of the connection below, and so not
// of what waits for the link.
type Conn struct {
	net.Conn
	s         *Shaper
	out, in   chan parcel
	over      chan struct{} // closed when the connection is
	overOnce  sync.Once
	closeErr  error
	writing   sync.Mutex
	unread    []byte // guarded by the reader
	mu        sync.Mutex
	way       int   // guarded by mu: bytes that were given to Write and are not at the other end of the link
	failed    error // guarded by mu: why nothing can be written any more
	endOfRead error // guarded by the reader
}

// parcel is bytes that arrive at a time, or what ends them.
type parcel struct {
	data    []byte
	arrives time.Duration
	err     error
}

// maxParcels is how many may be on their way at one time, in one direction.
const maxParcels = 4096

// Conn puts a connection behind the link. Two goroutines end when it is closed.
func (s *Shaper) Conn(below net.Conn) *Conn {
	c := &Conn{Conn: below, s: s, out: make(chan parcel, maxParcels), in: make(chan parcel, maxParcels), over: make(chan struct{})}
	go c.deliverParcels()
	go c.readPackets()
	return c
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.overOnce.Do(func() {
		close(c.over)
		c.closeErr = c.Conn.Close()
	})
	return c.closeErr
}

// Unacknowledged is how many bytes are written and not at the other end of the link.
func (c *Conn) Unacknowledged() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.way
}

func (c *Conn) addInFlight(bytes int, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.way += bytes; c.failed == nil {
		c.failed = err
	}
	return c.failed
}

// passPacket gives a packet to one way of the link and to where it comes out, and waits until the next one may come.
func (c *Conn) passPacket(w *way, to chan<- parcel, data []byte) bool {
	arrives := c.s.sendBytes(w, len(data))
	select {
	case to <- parcel{data: data, arrives: arrives}:
	case <-c.over:
		return false
	}
	if arrives == Never {
		return c.s.waitUntil(c.over, arrives)
	}
	return c.s.waitUntil(c.over, arrives-w.link.Travel()-early)
}

// Write implements net.Conn: it returns when all is about to be through the link's bucket, and on its way.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.addInFlight(len(p), nil); err != nil {
		return 0, err
	}
	for n < len(p) {
		data := append([]byte(nil), p[n:min(n+packet, len(p))]...)
		if !c.passPacket(&c.s.up, c.out, data) {
			return n, net.ErrClosed
		}
		n += len(data)
	}
	return n, nil
}

// deliverParcels writes to the connection below what has arrived.
func (c *Conn) deliverParcels() {
	for {
		select {
		case p := <-c.out:
			if !c.s.waitUntil(c.over, p.arrives) {
				return
			}
			_, err := c.Conn.Write(p.data)
			_ = c.addInFlight(-len(p.data), err)
		case <-c.over:
			return
		}
	}
}

// readPackets reads from the connection below until that ends.
func (c *Conn) readPackets() {
	for {
		data := make([]byte, packet)
		n, err := c.Conn.Read(data)
		if n > 0 && !c.passPacket(&c.s.down, c.in, data[:n]) {
			return
		}
		if err == nil {
			continue
		}
		select {
		case c.in <- parcel{err: err, arrives: c.s.sendBytes(&c.s.down, 0)}:
		case <-c.over:
		}
		return
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	for len(c.unread) == 0 && c.endOfRead == nil {
		select {
		case in := <-c.in:
			if !c.s.waitUntil(c.over, in.arrives) {
				return 0, net.ErrClosed
			}
			c.unread, c.endOfRead = in.data, in.err
		case <-c.over:
			return 0, net.ErrClosed
		}
	}
	if len(c.unread) == 0 {
		return 0, c.endOfRead
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}
