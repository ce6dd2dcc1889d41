package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// passFault is what is wrong with the answer to a pass as a whole; nil if nothing is.
func passFault(p *executors.Pass, m *wire.Done) *engine.Error {
	if m.Err != nil {
		return m.Err
	}
	if slices.EqualFunc(p.Items, m.Items, func(j *executors.Job, item wire.ItemResult) bool { return j.Submit.ID == item.Job }) {
		return nil
	}
	return engine.Errorf(engine.CodeInternal, "executor %s answered pass %d for other jobs than it was given", p.Instance.Executor.Name, p.ID)
}

// jobFault is what is wrong with the answer to one job; nil if nothing is.
func jobFault(j *executors.Job, item *wire.ItemResult) *engine.Error {
	executor := j.Instance.Executor.Name
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
		return vectorFault(j, out)
	case j.AsksScores() && len(out.Prompt) != len(j.Asks.IDs)-min(max(j.Known, 1), len(j.Asks.IDs)):
		return engine.Errorf(engine.CodeInternal, "executor %s gave logprobs of %d positions of a prompt of %d tokens", executor, len(out.Prompt), len(j.Asks.IDs))
	}
	return nil
}

// vectorFault is what is wrong with the vector of a prompt; nil if nothing is.
func vectorFault(j *executors.Job, out *engine.TokenOutput) *engine.Error {
	limits, rows := j.Instance.Limits, 1
	if j.Asks.Ask.Pool == engine.PoolAll {
		rows = len(j.Asks.IDs)
	}
	want := rows * limits.Hidden
	if j.Asks.Ask.Head {
		want = rows * limits.Labels
	}
	if len(out.Vector) != want {
		return engine.Errorf(engine.CodeInternal, "executor %s gave %d numbers where %d belong", j.Instance.Executor.Name, len(out.Vector), want)
	}
	return nil
}

// applyTokenOutput takes what a pass has found for a job of tokens, and returns what its client is told.
func applyTokenOutput(j *executors.Job, found *engine.TokenOutput) (*engine.TokenOutput, engine.Finish) {
	out := &engine.TokenOutput{Cached: j.Hits}
	if j.Generated() == 0 {
		out.Prompt, out.Vector = executors.JoinScores(j.Scores.Known, j.Asks.Ask.PromptTop, found.Prompt), found.Vector
	}
	if j.Asks.Max == 0 {
		return out, engine.FinishLength
	}
	out.Index, out.Answer = j.Answers(), found.Answer
	j.Added = append(j.Added, found.Answer.Token)
	switch {
	case slices.Contains(j.Asks.Stop, found.Answer.Token):
		return out, engine.FinishStop
	case isComplete(j) && !j.Asks.Open:
		return out, engine.FinishLength
	}
	return out, engine.FinishNone
}

// isComplete says that the job has all tokens that it was to generate.
func isComplete(j *executors.Job) bool { return j.Generated() >= j.Asks.Max }

// tooLate is why a job that has expired is dropped.
func (c *Core) lateError(j *executors.Job) *engine.Error {
	waited := (c.fleet.Now - j.Arrival).Seconds()
	if !j.IsFrame() || j.Instance == nil {
		return engine.Errorf(engine.CodeDeadline, "the deadline of %v passed after %.3f s in the queue", j.Submit.Deadline, waited)
	}
	j.Instance.Group.Stats.Late++
	return engine.Errorf(engine.CodeDeadline, "after %.3f s in the queue the deadline of %v cannot be met: a pass takes %.3f s",
		waited, j.Submit.Deadline, j.Instance.Cost.Seconds(j.Left()))
}
