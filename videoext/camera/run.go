package camera

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/videoext/session"
)

func errRate(rate float64) error {
	return fmt.Errorf("%v frames in a second; above 0 and at most 1000 are right", rate)
}

func errMemory(bytes int) error { return fmt.Errorf("%d bytes of memory for frames", bytes) }

// Times of sessions.
const (
	tick           = 20 * time.Millisecond
	welcomeTimeout = 15 * time.Second // from the beginning of a session on
	stallTimeout   = 12 * time.Second // without an acknowledgement
	healthy        = 10 * time.Second // of a session, after which the next one begins soon
)

// runner is the goroutine of Run.
type runner struct {
	Config
	*stream
	began time.Time
	tasks chan task // to the worker

	talk    *talk // the session; nil: there is none
	heard   chan heard
	backoff backoff
	retry   time.Duration // when the next session is tried
	met     bool          // a server said Welcome

	shots    chan shot // nil: no frames are taken yet
	stopFilm context.CancelFunc
	ending   ending
	end      error         // how the source ended
	goodbye  time.Duration // when Ended was said; negative: not yet
}

// Run streams until the source ends, or ctx, and then waits for the results of what was taken: at most 15 seconds after the end of ctx, else until
// nothing has come for two minutes. An error says that there never was a session, that results are missing, or that the source or the method
// cannot be used; Totals are what was done until then.
func Run(ctx context.Context, c Config) (Totals, error) {
	if err := c.check(); err != nil {
		return Totals{}, err
	}
	r := &runner{
		Config: c, stream: newStream(c.Rate, cmp.Or(c.Memory, DefaultMemory)), began: time.Now(), tasks: make(chan task),
		heard: make(chan heard), goodbye: -1,
	}
	r.detects = c.Detector != nil
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	outcomes := make(chan outcome)
	w := &worker{encoder: c.Encoder, detector: c.Detector, preset: c.Preset, in: r.tasks, out: outcomes}
	all.Go(func() { w.run(inner) })
	err := r.runLoop(ctx, inner, &all, outcomes)
	r.dropSession()
	cancel()
	all.Wait()
	r.totals.Elapsed = r.now()
	return r.totals, err
}

func (r *runner) now() time.Duration { return time.Since(r.began) }

func (r *runner) observeEvent(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}

// runLoop goes on until all is said and done.
func (r *runner) runLoop(ctx, inner context.Context, all *sync.WaitGroup, outcomes <-chan outcome) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	stop := ctx.Done()
	for {
		if err := r.stream.err; err != nil {
			return err
		}
		if over, err := r.stepSession(inner, all); over || err != nil {
			return err
		}
		r.sendNextMessage()
		select {
		case <-stop:
			stop = nil
			r.finishCapture(nil, true)
		case s := <-r.shotChannel():
			r.handleShot(s)
		case r.taskChannel() <- r.firstTask():
			r.doing, r.todo = r.todo[0], r.todo[1:]
		case out := <-outcomes:
			if err := r.handleOutcome(r.now(), out); err != nil {
				r.observeEvent(NotDone{err})
			}
		case h := <-r.heard:
			if err := r.handleHeard(inner, all, h); err != nil {
				return err
			}
		case <-r.bodyReady():
		case <-ticker.C:
			r.wakeMethod(r.now())
		}
	}
}

// shotChannel is where frames come from; nil while none are to be taken. Where nothing sets the pace a segment waits until the one before has its results: methods
// leave out what comes too late, and so nothing does.
func (r *runner) shotChannel() <-chan shot {
	if r.ending.begun || !r.Paced && !r.Live && (!r.hasRoom() || len(r.ledger.entries) > 0) {
		return nil
	}
	return r.shots
}

// taskChannel is where tasks go to; nil while there is none, or the worker has one.
func (r *runner) taskChannel() chan<- task {
	if r.doing != nil || len(r.todo) == 0 {
		return nil
	}
	return r.tasks
}

func (r *runner) firstTask() task {
	if len(r.todo) == 0 {
		return nil
	}
	return r.todo[0]
}

// bodyReady is told when the session takes another message.
func (r *runner) bodyReady() <-chan struct{} {
	if r.talk == nil {
		return nil
	}
	return r.talk.body.ready
}

func (r *runner) handleShot(s shot) {
	r.totals.Times.Decode += s.took
	switch {
	case s.end != nil:
		if !errors.Is(s.end, io.EOF) {
			r.end = s.end
		}
		r.finishCapture(r.end, false)
	case s.lost != nil:
		r.observeEvent(SourceLost{s.lost})
		r.flushSegment(r.now())
	default:
		r.addFrame(r.now(), s.frame)
	}
}

// finishCapture takes no more frames. It may have been asked for.
func (r *runner) finishCapture(err error, asked bool) {
	now := r.now()
	if !r.ending.beginEnding(now, asked) {
		return
	}
	if r.stopFilm != nil {
		r.stopFilm()
	}
	r.end = err
	r.flushSegment(now)
}

// startFilm begins to take frames.
func (r *runner) startFilm(inner context.Context, all *sync.WaitGroup) {
	if r.shots != nil || r.ending.begun {
		return
	}
	r.shots = make(chan shot)
	ctx, cancel := context.WithCancel(inner)
	r.stopFilm = cancel
	f := &film{Footage: r.Footage, out: r.shots}
	all.Go(func() { f.run(ctx) })
}

// handleHeard takes in what a session says.
func (r *runner) handleHeard(inner context.Context, all *sync.WaitGroup, h heard) error {
	t := r.talk
	if t == nil || h.from != t {
		return nil
	}
	if h.err != nil {
		return r.loseSession(h.err)
	}
	if h.connection != nil {
		t.connection = h.connection
		return nil
	}
	switch m := h.message.(type) {
	case *session.Welcome:
		if t.welcome {
			return r.loseSession(errors.New("the server says Welcome a second time"))
		}
		if err := r.handleWelcome(r.now(), m); err != nil {
			return err
		}
		t.welcome, r.met, r.ending.progress = true, true, r.now()
		r.totals.Sessions++
		r.observeEvent(Connected{m.Method, m.Next})
		r.startFilm(inner, all)
		return nil
	case *session.Refused:
		return r.loseSession(&refusal{m.Reason})
	}
	if !t.welcome {
		return r.loseSession(fmt.Errorf("the server begins with %T", h.message))
	}
	done, err := r.handleMessage(r.now(), h.message)
	if err != nil {
		return r.loseSession(err)
	}
	for _, finished := range done {
		t.useful, r.ending.progress = true, r.now()
		r.observeEvent(finished)
	}
	return nil
}
