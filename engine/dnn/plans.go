package dnn

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/internal/mapped"
	"github.com/prefillonly/prefillonly/kernels"
)

// maxPlans is how many plans of a network are kept, those used last.
const maxPlans = 16

// compiled is a plan, and what it is bound to while the weights are resident.
type compiled struct {
	*plan.Plan
	key   string
	keys  []string         // of its weights
	users int              // of plans.getPlan, which have not released it; guarded by plans.mu
	runs  [areas]*plan.Run // nil where it was not run since the weights came
	held  []kernels.Held   // its weights; nil before
	own   []kernels.Held   // of these, those that are no other plan's
}

// unbindRuns lets go of what depends on resident weights, or on where passes compute.
func (c *compiled) unbindRuns() {
	for _, h := range c.own {
		h.Free()
	}
	c.runs, c.held, c.own = [areas]*plan.Run{}, nil, nil
}

// recipe is what a plan computes: a network for inputs of some shapes, or its gradient.
type recipe struct {
	network *Network
	device  kernels.Networks // to plan for; nil: the host computes all
	shapes  map[string][]int
	want    *gradientOf // nil: none
}

func (r *recipe) key() string {
	if r.want == nil {
		return r.network.describeShapes(r.shapes)
	}
	return fmt.Sprintf("%s %q", r.network.describeShapes(r.shapes), r.want)
}

// makePlan makes the plan. It may be called by any goroutine while the network's files are open.
func (r *recipe) makePlan() (*compiled, error) {
	c := &compiled{key: r.key()}
	err := mapped.Guard(func() (err error) {
		var special *graph.Graph
		if special, err = specialiseGraph(r.network.graph, r.shapes); err == nil && r.want != nil {
			special, err = r.want.buildGradient(special)
		}
		if err == nil {
			c.Plan, err = buildPlan(special, r.device)
		}
		if err != nil {
			return err
		}
		for i := range c.Weights {
			c.keys = append(c.keys, keyOf(&c.Weights[i]))
		}
		return r.network.Unchanged()
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// plans are those of a network for several shapes. Get, has and release may be called by any goroutine; the rest is
// for the one that uses the device.
type plans struct {
	network *Network
	device  kernels.Networks
	limit   int64 // bytes to compute in

	mu   sync.Mutex
	list []*compiled // those used last come last; guarded by mu
}

func newPlans(n *Network, device kernels.Networks) *plans {
	return &plans{network: n, device: device, list: n.takeAhead(device)}
}

// newRecipe is that of a plan for inputs of these shapes, which also computes the gradient that is wanted.
func (p *plans) newRecipe(shapes map[string][]int, want *gradientOf) *recipe {
	return &recipe{p.network, p.device, shapes, want}
}

// findPlan is the plan of a key, to be used next, or nil; mu is held.
func (p *plans) findPlan(key string) *compiled {
	i := slices.IndexFunc(p.list, func(c *compiled) bool { return c.key == key })
	if i < 0 {
		return nil
	}
	c := p.list[i]
	p.list = append(slices.Delete(p.list, i, i+1), c)
	c.users++
	return c
}

// hasPlan says whether there is a plan, and none would be made by get.
func (p *plans) hasPlan(r *recipe) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.key()
	return slices.ContainsFunc(p.list, func(c *compiled) bool { return c.key == key })
}

// getPlan finds a plan, or makes it; it is kept until it is released.
func (p *plans) getPlan(r *recipe) (*compiled, error) {
	p.mu.Lock()
	c := p.findPlan(r.key())
	p.mu.Unlock()
	if c != nil {
		return c, nil
	}
	made, err := r.makePlan()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.findPlan(made.key); c != nil { // it was made twice at a time
		return c, nil
	}
	made.users++
	p.list = append(p.list, made)
	return made, nil
}

// release ends a use of a plan.
func (p *plans) release(c *compiled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.users--
}

// trim lets go of plans beyond maxPlans: those that were used the longest time ago, of those that nobody uses.
func (p *plans) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.list) > maxPlans {
		i := slices.IndexFunc(p.list, func(c *compiled) bool { return c.users == 0 })
		if i < 0 {
			return
		}
		p.list[i].unbindRuns()
		p.list = slices.Delete(p.list, i, i+1)
	}
}

// unbind is that of all plans.
func (p *plans) unbind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.list {
		c.unbindRuns()
	}
}

// seconds is how long a pass is expected to take; more than none.
func (c *compiled) seconds() float64 { return max(c.Seconds, 1e-6) }
