package camera

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/videoext/session"
)

// talk is a session.
type talk struct {
	body   *body
	put    int // bytes that were given to the body
	began  time.Duration
	cancel context.CancelFunc

	connection Connection // nil: there is none yet
	welcome    bool
	useful     bool // a segment was done in it
}

// heard is what a session says: a connection, a message, or why it ended.
type heard struct {
	from       *talk
	connection Connection
	message    session.Message
	err        error
}

// refusal is the server's reason.
type refusal struct{ reason string }

func (r *refusal) Error() string { return "the server refuses: " + r.reason }

// isFinalError says whether another try would be in vain.
func isFinalError(err error) bool {
	var refused *refusal
	var status *StatusError
	switch {
	case errors.As(err, &refused):
		return true
	case errors.As(err, &status):
		switch status.Code {
		case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		}
		return status.Code >= 400 && status.Code < 500
	}
	return false
}

// beginSession begins a session. Its goroutine ends with its context, and before it all that it says is heard.
func (r *runner) beginSession(inner context.Context, all *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(inner)
	t := &talk{body: newBody(), began: r.now(), cancel: cancel}
	r.talk = t
	hello := session.Hello{Width: r.Width, Height: r.Height, Rate: r.Rate, Camera: r.Name}
	t.sendMessage(encodeMessage(&hello))
	all.Go(func() {
		err := r.listenToSession(ctx, t)
		r.reportHeard(ctx, heard{from: t, err: err})
	})
}

func (t *talk) sendMessage(data []byte) {
	if t.body.putMessage(data) {
		t.put += len(data)
	}
}

func (r *runner) reportHeard(ctx context.Context, h heard) bool {
	select {
	case r.heard <- h:
		return true
	case <-ctx.Done():
		return false
	}
}

// listenToSession hears a session until it ends.
func (r *runner) listenToSession(ctx context.Context, t *talk) error {
	connection, err := r.Peer.Connect(ctx, t.body)
	if err != nil {
		return err
	}
	defer connection.Close()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() }) // it ends reads
	defer stop()
	if !r.reportHeard(ctx, heard{from: t, connection: connection}) {
		return ctx.Err()
	}
	for in := session.NewReader(connection); ; {
		m, err := in.Next()
		if err != nil {
			return fmt.Errorf("the session broke: %w", err)
		}
		if !r.reportHeard(ctx, heard{from: t, message: m}) {
			return ctx.Err()
		}
	}
}

// loseSession ends the session; an error ends all.
func (r *runner) loseSession(err error) error {
	now, t := r.now(), r.talk
	r.dropSession()
	switch {
	case r.goodbye >= 0:
		return nil
	case !r.met && isFinalError(err):
		return err
	case t.useful || t.welcome && now-t.began >= healthy:
		r.backoff.reset()
	}
	wait := r.backoff.nextDelay()
	r.retry = now + wait
	r.observeEvent(Disconnected{err, wait})
	return nil
}

// dropSession ends the session.
func (r *runner) dropSession() {
	if t := r.talk; t != nil {
		_ = t.body.Close() // it cannot fail
		t.cancel()
		r.talk = nil
	}
}

var errDropped = errors.New("the session was ended")

// stepSession begins, looks after and ends sessions, and says whether all is over.
func (r *runner) stepSession(inner context.Context, all *sync.WaitGroup) (over bool, err error) {
	now := r.now()
	if r.ending.begun && r.isOver(now) {
		return true, r.runError()
	}
	t := r.talk
	r.observeLink(now, t)
	if t == nil {
		if now >= r.retry {
			r.beginSession(inner, all)
		}
		return false, nil
	}
	switch stalled := r.link.stalledFor(now); {
	case !t.welcome && now-t.began > welcomeTimeout:
		return false, r.loseSession(fmt.Errorf("the server has not said Welcome for %v", welcomeTimeout))
	case t.welcome && stalled > stallTimeout:
		return false, r.loseSession(fmt.Errorf("nothing has reached the server for %v", stalled.Round(time.Second)))
	}
	return false, nil
}

// observeLink sees how the link is. Without a session it carries nothing.
func (r *runner) observeLink(now time.Duration, t *talk) {
	if t == nil || t.connection == nil || !t.welcome {
		r.link.observeDelivery(now, r.link.delivered, r.ledger.unsentBytes())
		return
	}
	left, _ := t.body.unreadBytes()
	outstanding := left + t.connection.Unacknowledged()
	r.link.observeDelivery(now, max(t.put-outstanding, r.link.delivered), outstanding+r.ledger.unsentBytes())
}

// isOver says whether the end is reached, and says Ended when there is nothing more to say.
func (r *runner) isOver(now time.Duration) bool {
	t := r.talk
	switch {
	case r.goodbye >= 0:
		return t == nil || now-r.goodbye > farewell
	case !r.met && r.shots == nil:
		return true
	case r.ending.hasTimedOut(now, farewell):
		return true
	case t == nil || !t.welcome:
		return false
	}
	waited := r.ending.hasTimedOut(now, 0)
	if _, room := t.body.unreadBytes(); !room || !waited && len(r.ledger.entries) > 0 {
		return false
	}
	t.sendMessage(encodeMessage(&session.Ended{}))
	t.body.endWithEOF()
	r.goodbye = now
	return false
}

// runError is what Run returns.
func (r *runner) runError() error {
	if r.end != nil {
		return r.end
	}
	if n := len(r.ledger.entries); n > 0 {
		return fmt.Errorf("%d of %d segments got no results before the end", n, r.totals.Segments)
	}
	return nil
}

// sendNextMessage gives the session the next message.
func (r *runner) sendNextMessage() {
	t := r.talk
	if t == nil || !t.welcome || r.goodbye >= 0 {
		return
	}
	if _, room := t.body.unreadBytes(); !room {
		return
	}
	if data := r.ledger.nextMessage(); data != nil {
		t.sendMessage(data)
	}
}
