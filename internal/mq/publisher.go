package mq

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync"

	zmq "github.com/pebbe/zmq4"
)

// PublisherOptions are vLLM's of the same names.
type PublisherOptions struct {
	Endpoint       string // bound if it has a * or :: for a host or is ipc; else connected to, unless Listen is set
	Listen         bool   // bind Endpoint whatever its host is
	ReplayEndpoint string // bound; empty: nothing is replayed
	Topic          string // of all batches; {model} in it is the name of the model that a batch is about
	BufferSteps    int    // batches kept for replay, at least 1
	HWM            int    // batches kept for a subscriber that is slow; later ones pass it by
}

// Publisher sends batches of events to any number of subscribers, numbered from 0 so that they see
// what they have missed, and sends those they ask for again. It is for programs of others: there is
// neither encryption nor authentication, and nobody's words are decoded but a number.
type Publisher struct {
	topic  string
	pub    *socket
	replay *socket // nil: nothing is replayed

	mu   sync.Mutex
	next uint64  // guarded by mu; number of the next batch
	kept []batch // guarded by mu; batch n is at n % len, if it is one of the last len
}

// batch is events of one model.
type batch struct{ topic, events []byte }

// endOfReplay is -1 where a number would be.
const endOfReplay = math.MaxUint64

// NewPublisher opens the endpoints. The caller closes the Publisher.
func NewPublisher(o PublisherOptions) (*Publisher, error) {
	p := &Publisher{topic: o.Topic}
	if err := openEvents(&p.pub, zmq.PUB, o.Endpoint, o.Listen || bindsEvents(o.Endpoint), o.HWM, p.pollSubscribers); err != nil {
		return nil, err
	}
	if o.ReplayEndpoint == "" {
		return p, nil
	}
	p.kept = make([]batch, o.BufferSteps)
	// The high-water mark has room for a whole replay, its end included.
	if err := openEvents(&p.replay, zmq.ROUTER, o.ReplayEndpoint, true, 2*(o.BufferSteps+1), p.answerReplays); err != nil {
		p.pub.close()
		return nil, err
	}
	return p, nil
}

// pollSubscribers lets libzmq take in who has come or gone.
func (p *Publisher) pollSubscribers() { _, _ = p.pub.soc.GetEvents() }

// Publish sends a batch about a model under the next number and does not block. Without a subscriber, or after
// Close, the batch is only kept for replay. The batch must not be changed afterwards. It may be called
// by several goroutines.
func (p *Publisher) Publish(model string, events []byte) {
	b := batch{[]byte(strings.ReplaceAll(p.topic, "{model}", model)), events}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next
	p.next++
	if len(p.kept) > 0 {
		p.kept[n%uint64(len(p.kept))] = b
	}
	p.pub.mu.Lock()
	defer p.pub.mu.Unlock()
	if p.pub.closed {
		return
	}
	// A subscriber beyond its high-water mark sees a gap in the numbers; there is no other failure.
	_ = p.pub.sendFrames(b.topic, encodeUint64(n), b.events)
	p.pollSubscribers()
}

// answerReplays replays to every waiting request. The frames of one are: who asks, an empty one, and the
// number to begin with. Others are passed over.
func (p *Publisher) answerReplays() {
	for {
		q, ok := p.replay.receiveMessage()
		if !ok {
			return
		}
		if len(q) != 3 || len(q[2]) != 8 {
			continue
		}
		// libzmq takes in what the asker has read of earlier replays only now and then, and drops what
		// it then believes to be beyond the high-water mark.
		_, _ = p.replay.soc.GetEvents()
		first, batches := p.batchesSince(binary.BigEndian.Uint64(q[2]))
		for i, b := range batches {
			_ = p.replay.sendFrames(q[0], nil, b.topic, encodeUint64(first+uint64(i)), b.events)
		}
		_ = p.replay.sendFrames(q[0], nil, nil, encodeUint64(endOfReplay), nil)
	}
}

// batchesSince returns the kept batches from a number on, and the number of the first of them.
func (p *Publisher) batchesSince(start uint64) (first uint64, batches []batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := uint64(len(p.kept))
	first = max(start, p.next-min(p.next, size))
	for n := first; n < p.next; n++ {
		batches = append(batches, p.kept[n%size])
	}
	return first, batches
}

func encodeUint64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Close closes the sockets and drops what was not sent.
func (p *Publisher) Close() error {
	if p.replay != nil {
		p.replay.close()
	}
	p.pub.close()
	return nil
}

// bindsEvents is vLLM's rule.
func bindsEvents(endpoint string) bool {
	return strings.HasPrefix(endpoint, "ipc://") || strings.Contains(endpoint, "*") || strings.Contains(endpoint, "::")
}

// openEvents makes a socket that strangers may connect to. It is in place before readable, which
// uses it, is first called.
func openEvents(place **socket, kind zmq.Type, endpoint string, listens bool, hwm int, readable func()) error {
	if _, _, err := parseEndpoint(endpoint); err != nil {
		return err
	}
	s, err := newSocket(kind, nil)
	if err != nil {
		return fmt.Errorf("mq: make a socket: %w", err)
	}
	*place = s
	err = firstError(s.soc.SetSndhwm(hwm), s.soc.SetIpv6(strings.Contains(endpoint, "::")))
	switch {
	case err != nil:
	case listens:
		err = bindSocket(s.soc, endpoint)
	default:
		err = s.soc.Connect(endpoint)
	}
	if err == nil {
		err = s.serveReadable(readable)
	}
	if err != nil {
		s.discard()
		return fmt.Errorf("mq: publish on %s: %w", endpoint, err)
	}
	return nil
}
