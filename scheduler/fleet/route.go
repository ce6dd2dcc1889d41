package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler/dispatch"
)

// localityWeight is how much the work of a job weighs against the work before it when its
// executor is chosen by prefix. At 1 each job would finish soonest, and a prefix would be
// computed on every executor in turn; above 1 the executors' total work counts too.
const localityWeight = 2

// route chooses among the lanes that serve a model and can run the job, or says why the first of them cannot.
func (f *Fleet) route(p *Pool, j *dispatch.Job) (*dispatch.Lane, *engine.Error) {
	if len(p.Lanes) == 0 {
		return nil, engine.Errorf(engine.CodeUnavailable, "no executor serves model %q", p.Model)
	}
	lanes, closed := f.open(p)
	var best *dispatch.Lane
	var refusal *engine.Error
	byUser := f.routing == RouteUser && j.Submit.User != ""
	user, least := hashName(j.Submit.User), math.Inf(1)
	n := near{job: j, places: &p.places}
	for _, l := range lanes {
		if err := f.unfit(j, l); err != nil {
			refusal = cmp.Or(refusal, err)
			continue
		}
		score := 0.0
		switch {
		case j.IsPromised():
			var err *engine.Error
			if score, err = f.promised(j, l); err != nil {
				refusal = cmp.Or(refusal, err)
				continue
			}
		case byUser:
			score = -home(user, l.Executor)
		default:
			score = f.finish(&n, l, least)
		}
		if best == nil || score < least {
			best, least = l, score
		}
	}
	if best == nil {
		return nil, cmp.Or(refusal, closed)
	}
	if j.IsPromised() {
		err := f.admit(j, best)
		if err != nil {
			best.Doubt()
		}
		return best, err
	}
	return best, nil
}

// unfit says why a lane cannot run a job; nil if it can.
func (f *Fleet) unfit(j *dispatch.Job, l *dispatch.Lane) *engine.Error {
	m := j.Asks
	_, tokens := j.Submit.Work.(*engine.Tokens)
	if tokens != (l.Info.Tokens != nil) {
		return engine.Errorf(engine.CodeBadTokens, "model %q takes %s", l.Info.Name, map[bool]string{true: "tensors", false: "tokens"}[tokens])
	}
	if n := len(m.IDs) + m.Max; tokens && n > l.Limits.MaxModelLen {
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens and max_tokens is %d, %d together; the limit is %d",
			len(m.IDs), m.Max, n, l.Limits.MaxModelLen)
	}
	if need := l.OwnPages(j); need > l.Limits.NumBlocks {
		return engine.Errorf(engine.CodeTooLong, "%d prompt tokens and %d to generate need %d KV blocks of %d tokens, the cache has %d",
			len(m.IDs), m.Max, need, l.Limits.BlockTokens, l.Limits.NumBlocks)
	}
	return nil
}

// finish predicts the seconds until a job would be done in a lane, its own work weighed by
// locality where that counts. Beyond the limit it need not be exact.
func (f *Fleet) finish(n *near, l *dispatch.Lane, limit float64) float64 {
	seconds := l.Executor.Load(n.job.Class) + l.Missing()
	if f.routing == RoutePrefix && seconds < limit {
		todo := n.job.Size(0).Alone()
		if n.has(l) {
			todo = l.Expected(n.job)
		}
		seconds += localityWeight * l.Cost.Seconds(todo)
	}
	return seconds
}

// near is the lanes with which a job may share a prefix, found once for all lanes of a block size.
type near struct {
	job    *dispatch.Job
	places *places
	of     int // tokens of a block; 0: not found yet
	lanes  []*dispatch.Lane
	many   map[*dispatch.Lane]bool // the same, if they are too many to be searched
}

// fewLanes is how many lanes are searched sooner than a map.
const fewLanes = 16

// has says whether a lane is one of them.
func (n *near) has(l *dispatch.Lane) bool {
	if l.Chain(n.job); n.of != n.job.ChainOf {
		n.find()
	}
	return n.many[l] || n.many == nil && slices.Contains(n.lanes, l)
}

// find finds them for the block size with which the job's chain was made last.
func (n *near) find() {
	n.lanes, n.of, n.many = n.places.of(n.job), n.job.ChainOf, nil
	if len(n.lanes) <= fewLanes {
		return
	}
	n.many = make(map[*dispatch.Lane]bool, len(n.lanes))
	for _, l := range n.lanes {
		n.many[l] = true
	}
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
		least = min(least, l.Executor.Load(dispatch.Live)+l.Missing())
	}
	return duration(least)
}
