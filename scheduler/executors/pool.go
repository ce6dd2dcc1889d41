package executors

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
)

// Pool is the instances of one model, and the jobs for which there is none.
type Pool struct {
	Group
	Known     bool        // an executor has had it
	Instances []*Instance // in the order of registration
	Orphans   []*Job      // in the order of submission

	serving []*Instance // those that can be run and whose checkpoint is the first one's: others would answer differently
	places  places
	told    time.Duration // of a unit, in Served
}

// poolForModel is that of a model, made if there was none.
func (f *Fleet) poolForModel(model string) *Pool {
	p := f.Pools[model]
	if p == nil {
		p = &Pool{Group: NewGroup(model), places: places{by: map[kvcache.Hash][]*Instance{}}}
		f.Pools[model] = p
	}
	return p
}

// Sorted lists the pools by the names of their models.
func (f *Fleet) Sorted() []*Pool {
	return slices.SortedFunc(maps.Values(f.Pools), func(a, b *Pool) int { return cmp.Compare(a.Model, b.Model) })
}

// electInfo finds the instances that serve.
func (p *Pool) electInfo() {
	p.serving = p.serving[:0]
	for _, inst := range p.Instances {
		if inst.Useless() {
			continue
		}
		if len(p.serving) == 0 || inst.Info.Fingerprint == p.serving[0].Info.Fingerprint {
			p.serving = append(p.serving, inst)
		}
	}
}

// openInstances lists the instances that take jobs now, or says why there are none.
func (f *Fleet) openInstances(p *Pool) (instances []*Instance, refusal *engine.Error) {
	for _, inst := range p.serving {
		if err := inst.Closed(f.Now); err != nil {
			refusal = cmp.Or(refusal, err)
			continue
		}
		instances = append(instances, inst)
	}
	if len(p.serving) == 0 {
		refusal = p.Instances[0].Unusable()
	}
	return instances, refusal
}

// Gauges are the pool's counters, and its gauges as they are.
func (p *Pool) Gauges() wire.ModelStats {
	s := p.Stats
	s.PassUnits = slices.Clone(s.PassUnits)
	s.Waiting = p.Group.Waiting + len(p.Orphans)
	used, blocks := 0, 0
	for _, inst := range p.Instances {
		s.Lowest += inst.Lowest.Len()
		for _, ps := range inst.Passes() {
			switch {
			case ps.IsLowest():
				s.Lowest += len(ps.Items)
			default:
				s.Running += len(ps.Items)
			}
		}
		used += inst.Cache.Index.Used()
		blocks += inst.Cache.Index.Blocks()
	}
	if blocks > 0 {
		s.CacheUsed = float64(used) / float64(blocks)
	}
	return s
}

// Served is what frontends are told of the pool's model.
func (p *Pool) Served(now time.Duration) wire.Served {
	instances := p.serving
	if len(instances) == 0 {
		instances = p.Instances[:1]
	}
	first := instances[0]
	s := wire.Served{
		Name: p.Model, State: wire.ModelFailed, Executors: len(p.serving), Keep: first.Keeping(),
		Bytes: first.Bytes(), Step: first.Info.Step, Cost: first.Info.Cost, Tensors: first.Info.Tensors,
	}
	if now, known := first.Cost.Now(); known {
		s.Cost = now
	}
	p.told = s.Cost.Unit
	if first.Info.Tokens != nil {
		s.Tokens = limitsOf(instances)
	}
	for _, inst := range instances {
		state := inst.State(now)
		if isBetter(state, s.State) {
			s.State = state
		}
		if inst.Ready() {
			s.Loaded++
		}
		s.Reason = cmp.Or(s.Reason, inst.Reason())
	}
	return s
}

// drifts is how much more or less a frame may take than frontends were told, before they are told again.
const drifts = 1.25

// Drifted says that frames of a model take more or less than frontends were told, who reckon with that.
func (f *Fleet) Drifted() bool {
	for _, p := range f.Pools {
		if p.hasDrifted() {
			return true
		}
	}
	return false
}

func (p *Pool) hasDrifted() bool {
	if len(p.serving) == 0 || p.serving[0].Info.Tensors == nil || p.told == 0 {
		return false
	}
	now, known := p.serving[0].Cost.Now()
	ratio := now.Unit.Seconds() / p.told.Seconds()
	return known && (ratio > drifts || ratio < 1/drifts)
}

// isBetter says that a state is to be told rather than another.
func isBetter(a, b wire.ModelState) bool {
	rank := [...]int{wire.ModelAbsent: 1, wire.ModelLoading: 2, wire.ModelReady: 3, wire.ModelUnloading: 4, wire.ModelFailed: 0}
	return rank[a] > rank[b]
}

// limitsOf are the limits of instances of one model together.
func limitsOf(instances []*Instance) *wire.TokenLimits {
	limits := *instances[0].Info.Tokens
	for _, inst := range instances[1:] {
		limits.MaxModelLen = max(limits.MaxModelLen, inst.Limits.MaxModelLen)
		limits.MaxPassRows = max(limits.MaxPassRows, inst.Limits.MaxPassRows)
		limits.NumBlocks += inst.Limits.NumBlocks
		limits.HostBlocks += inst.Limits.HostBlocks
	}
	return &limits
}
