package fleet

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// localityWeight is how much the work of a job weighs against the work before it when its
// executor is chosen by prefix. At 1 each job would finish soonest, and a prefix would be
// computed on every executor in turn; above 1 the executors' total work counts too.
const localityWeight = 2

// NewJob makes the job of a Submit that has waited so long already.
func (f *Fleet) NewJob(m *wire.Submit, from *Frontend) *Job {
	arrival := f.Now - max(m.Waited, 0)
	j := &Job{Submit: m, Asks: new(engine.Tokens), Frontend: from, Pool: f.Pool(m.Model), Arrival: arrival, expiry: -1}
	j.Job = queue.Job{Of: j, Order: f.orders, Aged: arrival.Seconds(), Priority: m.Priority, Deadline: math.Inf(1), Flow: f.flowOf(m)}
	switch w := m.Work.(type) {
	case *engine.Tokens:
		j.Asks = w
		j.Prompt, j.Whole = w.IDs, w.Ask.PromptLogprobs || w.Ask.Pool.Whole()
	case *engine.Tensors:
		j.Frames = max(w.Frames, 0)
	}
	if m.Deadline > 0 {
		f.expiries.set(j, arrival+m.Deadline)
		j.Deadline = j.expires.Seconds()
	}
	if j.isFrame() {
		j.deadline = j.expires
	}
	f.orders++
	j.class = classOf(m.IsLowest())
	f.queued(j, 1)
	j.Pool.Asked = true
	return j
}

// queued counts so many jobs more, or less, that have not been started.
func (f *Fleet) queued(j *Job, jobs int) {
	q := f.QueueOf(j.Submit)
	q.Jobs += jobs
	q.Tokens += jobs * len(j.Asks.IDs)
}

// QueueOf is the jobs that wait with a job, and against which it is admitted: lowest ones apart from all others.
func (f *Fleet) QueueOf(m *wire.Submit) *Queued { return &f.waitingJobs[classOf(m.IsLowest())] }

// Place finds a lane for a job that has none and puts it there, or among the orphans of its model, or says why no lane
// takes it. It returns the lane, or one whose model is to be loaded for the frames after this one; nil if there is none.
func (f *Fleet) Place(j *Job) (*Lane, *engine.Error) {
	p := j.Pool
	if len(p.Lanes) == 0 && !j.isPromised() {
		j.State, j.Orphaned = Orphan, f.Now
		p.Orphans = append(p.Orphans, j)
		return nil, nil
	}
	l, err := f.route(j)
	if err != nil {
		return l, err
	}
	f.Enqueue(j, l)
	return l, nil
}

// route chooses among the lanes that serve a model and can run the job, or says why the first of them cannot.
func (f *Fleet) route(j *Job) (*Lane, *engine.Error) {
	if len(j.Pool.Lanes) == 0 {
		return nil, engine.Errorf(engine.CodeUnavailable, "no executor serves model %q", j.Pool.Model)
	}
	lanes, closed := f.open(j.Pool)
	var best *Lane
	var refusal *engine.Error
	byUser := f.Routing == RouteUser && j.Submit.User != ""
	user, least := hashName(j.Submit.User), math.Inf(1)
	f.markedFor = nil
	for _, l := range lanes {
		if err := f.unfit(j, l); err != nil {
			refusal = cmp.Or(refusal, err)
			continue
		}
		score := 0.0
		switch {
		case j.isPromised():
			var err *engine.Error
			if score, err = f.promised(j, l); err != nil {
				refusal = cmp.Or(refusal, err)
				continue
			}
		case byUser:
			score = -home(user, l.Executor)
		default:
			score = f.finish(j, l, least)
		}
		if best == nil || score < least {
			best, least = l, score
		}
	}
	if best == nil {
		return nil, cmp.Or(refusal, closed)
	}
	if j.isPromised() {
		err := f.admit(j, best)
		if err != nil {
			f.doubt(best)
		}
		return best, err
	}
	return best, nil
}

// doubting is what a refusal leaves of the longest pass's length: twenty leave an eighth.
const doubting = 0.9

// doubt notes that a promise was refused in a lane in which no pass tells any more how long they are. One odd pass, during which
// the machine stood still, would otherwise have its streams refused for ever.
func (f *Fleet) doubt(l *Lane) {
	if f.Now-l.told > time.Second {
		l.Cost.Doubt()
		l.longest *= doubting
	}
}

// promised scores a lane for a frame that wants a promise: the one that its stream has, else that of the device of
// which the least is promised. One that would be late already is refused.
func (f *Fleet) promised(j *Job, l *Lane) (float64, *engine.Error) {
	if l.Cost.Upper(j.Size(0).Alone()) > j.Submit.Deadline.Seconds() {
		defer f.doubt(l)
		return 0, engine.Errorf(engine.CodeDeadline, "a pass takes up to %.3f s, the deadline is %v", l.Cost.Upper(j.Size(0).Alone()), j.Submit.Deadline)
	}
	if l.Executor.ledger.Holds(j.stream()) {
		return -1, nil
	}
	if err := l.Crowded(f.promises(l.Executor)); err != nil {
		return 0, comeBack(time.Second, "%v", err)
	}
	return l.Executor.ledger.Use(f.Seconds()), nil
}

// finish predicts the seconds until a job would be done in a lane, its own work weighed by
// locality where that counts. Beyond the limit it need not be exact.
func (f *Fleet) finish(j *Job, l *Lane, limit float64) float64 {
	seconds := l.Executor.load(f.Now, j.class) + l.Missing()
	if f.Routing == RoutePrefix && seconds < limit {
		f.mark(j, l)
		todo := j.Size(0).Alone()
		if l.marked == f.marks {
			todo = l.expected(j)
		}
		seconds += localityWeight * l.Cost.Seconds(todo)
	}
	return seconds
}

// mark marks the lanes with which a job may share a prefix, if it has not yet, or not yet with a
// lane's block size.
func (f *Fleet) mark(j *Job, l *Lane) {
	if f.markedFor == j && j.ChainOf == l.limits.BlockTokens {
		return
	}
	f.hash(j, l)
	f.markedFor = j
	f.marks++
	if len(j.Chain) == 0 {
		return
	}
	for _, place := range j.Pool.places.by[j.Chain[0]] {
		place.marked = f.marks
	}
}

// home weighs an executor for a user (rendezvous hashing): the one with the most weight is the
// user's. When it dies its users alone move, and they come back when it does.
func home(user uint64, e *Executor) float64 { return float64(mix(user ^ e.salt)) }

func hashName(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return mix(h.Sum64())
}

// mix spreads the entropy of x over all bits (the finaliser of SplitMix64, Steele et al., 2014):
// FNV's high bits hardly depend on the last bytes.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hash computes a job's block chain for a lane's block size, and finds what is known of it.
func (f *Fleet) hash(j *Job, l *Lane) {
	anew := l.Cache.Chain(&f.hasher, &j.Job, j.Submit.Salt, f.PrefixCaching)
	if anew && j.Asks.Ask.PromptLogprobs {
		j.known = f.Scores.Known(l.weights(), j.Chain, j.Asks.Ask.PromptTop)
		j.Known = len(j.known) * j.ChainOf
	}
}

// Enqueue puts a job in a lane.
func (f *Fleet) Enqueue(j *Job, l *Lane) {
	f.hash(j, l)
	j.Lane, j.State = l, Waiting
	j.Paged = j.pages(f.FullKV, l.limits.BlockTokens) > 0
	j.Predicted = l.expected(j)
	if f.UserFairness && !j.paced && j.class == live {
		j.Aged, j.paced = f.users.pace(j.Submit.User, j.Aged, l.Cost.Seconds(j.Predicted)), true
	}
	if !j.Started {
		cached, _ := l.Queue.Useful(l.Queue.Reach(&j.Job))
		j.CachedAtArrival = cached * j.ChainOf
		if j.class == live {
			l.arrivals.Add(f.Seconds())
			l.used = max(f.Now, 1)
		}
		if j.isFrame() {
			f.expiries.set(j, j.latest())
		}
	}
	f.push(j)
	l.Pool.places.add(j, l)
}

// Homecoming lists the jobs that wait elsewhere, not started, and whose user's home is the lane's executor, and takes
// them out of their lanes.
func (f *Fleet) Homecoming(l *Lane) (moving []*Job) {
	for _, other := range l.Pool.serving {
		if other == l || f.Routing != RouteUser {
			continue
		}
		for _, j := range other.jobs() {
			if user := hashName(j.Submit.User); !j.isFrame() && j.Lease == nil && j.Submit.User != "" && home(user, l.Executor) > home(user, other.Executor) {
				moving = append(moving, j)
			}
		}
	}
	moving = InOrder(moving)
	for _, j := range moving {
		f.take(j)
	}
	return moving
}

// Steal moves the newest request of the most loaded executor of a model to one that has nothing to do, if it would be
// done here before all the work there; a lowest one, if no other waits.
func (f *Fleet) Steal(e *Executor) {
	if f.Routing == RouteUser {
		return
	}
	for c := range classes {
		pools := f.waiting
		if c == lowest {
			if f.lowestWaiting == 0 || len(e.low.busy)+len(e.Lowest) > 0 {
				return
			}
			pools = f.Sorted()
		}
		for _, p := range pools {
			i := slices.IndexFunc(p.serving, func(l *Lane) bool { return l.Executor == e })
			if i >= 0 && p.serving[i].Closed(f.Now) == nil && f.stealFor(p.serving[i], c) {
				return
			}
		}
	}
}

func (f *Fleet) stealFor(l *Lane, c class) bool {
	var from *Lane
	var most float64
	for _, other := range l.Pool.serving {
		if other == l || other.queue(c).Len() == 0 || len(other.Executor.under(c)) == 0 {
			continue
		}
		if load := other.Executor.load(f.Now, c); load > most {
			from, most = other, load
		}
	}
	if from == nil {
		return false
	}
	q := from.queue(c).Newest()
	for q != nil && q.Lease != nil {
		q = q.Older() // its pages are there
	}
	j := of(q)
	if j == nil || f.unfit(j, l) != nil || l.Missing()+l.Cost.Seconds(j.Size(0).Alone()) >= most {
		return false
	}
	f.take(j)
	f.Enqueue(j, l)
	return true
}

// Forget drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (f *Fleet) Forget(j *Job) {
	f.expiries.forget(j)
	if !j.Started {
		f.queued(j, -1)
	}
	switch {
	case j.Lane == nil:
		j.Pool.Orphans = slices.DeleteFunc(j.Pool.Orphans, func(o *Job) bool { return o == j })
	case j.State == Waiting:
		f.take(j)
	}
	j.Release()
}

// displace takes the jobs of a lane that is gone out of it, those that wait and those in its passes.
func (f *Fleet) displace(l *Lane) []*Job {
	jobs := l.jobs()
	for _, j := range jobs {
		f.take(j)
	}
	for _, p := range l.Executor.Passes() {
		if p.Lane == l {
			jobs = append(jobs, p.Items...)
		}
	}
	for _, j := range jobs {
		j.Lease, j.Lane = nil, nil
		j.Found(0, 0)
	}
	return jobs
}

// PutBack returns the jobs of a pass that is not on its executor any more to their lane. Jobs that generate keep their
// pages, in which is what they have computed.
func (f *Fleet) PutBack(p *Pass) {
	for _, j := range p.Items {
		if j.Cancelled {
			f.Forget(j)
			continue
		}
		if !j.Continues() {
			j.Release()
		}
		f.Enqueue(j, p.Lane)
	}
}

// Refused says that a pass found no room beside others, and puts its jobs back. Until a pass has ended, and left its
// room, none of its class begins there.
func (f *Fleet) Refused(e *Executor, p *Pass) {
	if p.class == lowest {
		e.noRoom = true
	} else {
		e.Full = true
	}
	f.PutBack(p)
}

// PredictedWait is the shortest predicted time until an executor of a model has done all that
// waits for it now, but for lowest jobs.
func (f *Fleet) PredictedWait(model string) time.Duration {
	p := f.Pools[model]
	if p == nil || len(p.serving) == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, l := range p.serving {
		least = min(least, l.Executor.load(f.Now, live)+l.Missing())
	}
	return duration(least)
}
