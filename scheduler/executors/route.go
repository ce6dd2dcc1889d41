package executors

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// localityWeight is how much the work of a job weighs against the work before it when its
// executor is chosen by prefix. At 1 each job would finish soonest, and a prefix would be
// computed on every executor in turn; above 1 the executors' total work counts too.
const localityWeight = 2

// routeJob chooses among the instances that serve a model and can run the job, or says why the first of them cannot.
func (f *Fleet) routeJob(p *Pool, j *Job) (*Instance, *engine.Error) {
	if len(p.Instances) == 0 {
		return nil, engine.Errorf(engine.CodeUnavailable, "no executor serves model %q", p.Model)
	}
	instances, closed := f.openInstances(p)
	var best *Instance
	var refusal *engine.Error
	byUser := f.routing == RouteUser && j.Submit.User != ""
	user, least := hashName(j.Submit.User), math.Inf(1)
	n := nearest{job: j, places: &p.places}
	for _, inst := range instances {
		if err := f.checkFits(j, inst); err != nil {
			refusal = cmp.Or(refusal, err)
			continue
		}
		score := 0.0
		switch {
		case j.IsPromised():
			var err *engine.Error
			if score, err = f.scorePromised(j, inst); err != nil {
				refusal = cmp.Or(refusal, err)
				continue
			}
		case byUser:
			score = -homeScore(user, inst.Executor)
		default:
			score = f.predictFinish(&n, inst, least)
		}
		if best == nil || score < least {
			best, least = inst, score
		}
	}
	if best == nil {
		return nil, cmp.Or(refusal, closed)
	}
	if j.IsPromised() {
		err := f.admitPromised(j, best)
		if err != nil {
			best.DoubtCost()
		}
		return best, err
	}
	return best, nil
}

// checkFits says why an instance cannot run a job; nil if it can.
func (f *Fleet) checkFits(j *Job, inst *Instance) *engine.Error {
	m := j.Asks
	_, tokens := j.Submit.Work.(*engine.Tokens)
	if tokens != (inst.Info.Tokens != nil) {
		return engine.Errorf(engine.CodeBadTokens, "model %q takes %s", inst.Info.Name, map[bool]string{true: "tensors", false: "tokens"}[tokens])
	}
	if n := len(m.IDs) + m.Max; tokens && n > inst.Limits.MaxModelLen {
		return engine.Errorf(engine.CodeTooLong, "the prompt has %d tokens and max_tokens is %d, %d together; the limit is %d",
			len(m.IDs), m.Max, n, inst.Limits.MaxModelLen)
	}
	if need := inst.OwnPages(j); need > inst.Limits.NumBlocks {
		return engine.Errorf(engine.CodeTooLong, "%d prompt tokens and %d to generate need %d KV blocks of %d tokens, the cache has %d",
			len(m.IDs), m.Max, need, inst.Limits.BlockTokens, inst.Limits.NumBlocks)
	}
	return nil
}

// predictFinish predicts the seconds until a job would be done in an instance, its own work weighed by
// locality where that counts. Beyond the limit it need not be exact.
func (f *Fleet) predictFinish(n *nearest, inst *Instance, limit float64) float64 {
	seconds := inst.Executor.Load(n.job.Class) + inst.Missing()
	if f.routing == RoutePrefix && seconds < limit {
		todo := n.job.Size(0).Alone()
		if n.hasInstance(inst) {
			todo = inst.ExpectedWork(n.job)
		}
		seconds += localityWeight * inst.Cost.Seconds(todo)
	}
	return seconds
}

// nearest is the instances with which a job may share a prefix, found once for all instances of a block size.
type nearest struct {
	job       *Job
	places    *places
	of        int // tokens of a block; 0: not found yet
	instances []*Instance
	many      map[*Instance]bool // the same, if they are too many to be searched
}

// fewInstances is how many instances are searched sooner than a map.
const fewInstances = 16

// hasInstance says whether an instance is one of them.
func (n *nearest) hasInstance(inst *Instance) bool {
	if inst.ChainJob(n.job); n.of != n.job.ChainOf {
		n.findInstances()
	}
	return n.many[inst] || n.many == nil && slices.Contains(n.instances, inst)
}

// findInstances finds them for the block size with which the job's chain was made last.
func (n *nearest) findInstances() {
	n.instances, n.of, n.many = n.places.instancesFor(n.job), n.job.ChainOf, nil
	if len(n.instances) <= fewInstances {
		return
	}
	n.many = make(map[*Instance]bool, len(n.instances))
	for _, inst := range n.instances {
		n.many[inst] = true
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
	for _, inst := range p.serving {
		least = min(least, inst.Executor.Load(Live)+inst.Missing())
	}
	return secondsToDuration(least)
}

// homeScore weighs an executor for a user (rendezvous hashing): the one with the most weight is the
// user's. When it dies its users alone move, and they come back when it does.
func homeScore(user uint64, e *Executor) float64 { return float64(mixBits(user ^ e.Salt)) }

// hashName spreads names, of users and executors, over all numbers.
func hashName(name string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mixBits(h)
}

// mixBits spreads the entropy of x over all bits (the finaliser of SplitMix64, Steele et al., 2014):
// FNV's high bits hardly depend on the last bytes.
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Homecoming lists the jobs that wait elsewhere, not started, and whose user's home is the instance's executor, and takes
// them out of their instances.
func (f *Fleet) Homecoming(inst *Instance) (moving []*Job) {
	for _, other := range f.poolOf(inst).serving {
		if other == inst || f.routing != RouteUser {
			continue
		}
		for _, j := range other.Jobs() {
			if user := hashName(j.Submit.User); !j.IsFrame() && j.Lease == nil && j.Submit.User != "" && homeScore(user, inst.Executor) > homeScore(user, other.Executor) {
				moving = append(moving, j)
			}
		}
	}
	moving = SortBySubmission(moving)
	for _, j := range moving {
		j.Instance.TakeJob(j)
	}
	return moving
}
