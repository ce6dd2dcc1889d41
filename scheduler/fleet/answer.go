package fleet

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/scores"
)

// Ended notes that a pass has ended and, if it went well, that it took so long by its executor's clock; 0 if that does
// not tell. It returns how long it ran, by ours.
func (f *Fleet) Ended(p *Pass, took time.Duration, well bool) (ran time.Duration) {
	ran = p.Ran + f.Now - p.Started
	p.count()
	if !well {
		return ran
	}
	if took <= 0 && p.class == live {
		took = ran
	}
	l := p.Lane
	if took > 0 {
		l.Pool.Stats.PassTime += took
		l.Cost.Observe(p.Work, took)
		l.told = f.Now
	}
	if p.class == live { // nobody waits for others to end
		l.longest = max(took.Seconds(), fading*l.longest)
	}
	if l.Info.Cost.Unit <= 0 {
		l.Executor.setAging(f.Fairness)
	}
	return ran
}

// fading is what each pass leaves of the longest one's length.
const fading = 0.98

// Fault is what is wrong with the answer to a pass as a whole; nil if nothing is.
func (p *Pass) Fault(m *wire.Done) *engine.Error {
	if m.Err != nil {
		return m.Err
	}
	if slices.EqualFunc(p.Items, m.Items, func(j *Job, item wire.ItemResult) bool { return j.Submit.ID == item.Job }) {
		return nil
	}
	return engine.Errorf(engine.CodeInternal, "executor %s answered pass %d for other jobs than it was given", p.executor(), p.ID)
}

func (p *Pass) executor() string { return p.Lane.Executor.Peer.Name.Name }

// Fault is what is wrong with the answer to one job; nil if nothing is.
func (j *Job) Fault(item *wire.ItemResult) *engine.Error {
	executor := j.Lane.Executor.Peer.Name.Name
	out, tokens := item.Output.(*engine.TokenOutput)
	_, tensors := item.Output.(*engine.TensorOutput)
	_, prompt := j.Submit.Work.(*engine.Tokens)
	switch {
	case item.Err != nil:
		return item.Err
	case prompt && !tokens, !prompt && !tensors:
		return engine.Errorf(engine.CodeInternal, "executor %s answered %T with %T", executor, j.Submit.Work, item.Output)
	case j.Asks.Max > 0 && out.Answer == nil:
		return engine.Errorf(engine.CodeInternal, "executor %s gave no answer", executor)
	case j.Asks.Ask.Pool != engine.PoolNone:
		return j.vectorFault(out)
	case j.Asks.Ask.PromptLogprobs && j.Generated() == 0 && len(out.Prompt) != len(j.Asks.IDs)-min(max(j.Known, 1), len(j.Asks.IDs)):
		return engine.Errorf(engine.CodeInternal, "executor %s gave logprobs of %d positions of a prompt of %d tokens", executor, len(out.Prompt), len(j.Asks.IDs))
	}
	return nil
}

// vectorFault is what is wrong with the vector of a prompt; nil if nothing is.
func (j *Job) vectorFault(out *engine.TokenOutput) *engine.Error {
	limits, rows := j.Lane.limits, 1
	if j.Asks.Ask.Pool == engine.PoolAll {
		rows = len(j.Asks.IDs)
	}
	want := rows * limits.Hidden
	if j.Asks.Ask.Head {
		want = rows * limits.Labels
	}
	if len(out.Vector) != want {
		return engine.Errorf(engine.CodeInternal, "executor %s gave %d numbers where %d belong", j.Lane.Executor.Peer.Name.Name, len(out.Vector), want)
	}
	return nil
}

// Token takes what a pass has found for a job of tokens, and returns what its client is told.
func (j *Job) Token(found *engine.TokenOutput) (*engine.TokenOutput, engine.Finish) {
	out := &engine.TokenOutput{Cached: j.Hits}
	if j.Generated() == 0 {
		out.Prompt, out.Vector = scores.Join(j.known, j.Asks.Ask.PromptTop, found.Prompt), found.Vector
	}
	if j.Asks.Max == 0 {
		return out, engine.FinishLength
	}
	out.Index, out.Answer = j.Generated(), found.Answer
	j.Added = append(j.Added, found.Answer.Token)
	switch {
	case slices.Contains(j.Asks.Stop, found.Answer.Token):
		return out, engine.FinishStop
	case j.Generated() >= j.Asks.Max:
		return out, engine.FinishLength
	}
	return out, engine.FinishNone
}

// TooLate is why a job that has expired is dropped.
func (f *Fleet) TooLate(j *Job) *engine.Error {
	waited := (f.Now - j.Arrival).Seconds()
	if !j.isFrame() || j.Lane == nil {
		return engine.Errorf(engine.CodeDeadline, "the deadline of %v passed after %.3f s in the queue", j.Submit.Deadline, waited)
	}
	j.Pool.Stats.Late++
	return engine.Errorf(engine.CodeDeadline, "after %.3f s in the queue the deadline of %v cannot be met: a pass takes %.3f s",
		waited, j.Submit.Deadline, j.Lane.Cost.Seconds(j.Left()))
}
