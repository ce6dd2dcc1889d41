package frontend

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// job is one open job: a prompt of a request, to be run once.
type job struct {
	// set once
	submit  wire.Submit // under its first id
	arrived time.Time
	mail    *mailbox
	choice  int // index in its request

	// guarded by jobTable.mu
	id   engine.JobID // the present one
	next int          // index of the next token expected
	sent bool         // the present scheduler has it
	gaps int          // times that a Result before the one that came was lost
}

// delivery is a Result for a choice of a request, and when it came.
type delivery struct {
	choice int
	result *wire.Result
	at     time.Time
}

// mailbox collects the Results of one request until its handler takes them.
type mailbox struct {
	wake    chan struct{} // holds one token while there is mail
	mu      sync.Mutex
	arrived []delivery // guarded by mu
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(d delivery) {
	m.mu.Lock()
	m.arrived = append(m.arrived, d)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take empties the box, handing over into's memory for what comes next.
func (m *mailbox) take(into []delivery) []delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.arrived
	clear(into) // a Result may hold megabytes
	m.arrived = into[:0]
	return taken
}

// schedulerState is what the last Welcome said about the served model.
type schedulerState struct {
	wire.Welcome
	at          time.Time
	serving     int // executors of the model
	maxModelLen int
	vocabSize   int
	blockTokens int
	numBlocks   int
}

// jobTable holds every job from its Submit to its last Result, so that a scheduler can die: the
// next one, which says Welcome with another Epoch, gets all open jobs again, and so does the same
// one after a broken connection. A scheduler may therefore see a Submit twice, and takes the second
// as no news.
type jobTable struct {
	// set once
	greeting wire.Hello
	model    string
	limit    int
	out      conn
	log      *zap.Logger
	prefix   uint64
	ready    chan struct{} // closed when an executor of the model was first heard of

	count atomic.Uint64 // job ids drawn
	state atomic.Pointer[schedulerState]

	// guarded by mu
	mu        sync.Mutex
	open      map[engine.JobID]*job
	epoch     uint64 // of the last scheduler heard of
	connected bool   // it has been heard of since the connection last broke
	refused   uint64 // jobs that would have passed limit
}

func newJobTable(cfg Config, out conn, log *zap.Logger) *jobTable {
	var seed [16]byte
	rand.Read(seed[:])
	t := &jobTable{
		greeting: wire.Hello{Role: wire.RoleFrontend, Name: cfg.Name, Epoch: binary.LittleEndian.Uint64(seed[8:])},
		model:    cfg.Models[0], limit: cfg.MaxJobs, out: out, log: log,
		prefix: binary.LittleEndian.Uint64(seed[:]) << 40,
		ready:  make(chan struct{}),
		open:   map[engine.JobID]*job{},
	}
	t.state.Store(&schedulerState{at: time.Now()})
	return t
}

func (t *jobTable) newID() engine.JobID {
	return engine.JobID(t.prefix | t.count.Add(1)&(1<<40-1))
}

// counts are the jobs that are open now and those that were refused.
func (t *jobTable) counts() (open int, refused uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open), t.refused
}

// submit opens jobs and sends them in their order. Without a scheduler they wait for one.
func (t *jobTable) submit(jobs []*job) *refusal {
	t.mu.Lock()
	if open := len(t.open); open+len(jobs) > t.limit {
		t.refused += uint64(len(jobs))
		t.mu.Unlock()
		return refuse(engine.CodeOverloaded, "%d jobs are open and %d more would pass the limit of %d; come back later", open, len(jobs), t.limit)
	}
	connected := t.connected
	for _, j := range jobs {
		j.id, j.sent = j.submit.Job, connected
		t.open[j.id] = j
	}
	t.mu.Unlock()
	if !connected {
		return nil
	}
	for _, j := range jobs {
		t.send(j, &j.submit)
	}
	return nil
}

// send sends a job; if that fails, the job waits for the next Welcome.
func (t *jobTable) send(j *job, msg *wire.Submit) {
	if err := t.out.Send(msg); err != nil {
		t.mu.Lock()
		j.sent = false
		t.mu.Unlock()
		t.log.Warn("a job waits for the scheduler", zap.Stringer("job", msg.Job), zap.Error(err))
	}
}

// cancel withdraws those of jobs that are still open.
func (t *jobTable) cancel(jobs []*job) {
	for _, j := range jobs {
		t.mu.Lock()
		id := j.id
		_, found := t.open[id]
		delete(t.open, id)
		t.mu.Unlock()
		if found {
			t.withdraw(id)
		}
	}
}

func (t *jobTable) withdraw(id engine.JobID) {
	if err := t.out.Send(&wire.Cancel{Job: id}); err != nil {
		t.log.Debug("a Cancel was not sent", zap.Stringer("job", id), zap.Error(err))
	}
}

// result passes r on to its request. A job that was submitted again repeats the tokens that its
// request has; draws are seeded by job, so they are the same and are dropped.
func (t *jobTable) result(r *wire.Result) {
	final := r.Err != nil || r.Finish != engine.FinishNone
	t.mu.Lock()
	j := t.open[r.Job]
	switch {
	case j == nil:
		t.mu.Unlock()
		if !final {
			t.withdraw(r.Job) // a Submit and a Cancel crossed a restart of the scheduler
		}
		return
	case r.Err == nil && r.Index < j.next:
		t.mu.Unlock()
		return
	case r.Err == nil && r.Index > j.next && j.gaps == maxGaps:
		r = &wire.Result{Job: r.Job, Err: engine.Errorf(engine.CodeInternal, "token %d of job %v came where token %d was due, for the %dth time", r.Index, r.Job, j.next, maxGaps+1)}
		final = true
	case r.Err == nil && r.Index > j.next:
		again := t.rename(j)
		t.mu.Unlock()
		t.log.Warn("a Result was lost; the job is run again", zap.Stringer("job", r.Job), zap.Stringer("as", again.Job))
		t.withdraw(r.Job)
		t.send(j, again)
		return
	}
	j.next++
	if final {
		delete(t.open, r.Job)
	}
	t.mu.Unlock()
	j.mail.put(delivery{j.choice, r, time.Now()})
}

// maxGaps bounds how often a job is run again because Results of it were lost.
const maxGaps = 3

// rename gives j another id, under which a scheduler that has answered in part starts afresh. The
// caller holds mu and sends the Submit that is returned.
func (t *jobTable) rename(j *job) *wire.Submit {
	delete(t.open, j.id)
	j.id = t.newID()
	j.gaps++
	t.open[j.id] = j
	return j.message(time.Now())
}

// message is the Submit of a job that has waited here. The caller holds mu of the job's table.
func (j *job) message(now time.Time) *wire.Submit {
	msg := j.submit
	msg.Job, msg.Waited = j.id, now.Sub(j.arrived)
	return &msg
}

// hello greets the scheduler. Should that fail, the connection greets it when it is there.
func (t *jobTable) hello() {
	if err := t.out.Send(&t.greeting); err != nil {
		t.log.Debug("the scheduler is away", zap.Error(err))
	}
}

// lost notes that messages under way, in either direction, may be gone.
func (t *jobTable) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connected = false
}

// welcome notes the scheduler's state, and sends what the scheduler may not have: all open jobs if
// it is a new one or the connection is.
func (t *jobTable) welcome(w *wire.Welcome) {
	now := time.Now()
	old, state := t.state.Load(), t.stateOf(w, now)
	t.state.Store(state)
	if old.serving != state.serving {
		t.log.Info("executors", zap.String("model", t.model), zap.Int("serving", state.serving),
			zap.Int("max_model_len", state.maxModelLen), zap.Int("prefix_cache_tokens", state.numBlocks*state.blockTokens))
	}
	t.mu.Lock()
	again := !t.connected || w.Epoch != t.epoch
	t.epoch, t.connected = w.Epoch, true
	var missing []*wire.Submit
	for _, j := range t.open {
		if again || !j.sent {
			j.sent = true
			missing = append(missing, j.message(now))
		}
	}
	if state.serving > 0 {
		t.markReady()
	}
	t.mu.Unlock()
	if again {
		t.log.Info("connected to the scheduler", zap.Uint64("epoch", w.Epoch), zap.Int("jobs_submitted_again", len(missing)))
		t.hello() // it may know nothing of this frontend, and takes no Submit from a stranger
	}
	slices.SortFunc(missing, func(a, b *wire.Submit) int { return cmp.Compare(a.Job, b.Job) })
	for _, msg := range missing {
		t.resend(msg)
	}
}

// resend sends a Submit of a job that may have ended or been renamed since.
func (t *jobTable) resend(msg *wire.Submit) {
	t.mu.Lock()
	j := t.open[msg.Job]
	t.mu.Unlock()
	if j != nil {
		t.send(j, msg)
	}
}

// markReady closes ready once; the caller holds mu.
func (t *jobTable) markReady() {
	select {
	case <-t.ready:
	default:
		close(t.ready)
	}
}

// stateOf digests a Welcome. Limits stay known while no executor is alive.
func (t *jobTable) stateOf(w *wire.Welcome, now time.Time) *schedulerState {
	old := t.state.Load()
	s := &schedulerState{Welcome: *w, at: now, maxModelLen: old.maxModelLen, vocabSize: old.vocabSize, blockTokens: old.blockTokens, numBlocks: old.numBlocks}
	for _, e := range w.Executors {
		if e.Model != t.model {
			continue
		}
		if s.serving == 0 {
			s.maxModelLen, s.vocabSize, s.numBlocks = 0, 0, 0
		}
		s.serving++
		s.maxModelLen = max(s.maxModelLen, e.MaxModelLen)
		s.vocabSize = max(s.vocabSize, e.VocabSize)
		s.blockTokens = e.BlockTokens
		s.numBlocks += e.NumBlocks
	}
	return s
}
