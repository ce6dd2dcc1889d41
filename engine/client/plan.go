package client

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Plan is a job of tensors that is being prepared: devices will be asked for it.
type Plan struct {
	Wait time.Duration // until devices are done with what this client has asked them for, and prepares, of the same model
	Cost time.Duration // of the job, at the pace of late

	client *Client
	model  *wire.Served
	alone  time.Duration // that the job takes where nothing else runs
	begun  bool
}

// backlog is what devices have to do for jobs of a model, were nothing else done there, and how much longer that took of late.
type backlog struct {
	planned time.Duration // for jobs whose preparation has not begun
	asked   time.Duration // for those whose has, and for open ones

	// of jobs of late: for how long devices had them to do, and how long that had taken alone
	took, alone time.Duration
	ended       time.Time // the last of them
}

// How the pace of devices is learnt. Passes share processors and devices with others, and several jobs may share a pass, so what counts is
// how long this client has waited for any job at all. A job counts less with each of paceJobs after it, and what was learnt with
// each paceFades that none ended: what is refused because of it teaches nothing.
const (
	paceJobs   = 16
	paceFades  = 5 * time.Second
	slowestYet = 20 // times
)

// slowness is how many times what it would take alone a job takes.
func (b *backlog) slowness(now time.Time) float64 {
	if b.alone <= 0 {
		return 1
	}
	ratio := min(float64(b.took)/float64(b.alone), slowestYet)
	return 1 + (ratio-1)*math.Exp2(-float64(now.Sub(b.ended))/float64(paceFades))
}

// note counts a job that has ended on one of so many devices.
func (b *backlog) note(now time.Time, j *Job, executors int) {
	from := j.begun
	if b.ended.After(from) {
		from = b.ended
	}
	fade := func(sum, more time.Duration) time.Duration { return sum - sum/paceJobs + more }
	b.took, b.alone = fade(b.took, now.Sub(from)*time.Duration(executors)), fade(b.alone, j.cost)
	b.ended = now
}

// Plan counts a job of so many units that is to come, until its End.
func (c *Client) Plan(m *wire.Served, units float64) *Plan {
	p := &Plan{client: c, model: m, alone: m.TensorTime(units)}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.backlogOf(m.Name)
	p.Wait, p.Cost = p.predict(b, b.planned+b.asked), p.predict(b, p.alone*time.Duration(p.executors()))
	b.planned += p.alone
	return p
}

func (p *Plan) executors() int { return max(1, p.model.Executors) }

// predict is how long devices take for work; the caller holds mu.
func (p *Plan) predict(b *backlog, work time.Duration) time.Duration {
	return time.Duration(float64(work) * b.slowness(time.Now()) / float64(p.executors()))
}

// Begin notes that the job's preparation begins, and tells anew how long devices are busy until then, those jobs that
// may be prepared later left out, and how long the job takes.
func (p *Plan) Begin() (wait, cost time.Duration) {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	b := p.client.backlogOf(p.model.Name)
	if p.begun {
		b.asked -= p.alone
	} else {
		b.planned -= p.alone
	}
	p.Wait, p.Cost = p.predict(b, b.asked), p.predict(b, p.alone*time.Duration(p.executors()))
	b.asked += p.alone
	p.begun = true
	return p.Wait, p.Cost
}

// End counts the job no more: it was submitted, or never will be.
func (p *Plan) End() {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	if b := p.client.backlogOf(p.model.Name); p.begun {
		b.asked -= p.alone
	} else {
		b.planned -= p.alone
	}
}

// backlogOf is that of a model; the caller holds mu.
func (c *Client) backlogOf(model string) *backlog {
	b := c.backlogs[model]
	if b == nil {
		b = new(backlog)
		c.backlogs[model] = b
	}
	return b
}

// notePace counts a job of tensors whose Result has come; the caller holds mu.
func (c *Client) notePace(j *Job, r *wire.Result) {
	m := c.State().Models[j.submit.Model]
	if j.cost > 0 && m != nil && r.Err == nil && r.Timing.Loading == 0 {
		c.backlogOf(j.submit.Model).note(time.Now(), j, max(1, m.Executors))
	}
}
