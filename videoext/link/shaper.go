package link

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

// LoadTrace reads a trace from a file of that name, or from the text itself (link.Read, link.Parse).
func LoadTrace(text string) (Trace, error) {
	file, err := os.Open(text)
	if err != nil {
		return Parse(text)
	}
	defer file.Close()
	return Read(file)
}

// Shaper is a link in real time, from New on. Its connections share it: what one has sent is in the way of the next.
type Shaper struct {
	began    time.Time
	up, down way
}

// way is one direction.
type way struct {
	mu   sync.Mutex
	link *Link
}

const (
	packet = 1448 // bytes that pass at once, as in an Ethernet frame
	// burst is how much may pass at once after a pause: what a timer that is late holds up must not be lost.
	burst = 16 << 10
	// early is how long before bytes are through the next ones may come.
	early = 10 * time.Millisecond
	// opening is how many bytes the packets have that open a connection.
	opening = 60
)

// NewShaper is a link whose ways each have a trace's rate, and half of the round trip.
func NewShaper(trace Trace, rtt time.Duration) *Shaper {
	return &Shaper{began: time.Now(), up: way{link: New(trace, burst, rtt)}, down: way{link: New(trace, burst, rtt)}}
}

// sendBytes is when bytes that are there now arrive. Never is possible.
func (s *Shaper) sendBytes(w *way, bytes int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.link.Send(time.Since(s.began), bytes)
}

// waitUntil waits until a time of the link, and says whether it came before over.
func (s *Shaper) waitUntil(over <-chan struct{}, at time.Duration) bool {
	if at == Never {
		<-over
		return false
	}
	d := at - time.Since(s.began)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return false
	}
}

// Dial is a Dialer's DialContext over the link, on which opening a connection takes a round trip.
func (s *Shaper) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !s.waitUntil(ctx.Done(), s.sendBytes(&s.up, opening)) || !s.waitUntil(ctx.Done(), s.sendBytes(&s.down, opening)) {
			return nil, context.Cause(ctx)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return s.Conn(conn), nil
	}
}
