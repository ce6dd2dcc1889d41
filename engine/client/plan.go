package client

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Plan is a job of tensors that is being prepared: devices will be asked for it.
type Plan struct {
	Wait time.Duration // until devices are done with what this client has asked them for, and prepares, of the same model
	Cost time.Duration // of the job

	client *Client
	model  string
}

// Plan counts a job of so many units that is to come, until its End.
func (c *Client) Plan(m *wire.Served, units float64) *Plan {
	p := &Plan{Cost: m.TensorTime(units), client: c, model: m.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Wait = c.ahead[m.Name] / time.Duration(max(1, m.Executors))
	c.addAhead(p.model, p.Cost)
	return p
}

// End counts the job no more: it was submitted, or never will be.
func (p *Plan) End() {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	p.client.addAhead(p.model, -p.Cost)
}

// addAhead counts what devices need for jobs of a model; the caller holds mu.
func (c *Client) addAhead(model string, cost time.Duration) {
	if cost == 0 {
		return
	}
	if c.ahead[model] += cost; c.ahead[model] == 0 {
		delete(c.ahead, model)
	}
}
