package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/events"
)

// ticksPerTimeout is how many ticks fall at least into the time after which a silent peer is lost, and
// longestTick bounds the time between two.
const (
	ticksPerTimeout = 10
	longestTick     = time.Second
)

// conn is the scheduler's end of its connections.
type conn interface {
	// Recv waits for the next message; it returns the context's error when that is done first.
	Recv(ctx context.Context) (peer string, m wire.Message, err error)
	// Send does not block; it fails when the peer is not connected.
	Send(peer string, m wire.Message) error
}

// publisher takes encoded batches of cache events of a model; it does not block.
type publisher interface {
	Publish(model string, events []byte)
}

// Server runs a Core: it gives it messages and the time, and sends what it answers.
type Server struct {
	core   *Core
	clock  func() time.Duration
	every  time.Duration
	tick   time.Duration // when the last tick was
	events publisher     // nil: nobody listens
	ticked func()        // hears that the loop goes round; may be nil
	later  []Envelope    // memory of executorsFirst
}

// NewServer makes a Server. The epoch tells it from schedulers before it; clock returns the time
// since some fixed start and never goes back.
func NewServer(cfg Config, epoch uint64, clock func() time.Duration) (*Server, error) {
	core, err := NewCore(cfg, epoch)
	if err != nil {
		return nil, err
	}
	return &Server{core: core, clock: clock, every: min(max(cfg.PeerTimeout/ticksPerTimeout, time.Millisecond), longestTick)}, nil
}

// PublishTo makes the Server publish what the prefix caches store and remove, a batch a step and
// executor, in the form of events.Encode. It is called before Run.
func (s *Server) PublishTo(p publisher) {
	s.events = p
	s.core.RecordCacheEvents()
}

// OnTick makes the Server call f at each tick, at least once a second while it works. It is called before
// Run.
func (s *Server) OnTick(f func()) { s.ticked = f }

// Run serves a connection until the context is done, which is no error, or the connection fails. It
// does not close the connection.
func (s *Server) Run(ctx context.Context, c conn) error {
	for {
		peer, m, err := s.recvMessage(ctx, c)
		switch {
		case err == nil:
			s.stepCore(c, PeerID(peer), m)
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("scheduler: receive: %w", err)
		default:
			s.stepCore(c, "", nil)
		}
		if now := s.clock(); now-s.tick >= s.every {
			s.tick = now
			s.stepCore(c, "", &wire.Tick{})
			if s.ticked != nil {
				s.ticked()
			}
		}
	}
}

// recvMessage waits for a message until the next tick is due, or the Core is to be woken.
func (s *Server) recvMessage(ctx context.Context, c conn) (string, wire.Message, error) {
	until := s.tick + s.every
	if at, ok := s.core.Wake(); ok {
		until = min(until, at)
	}
	ctx, cancel := context.WithTimeout(ctx, max(until-s.clock(), 0))
	defer cancel()
	return c.Recv(ctx)
}

// stepCore gives the Core a message and sends its answers. An executor that cannot be reached is lost
// at once; a frontend is given until its heartbeats are missed, as it holds its jobs and can say
// Hello again.
func (s *Server) stepCore(c conn, from PeerID, m wire.Message) {
	for pending := []inbound{{from, m}}; len(pending) > 0; pending = pending[1:] {
		for _, e := range s.executorsFirst(s.core.Step(s.clock(), pending[0].from, pending[0].msg)) {
			if err := c.Send(string(e.To), e.Msg); err != nil && s.core.executorAt(e.To) != nil {
				pending = append(pending, inbound{e.To, &wire.Lost{}})
			}
		}
		s.publishEvents(s.core.CacheEvents())
	}
}

// executorsFirst orders what goes out so that a device does not wait for its next pass until the results of the last one are
// sent. What one peer gets stays in its order.
func (s *Server) executorsFirst(out []Envelope) []Envelope {
	s.later = s.later[:0]
	first := out[:0]
	for _, e := range out {
		if s.core.executorAt(e.To) != nil {
			first = append(first, e)
		} else {
			s.later = append(s.later, e)
		}
	}
	return append(first, s.later...)
}

// publishEvents cuts the events of a step into batches of one rank.
func (s *Server) publishEvents(list []events.Event) {
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(e events.Event) bool { return e.Rank != list[0].Rank })
		if n < 0 {
			n = len(list)
		}
		s.events.Publish(list[0].Model, events.Encode(float64(time.Now().UnixNano())/1e9, list[:n]))
		list = list[n:]
	}
}

// inbound is a message on its way into the Core.
type inbound struct {
	from PeerID
	msg  wire.Message
}
