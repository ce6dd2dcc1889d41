package httpserve

import (
	"container/list"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// Bound is one of the two bounds on connections.
type Bound string

// The bounds.
const (
	BoundAll     Bound = "all"
	BoundAddress Bound = "address"
)

// SpareFiles is how many descriptors are left to everything but connections.
const SpareFiles = 64

// maxFarewells bounds the connections beyond a bound that are being told so; more are closed without a word.
const maxFarewells = 64

// connections counts the open connections and holds them to the bounds.
type connections struct {
	// set once
	limit, perAddress int
	turnAway          map[Bound]farewell
	farewells         chan struct{} // a slot for each connection that is told why it is closed
	telling           sync.WaitGroup

	readLimit, writeLimit atomic.Int64 // of a drain, as durations; 0 without one
	refused, refusedHere  atomic.Uint64
	reused                atomic.Uint64
	cutFrames, cutStill   atomic.Uint64

	mu      sync.Mutex
	open    map[*conn]struct{}   // guarded by mu
	counted int                  // guarded by mu: open ones, and streams that count as such
	from    map[netip.Prefix]int // guarded by mu: of these by address
	idles   *list.List           // guarded by mu: *conn between two requests, the longest idle first
	waiting waiting              // guarded by mu
}

// farewell is what is said beyond a bound.
type farewell struct {
	status      int
	contentType string
	body        []byte
	whole       []byte // by HTTP/1
}

func newConnections(cfg Config) *connections {
	c := &connections{
		limit: cfg.MaxConnections, perAddress: cfg.MaxPerAddress, turnAway: map[Bound]farewell{},
		farewells: make(chan struct{}, maxFarewells),
		open:      map[*conn]struct{}{}, from: map[netip.Prefix]int{}, idles: list.New(),
		waiting: waiting{from: map[netip.Prefix]int{}, answers: list.New()},
	}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil && files.Cur < 1<<30 {
		c.limit = max(1, min(c.limit, int(files.Cur)-SpareFiles))
	}
	for b, limit := range map[Bound]int{BoundAll: c.limit, BoundAddress: c.perAddress} {
		status, contentType, body := cfg.TurnAway(b, limit)
		c.turnAway[b] = farewell{status, contentType, body, fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
			status, http.StatusText(status), contentType, len(body), body)}
	}
	return c
}

// Counts are figures of a Server's connections.
type Counts struct {
	Open                       int
	RefusedAll, RefusedAddress uint64 // beyond a bound
	ClosedIdle                 uint64 // idle ones that made room for new ones
	CutFrames                  uint64 // of HTTP/2, whose frames asked for nothing
	CutStill                   uint64 // answers that stood still while too many bytes waited
}

// Connections returns the figures now.
func (s *Server) Connections() Counts {
	c := s.conns
	c.mu.Lock()
	open := len(c.open)
	c.mu.Unlock()
	return Counts{Open: open, RefusedAll: c.refused.Load(), RefusedAddress: c.refusedHere.Load(), ClosedIdle: c.reused.Load(),
		CutFrames: c.cutFrames.Load(), CutStill: c.cutStill.Load()}
}

// limitListener is listener with the bounds applied.
func (c *connections) limitListener(listener net.Listener, log *zap.Logger) net.Listener {
	return &boundListener{Listener: listener, conns: c, log: log}
}

type boundListener struct {
	net.Listener
	conns *connections
	log   *zap.Logger
	told  time.Time // when the log last heard of a bound; owned by Accept
}

// Accept returns the next connection within the bounds, and turns away those beyond.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, beyond := l.conns.admitConn(raw)
		if c != nil {
			return c, nil
		}
		if time.Since(l.told) > time.Minute {
			l.told = time.Now()
			l.log.Warn("connections are turned away", zap.String("bound", string(beyond)), zap.Stringer("from", raw.RemoteAddr()))
		}
		l.conns.refuseConn(raw, beyond)
	}
}

// admitConn counts a connection, if need be in place of an idle one. If that is of no use it returns nil and the bound.
func (c *connections) admitConn(raw net.Conn) (*conn, Bound) {
	from := sourceOf(raw.RemoteAddr())
	c.mu.Lock()
	defer c.mu.Unlock()
	if beyond := c.makeRoom(from); beyond != "" {
		return nil, beyond
	}
	admitted := &conn{Conn: raw, owner: c, from: from}
	c.open[admitted] = struct{}{}
	c.addCount(from, 1)
	return admitted, ""
}

// makeRoom makes room for one more from an address, if need be in place of an idle connection. If that is of no use it returns the
// bound. The caller holds mu.
func (c *connections) makeRoom(from netip.Prefix) Bound {
	if from.IsValid() && c.from[from] >= c.perAddress && !c.closeIdle(from) {
		return BoundAddress
	}
	if c.counted >= c.limit && !c.closeIdle(netip.Prefix{}) {
		return BoundAll
	}
	return ""
}

// addCount adds to what counts as connections. The caller holds mu.
func (c *connections) addCount(from netip.Prefix, more int) {
	c.counted += more
	if !from.IsValid() {
		return
	}
	if c.from[from] += more; c.from[from] == 0 {
		delete(c.from, from)
	}
}

// Source is what counts as one client: an IPv4 address, or the IPv6 network that one customer has.
func Source(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits) // an error is that there is no address
	return prefix
}

// sourceOf is the Source of a connection's other side.
func sourceOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return Source(tcp.AddrPort().Addr())
}

// closeIdle closes the connection of an address, or of any, that was idle longest. The caller holds mu.
func (c *connections) closeIdle(from netip.Prefix) bool {
	for e := c.idles.Front(); e != nil; e = e.Next() {
		if victim := e.Value.(*conn); !from.IsValid() || victim.from == from {
			c.dropConn(victim)
			_ = victim.Conn.Close() // net/http finds it closed, and closes it again
			c.reused.Add(1)
			return true
		}
	}
	return false
}

// closeIdles closes every idle connection.
func (c *connections) closeIdles() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.closeIdle(netip.Prefix{}) {
	}
}

// forgetConnection counts c no more.
func (c *connections) forgetConnection(gone *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropConn(gone)
}

// dropConn is forget for callers that hold mu.
func (c *connections) dropConn(gone *conn) {
	if gone.closed {
		return
	}
	gone.closed = true
	delete(c.open, gone)
	c.unlistIdle(gone)
	c.addCount(gone.from, -1)
}

func (c *connections) unlistIdle(busy *conn) {
	if busy.idle != nil {
		c.idles.Remove(busy.idle)
		busy.idle = nil
	}
}

// trackState is told by net/http what a connection is doing.
func (c *connections) trackState(raw net.Conn, state http.ConnState) {
	if state != http.StateIdle && state != http.StateActive {
		return
	}
	changed := raw.(*conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unlistIdle(changed)
	if state == http.StateIdle && !changed.closed {
		changed.idle = c.idles.PushBack(changed)
	}
}

// refuseConn tells a connection why it is closed, if few others are being told.
func (c *connections) refuseConn(raw net.Conn, beyond Bound) {
	c.noteRefused(beyond)
	select {
	case c.farewells <- struct{}{}:
	default:
		_ = raw.Close()
		return
	}
	c.telling.Go(func() { // ends within lingerTimeout
		defer func() { <-c.farewells }()
		said := &conn{Conn: raw, owner: c, closed: true}
		defer raw.Close()
		_ = raw.SetDeadline(time.Now().Add(lingerTimeout))
		if _, err := raw.Write(c.turnAway[beyond].whole); err != nil || said.CloseWrite() != nil {
			return
		}
		for scrap := make([]byte, 4096); ; { // a connection closed on unread data is reset
			if _, err := raw.Read(scrap); err != nil {
				return
			}
		}
	})
}

func (c *connections) noteRefused(beyond Bound) {
	if beyond == BoundAll {
		c.refused.Add(1)
	} else {
		c.refusedHere.Add(1)
	}
}

// waitFarewells returns when nobody is being turned away any more.
func (c *connections) waitFarewells() { c.telling.Wait() }

// limitAllDeadlines bounds, from now on, how long every connection may take to send or to take in what is under way.
func (c *connections) limitAllDeadlines(read, write time.Duration) {
	c.readLimit.Store(int64(read))
	c.writeLimit.Store(int64(write))
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	var streams []*answer
	for _, busy := range open {
		streams = slices.AppendSeq(streams, maps.Keys(busy.streams))
	}
	c.mu.Unlock()
	for _, busy := range open {
		busy.limitDeadlines()
	}
	for _, a := range streams { // without mu, which net/http waits for
		a.limitDeadlines()
	}
}

// limitDeadline is a deadline under the limit of a drain; zero, which is none, stays so.
func (c *connections) limitDeadline(t time.Time, limit *atomic.Int64) time.Time {
	most := time.Duration(limit.Load())
	if most == 0 || t.IsZero() {
		return t
	}
	if latest := time.Now().Add(most); latest.Before(t) {
		return latest
	}
	return t
}
