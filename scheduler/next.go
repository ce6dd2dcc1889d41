package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// handleNext takes how an open job goes on. One that is being run again, since its client or this scheduler missed a message,
// has yet to come as far.
func (c *Core) handleNext(from PeerID, m *wire.Next) {
	if j := c.jobs[m.Job]; j != nil && j.Frontend.ID == from {
		j.Next = m
		c.continueJob(j)
	}
}

// goOn makes of a held job the one that its client has asked for, if it has, and places it.
func (c *Core) continueJob(j *executors.Job) {
	m := j.Next
	if j.State != executors.Held || m == nil || m.Generated != j.Answers()+len(m.Tokens) {
		return
	}
	extendJob(j, m)
	c.fleet.RenewOrder(j)
	if inst := c.placeJob(j); inst != nil {
		c.dispatchWork(inst.Executor)
	}
}

// extendJob appends what is new to the job's sequence. Lists that others hold are not written to: they end before that.
func extendJob(j *executors.Job, m *wire.Next) {
	asks, ids := *j.Asks, j.Prompt
	if j.Asks == j.Submit.Work {
		ids = slices.Clip(ids) // the message's
	}
	asks.IDs = append(append(ids, j.Added...), m.Tokens...)
	asks.Generated, asks.Max, asks.Open = m.Generated, 1, m.Open
	asks.Ask.Allowed, asks.Ask.PromptLogprobs, asks.Ask.PromptTop, asks.Ask.PromptFrom = m.Allowed, false, 0, 0
	j.Asks, j.Prompt, j.Added, j.Next = &asks, asks.IDs, nil, nil
	j.Whole, j.Known, j.Scores.Known = false, 0, nil
}
