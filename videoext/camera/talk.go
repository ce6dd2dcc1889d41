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

// final says whether another try would be in vain.
func final(err error) bool {
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

// begin begins a session. Its goroutine ends with its context, and before it all that it says is heard.
func (r *runner) begin(inner context.Context, all *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(inner)
	t := &talk{body: newBody(), began: r.now(), cancel: cancel}
	r.talk = t
	hello := session.Hello{Width: r.Width, Height: r.Height, Rate: r.Rate, Camera: r.Name}
	t.say(encoded(&hello))
	all.Go(func() {
		err := r.listen(ctx, t)
		r.report(ctx, heard{from: t, err: err})
	})
}

func (t *talk) say(data []byte) {
	if t.body.put(data) {
		t.put += len(data)
	}
}

func (r *runner) report(ctx context.Context, h heard) bool {
	select {
	case r.heard <- h:
		return true
	case <-ctx.Done():
		return false
	}
}

// listen hears a session until it ends.
func (r *runner) listen(ctx context.Context, t *talk) error {
	connection, err := r.Peer.Connect(ctx, t.body)
	if err != nil {
		return err
	}
	defer connection.Close()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() }) // it ends reads
	defer stop()
	if !r.report(ctx, heard{from: t, connection: connection}) {
		return ctx.Err()
	}
	for in := session.NewReader(connection); ; {
		m, err := in.Next()
		if err != nil {
			return fmt.Errorf("the session broke: %w", err)
		}
		if !r.report(ctx, heard{from: t, message: m}) {
			return ctx.Err()
		}
	}
}

// lose ends the session; an error ends all.
func (r *runner) lose(err error) error {
	now, t := r.now(), r.talk
	r.drop()
	switch {
	case r.goodbye >= 0:
		return nil
	case !r.met && final(err):
		return err
	case t.useful || t.welcome && now-t.began >= healthy:
		r.backoff.reset()
	}
	wait := r.backoff.next()
	r.retry = now + wait
	r.observe(Disconnected{err, wait})
	return nil
}

// drop ends the session.
func (r *runner) drop() {
	if t := r.talk; t != nil {
		_ = t.body.Close() // it cannot fail
		t.cancel()
		r.talk = nil
	}
}

var errDropped = errors.New("the session was ended")

// session begins, looks after and ends sessions, and says whether all is over.
func (r *runner) session(inner context.Context, all *sync.WaitGroup) (over bool, err error) {
	now := r.now()
	if r.ending.begun && r.over(now) {
		return true, r.result()
	}
	t := r.talk
	r.look(now, t)
	if t == nil {
		if now >= r.retry {
			r.begin(inner, all)
		}
		return false, nil
	}
	switch stalled := r.link.stalled(now); {
	case !t.welcome && now-t.began > welcomeTimeout:
		return false, r.lose(fmt.Errorf("the server has not said Welcome for %v", welcomeTimeout))
	case t.welcome && stalled > stallTimeout:
		return false, r.lose(fmt.Errorf("nothing has reached the server for %v", stalled.Round(time.Second)))
	}
	return false, nil
}

// look sees how the link is. Without a session it carries nothing.
func (r *runner) look(now time.Duration, t *talk) {
	if t == nil || t.connection == nil || !t.welcome {
		r.link.see(now, r.link.delivered, r.ledger.waiting())
		return
	}
	left, _ := t.body.left()
	outstanding := left + t.connection.Unacknowledged()
	r.link.see(now, max(t.put-outstanding, r.link.delivered), outstanding+r.ledger.waiting())
}

// over says whether the end is reached, and says Ended when there is nothing more to say.
func (r *runner) over(now time.Duration) bool {
	t := r.talk
	switch {
	case r.goodbye >= 0:
		return t == nil || now-r.goodbye > farewell
	case !r.met && r.shots == nil:
		return true
	case r.ending.waited(now, farewell):
		return true
	case t == nil || !t.welcome:
		return false
	}
	waited := r.ending.waited(now, 0)
	if _, room := t.body.left(); !room || !waited && len(r.ledger.entries) > 0 {
		return false
	}
	t.say(encoded(&session.Ended{}))
	t.body.finish()
	r.goodbye = now
	return false
}

// result is what Run returns.
func (r *runner) result() error {
	if r.end != nil {
		return r.end
	}
	if n := len(r.ledger.entries); n > 0 {
		return fmt.Errorf("%d of %d segments got no results before the end", n, r.totals.Segments)
	}
	return nil
}

// send gives the session the next message.
func (r *runner) send() {
	t := r.talk
	if t == nil || !t.welcome || r.goodbye >= 0 {
		return
	}
	if _, room := t.body.left(); !room {
		return
	}
	if data := r.ledger.next(); data != nil {
		t.say(data)
	}
}
