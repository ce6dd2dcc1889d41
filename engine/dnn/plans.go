package dnn

import (
	"fmt"
	"slices"

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
	users int              // items of passes that are open
	runs  [areas]*plan.Run // nil where it was not run since the weights came
	held  []kernels.Held   // its weights; nil before
	own   []kernels.Held   // of these, those that are no other plan's
}

// unbind lets go of what depends on resident weights, or on where passes compute.
func (c *compiled) unbind() {
	for _, h := range c.own {
		h.Free()
	}
	c.runs, c.held, c.own = [areas]*plan.Run{}, nil, nil
}

// plans are those of a network for several shapes.
type plans struct {
	network *Network
	device  bool        // there is a kernels.Networks to plan for
	limit   int64       // bytes to compute in
	list    []*compiled // those used last come last
}

func newPlans(n *Network, device bool) *plans { return &plans{network: n, device: device} }

// forward is the plan for inputs of these shapes.
func (p *plans) forward(shapes map[string][]int) (*compiled, error) {
	return p.get(p.network.describe(shapes), func() (*plan.Plan, error) {
		special, err := specialised(p.network.graph, shapes)
		if err != nil {
			return nil, err
		}
		return built(special, p.device)
	})
}

// backward is the plan that also computes gradients.
func (p *plans) backward(shapes map[string][]int, want gradientOf) (*compiled, error) {
	return p.get(fmt.Sprintf("%s %q", p.network.describe(shapes), want), func() (*plan.Plan, error) {
		special, err := specialised(p.network.graph, shapes)
		if err != nil {
			return nil, err
		}
		if special, err = want.of(special); err != nil {
			return nil, err
		}
		return built(special, p.device)
	})
}

// get finds a plan, or makes it.
func (p *plans) get(key string, build func() (*plan.Plan, error)) (*compiled, error) {
	if i := slices.IndexFunc(p.list, func(c *compiled) bool { return c.key == key }); i >= 0 {
		c := p.list[i]
		p.list = append(slices.Delete(p.list, i, i+1), c)
		return c, nil
	}
	c := &compiled{key: key}
	err := mapped.Guard(func() (err error) {
		if c.Plan, err = build(); err != nil {
			return err
		}
		for i := range c.Weights {
			c.keys = append(c.keys, keyOf(&c.Weights[i]))
		}
		return p.network.Unchanged()
	})
	if err != nil {
		return nil, err
	}
	p.list = append(p.list, c)
	if len(p.list) > maxPlans {
		p.evict()
	}
	return c, nil
}

// evict lets go of the plan that was used the longest time ago, of those that no pass needs.
func (p *plans) evict() {
	i := slices.IndexFunc(p.list, func(c *compiled) bool { return c.users == 0 })
	if i < 0 {
		return
	}
	p.list[i].unbind()
	p.list = slices.Delete(p.list, i, i+1)
}

// unbind is that of all plans.
func (p *plans) unbind() {
	for _, c := range p.list {
		c.unbind()
	}
}

// seconds is how long a pass is expected to take; more than none.
func (c *compiled) seconds() float64 { return max(c.Seconds, 1e-6) }
